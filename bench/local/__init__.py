"""The section `local`: what a run costs on the local engine, beside the same work without Runyard.

`server.py` is the server that is measured, `section.py` the figures with their goals; every other module is a measure.
"""
