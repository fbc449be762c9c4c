"""Who really runs the pods of the virtual node.

`provider.py` is the Protocol: a small required part, and optional parts beside it. `kubernetes/` runs pods on another
cluster, `local/` on this machine. A provider imports nothing else of `node` but `offer`.
"""
