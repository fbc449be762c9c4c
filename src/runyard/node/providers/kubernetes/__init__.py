"""The provider that is another Kubernetes cluster, reached by a kubeconfig: pods, routes and streams in one namespace.

Everything there carries the label of the node and the uid of its local original. `provider.py` implements the Protocol.
"""
