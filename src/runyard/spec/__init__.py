"""The contract: models and readers of every field and entity, in every accepted form.

Pure: no I/O, no clock, no environment. Imports nothing of ours. Owner of pydantic and of the one YAML loader.

Start in `run_fields.py` (the fields of a run), then `profile.py` and `policy.py` (an admin's files). Every error and
warning is a `problems.Problem`. `kubernetes/quantity.py` reads amounts exactly as Kubernetes does.
"""
