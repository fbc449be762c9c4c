"""Services of type LoadBalancer whose class is the node's name: each becomes an HTTPS route at the provider.

`hosts.py` and `route_rules.py` decide, purely; `service_loop.py` acts on the local cluster and on `Routes`.
Services of other classes are never changed, and only four fields of them are kept.
"""
