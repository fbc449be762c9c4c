"""The launcher: the program that runs a Python function inside its process or pod.

It reads the run from the API with the run's own token, prepares the source, calls the handler and stores its results.
Standard library only, Python 3.10 or later, and nothing of the rest of Runyard. Imports are relative, because the
zipapp holds this package as `runyard_launcher`: a function may then import the `runyard` of its own environment.

Start at `program.py`; `zipapps.py` builds the file that engines start. Contract: docs/design/launcher.md.
"""
