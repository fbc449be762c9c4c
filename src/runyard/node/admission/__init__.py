"""How pods of the node's RuntimeClasses are filled and judged: pure decisions, and the objects that enforce them.

`filling.py`: which resources a pod gets where it states none. `judgement.py`: why a pod cannot run on the node.
`policies.py`: the same filling as a MutatingAdmissionPolicy, and who may bind to the node. `webhook.py`: the same
filling for clusters without such policies. May import `pods`, `spec`, `node.offer` and `node.amounts`.
"""
