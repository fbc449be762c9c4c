"""A real Kubernetes on one machine: etcd, control plane, kubelet and containers, in namespaces of its own.

For tests and trials, never for production. Uses the standard library and `cryptography`, and nothing of
`runyard`: what tests the product must not stand on it. Start in `cluster.py`; the page is
`docs/design/testbed.md`.
"""
