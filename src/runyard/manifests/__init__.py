"""What a resolved run becomes: Kubernetes objects as plain dictionaries, and patches. Pure and deterministic.

Start in `render.py`: a whole run, or its anchor and then what the anchor owns; `patches.py` releases, stops and settles
the anchor. `project_objects.py` renders what outlives runs. `renderability.py` resolves a run and refuses what could
not be rendered. May import `domain`, `pods` and `spec`; decides nothing that `domain` did not decide.
"""
