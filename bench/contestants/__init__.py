"""The clients that are compared, each a module with the same `start(kubeconfig, namespace)` → `Contestant`.

They run as `python -m bench.contestants NAME …`, in a process that imports nothing of the others.
"""
