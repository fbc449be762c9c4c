"""What a resolved run becomes: Kubernetes objects as plain dictionaries. Pure and deterministic.

Start in `render.py`: a whole run, or its anchor and then what the anchor owns. `renderability.py` resolves a run and
refuses what could not be rendered. May import `domain`, `pods` and `spec`; decides nothing that `domain` did not
decide.
"""
