"""Facts about pods: pure functions over the plain dictionaries that are sent to Kubernetes.

`demand.py`: what the scheduler counts a pod as. `security/`: Pod Security, in Kubernetes' own words. `failure.py`: why
a container can never start.

May import `spec`. A typed view would drop what it does not know and so let it pass: everything here reads dictionaries.
"""
