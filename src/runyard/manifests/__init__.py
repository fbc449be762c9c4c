"""What a resolved run becomes: Kubernetes objects as plain dictionaries. Pure and deterministic.

Start in `render.py`: a run as it stands, or its anchor and then what the anchor owns. May import `domain`, `pods` and
`spec`; decides nothing that `domain` did not decide.
"""
