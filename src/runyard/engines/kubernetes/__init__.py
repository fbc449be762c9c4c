"""The Kubernetes engine: runs are Jobs and Deployments of a cluster. docs/design/kubernetes-engine.md explains it.

`kubernetes_engine.py` implements the port. What it reads comes from reflectors (`cluster_cache.py`) as narrow views
(`views.py`); `observations` turns the objects of one run into an observation, purely. What it writes passes
`cluster_writes.py`, which takes admitted objects and patches of `manifests` only.
"""
