"""The command line.

Start in `main.py`. `commands/` declares commands and options and imports little more than click. The modules beside it
do the work; they are loaded by name when a command runs (`lazy_commands.py`), so that `--help`, `--version` and shell
completion stay fast.

Offline commands use only the pure packages, so that they work in the base install. Commands of the `server` extra load
theirs by name. Owns click.
"""
