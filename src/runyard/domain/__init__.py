"""Decisions without I/O.

Start in `resolve.py`: what the user asked + what the admin prepared → what will run, with an owner for every value.
`admission/` judges the finished objects without knowing how they were made. `rehearsal.py` plays recorded requests
against another policy.

May import `pods` and `spec`.
"""
