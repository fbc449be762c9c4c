"""The local engine: runs as processes of this machine. Small on purpose: for trials and tests, not a scheduler.

It renders a run as `manifests` does, lets the run's admission admit the objects, and executes what was admitted, as a
kubelet would. Every run has one supervisor (`procs`) that outlives the server. Everything is in files of the place;
there is no database. May import `app`, `manifests`, `domain`, `pods`, `spec`, `procs` and `launcher`.

Start in `local_engine.py`: the port. `pod_plans.py` turns a pod into a plan of `procs`, `observations.py` turns files
into observations. `folders/` is what is on disk, the anchor among it; `capacity/` shares out the machine;
`virtual_environments/` is for python functions, `containers/` for container functions.
"""
