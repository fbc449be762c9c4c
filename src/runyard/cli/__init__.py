"""The command line.

Start in `main.py`. `commands/` says what may be written on the command line and imports nothing but click; the modules
beside it do the work and are loaded by name when a command runs (`lazy.py`), so that `--help`, `--version` and shell
completion answer at once.

May import the pure packages; owns click.
"""
