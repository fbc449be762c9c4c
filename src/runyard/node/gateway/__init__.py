"""A small HTTPS gateway for trials: no ingress controller, no certificate of the operator's own.

`gateway.py` watches the Services that `providers/kubernetes/routes.py` made and serves their hosts; `certificates.py`
issues a certificate per host from a CA of its own; `proxy.py` passes requests on to pods. Not for production: one
process, and clients must trust its CA or use `curl -k`.
"""
