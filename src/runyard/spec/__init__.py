"""The contract: what may be asked, in every form in which it may be written, and what is wrong with it.

Pure: no I/O, no clock, no environment. Imports nothing of ours. Owner of pydantic and of the one YAML loader.

Start in `run_fields.py` (what a run may ask), then `profile.py` and `policy.py` (what an admin prepares). Every
refusal and warning is a `problems.Problem`. `kubernetes/quantity.py` reads amounts exactly as Kubernetes does.
"""
