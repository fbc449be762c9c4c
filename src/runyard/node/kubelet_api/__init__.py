"""The HTTPS port of the virtual node: what a kubelet answers to the apiserver, and so to `kubectl logs` and `exec`.

`port.py` is the server and its loops, `routes.py` what it answers. Who asks is `authentication.py`, whether they may
`authorization.py`; no request is answered before both. `streams.py` relays logs and upgraded connections,
`usage_report.py` says what pods use. Bytes and rights only: what a pod is, the agent tells by `local_pods.py`.
"""
