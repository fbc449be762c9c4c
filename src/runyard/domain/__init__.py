"""Decisions without I/O.

Start in `resolution.py`: it merges the request with the admin's profiles and policy into the effective spec, and names
an owner for every value. `admission/` checks the finished objects without knowing how they were made. `rehearsal.py`
replays recorded requests against another policy. `reasons.py` lists every run reason.

May import `pods` and `spec`.
"""
