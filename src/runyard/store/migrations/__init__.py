"""The scripts that make the tables and change them, one per revision, applied in the order of their names.

A script says what it does in statements of its own, never by `tables.py`, which goes on changing. `r0007_words.py` has
the revision `0007`. It runs in one transaction on both engines; on SQLite, foreign keys are off while it runs, and
checked before anything is kept.
"""
