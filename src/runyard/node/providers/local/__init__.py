"""The provider `local`: pods are processes of this machine, for trials without a second cluster.

It has no images, no network of its own and no isolation: commands run as the agent's user. `rules.py` lists what it
refuses. Start in `local_provider.py`; `environment.py`, `volume_files.py` and `pod_status.py` are pure. Processes are
supervised by `runyard.procs`, so that they outlive the agent.
"""
