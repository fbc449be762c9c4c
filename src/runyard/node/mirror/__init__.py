"""Pods at the provider: started, watched and ended there for the pods that are bound to the node.

`pod_mirror.py` is the loop; `translation.py` and `statuses.py` decide, purely, what goes there and what comes back.
"""
