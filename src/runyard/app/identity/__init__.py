"""Accounts, tokens, sign-in, and who may do what. Start in `access.py`."""
