"""The virtual node: an agent that joins a cluster as a node and runs its pods at a provider.

`agent.py` wires the loops together; docs/design/virtual-node.md says what each loop owns and why the agent schedules.
Pure decisions are in `offer.py`, `ledger.py` and `admission/`; `providers/provider.py` is what a provider implements.
May import `kube`, `procs`, `pods` and `spec`, and aiohttp for the kubelet port.
"""
