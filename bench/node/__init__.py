"""The virtual node beside a direct create at its provider, in one run. Start at `section.py`.

Real containers run at a provider with a node; a thousand pods on nodes that KWOK pretends (`beds.py`).
"""
