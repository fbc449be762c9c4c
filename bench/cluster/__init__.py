"""The Kubernetes engine beside a raw client on the same cluster that makes the same writes. Start at `section.py`.

Real containers run on a testbed with a node; thousands of runs on one whose nodes KWOK pretends (`beds.py`).
"""
