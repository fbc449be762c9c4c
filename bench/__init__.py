"""Benchmarks with their goals: `python -m bench [SECTION …]`, called by `make bench`.

A section is one function that measures and returns a `Section`; `__main__.py` lists them. To add one: write a
module with a `measure` function and put it into `SECTIONS`. Contestants that are compared run in fresh processes
of their own (`contestants/`), in turns, and the best of several rounds counts: the machine is never quiet.
"""
