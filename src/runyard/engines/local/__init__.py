"""The local engine: executes runs as processes or containers of this machine, for trials and tests.

`room.py` shares out the machine (`machine.py` says what it has); `environments.py` builds virtual environments with an
interpreter of `interpreters.py`.
"""
