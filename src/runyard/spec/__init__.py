"""The contract: what may be asked, in every form in which it may be written, and what is wrong with it.

Pure: no I/O, no clock, no environment. Imports nothing of ours. Owner of pydantic and of the one YAML loader.

Start in `run.py` (what a run may ask), then `profile.py` and `policy.py` (what an admin prepares). `problems.py` is
the form in which every refusal and warning is told; `quantity.py` reads amounts exactly as Kubernetes does.
"""
