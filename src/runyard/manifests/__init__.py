"""What a resolved run becomes: Kubernetes objects as plain dictionaries. Pure and deterministic.

Start in `render.py`. May import `domain`, `pods` and `spec`; decides nothing that `domain` did not decide.
"""
