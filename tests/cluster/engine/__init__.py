"""The Kubernetes engine, and what it starts, on a real cluster."""
