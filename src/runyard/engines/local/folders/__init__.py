"""The files of a place: the folders of projects, of runs (the anchors) and of kept volumes.

Start in `place.py`. `place_files.py` has the operations that are safe where hostile users own files: bounded reads,
atomic writes, removal and locks. May import `app.engine`, `domain` and `procs`.
"""
