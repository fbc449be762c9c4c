"""The program of a supervisor: standard library only, single-threaded, one poll loop, at most 12 MB of memory.

Run by `supervision.start` as a script (`__main__.py`). Start in `lifecycle.py`. It imports none of our other modules,
and nothing that is large: no dataclasses, pathlib, re, socket, subprocess, typing at run time (a test measures it).
"""
