"""Runyard runs AI tasks, batch jobs and model serving, on Kubernetes with exactly the resources they need."""

__version__ = "0.1.0"
