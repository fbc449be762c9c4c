"""Runs: submit, read, stop, resume, report, delete. `transitions.py` is the only place that changes a run's state."""
