"""Facts about pods: pure functions over the plain dictionaries that are sent to Kubernetes.

`demand.py`: the requests and limits that the scheduler counts. `security/`: Pod Security, with Kubernetes' messages.
`container_failure.py`: why a container cannot start. `termination.py`: the message that a container left at its end.
`memory_advice.py`: what to request after running out of memory.

May import `spec`. Everything here reads dictionaries: a typed view would drop unknown fields and so let them pass.
"""
