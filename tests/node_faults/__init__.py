"""Every fault of the virtual node at full size, one after another: `python -m tests.node_faults`, by `make chaos-node`.

50 pods in flight, a link that is cut for ten minutes; nothing may be lost or doubled, and the node stays Ready.
"""
