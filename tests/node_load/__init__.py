"""A long mixed load on the virtual node: its ledger is compared with the truth while pods come and go.

`python -m tests.node_load --pods 1000 --seconds 1200` is the long form; `make node-load`.
"""
