"""The local engine: runs as processes of this machine. Small on purpose: for trials and tests, not a scheduler.

It renders a run as `manifests` does, lets the run's admission admit the objects, and executes what was admitted, as a
kubelet would. Every run has one supervisor (`procs`) that outlives the server. Everything is in files of the place;
there is no database. May import `app`, `manifests`, `domain`, `pods`, `spec` and `procs`.

Start in `local_engine.py`: the port. `run_folders.py` is the anchor, `pod_plans.py` turns a pod into a plan of `procs`,
`observations.py` turns files into observations.
"""
