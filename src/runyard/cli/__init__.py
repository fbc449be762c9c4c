"""The command line. Start in `main.py`.

May import the SDK and the pure packages; heavy libraries only when a command that needs them runs.
"""
