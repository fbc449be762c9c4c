"""Virtual environments of python functions: interpreters of the machine, and packages installed by uv.

Start in `environments.py`: which environment a run needs, and the step that builds it. `environment_setup.py` is the
program of that step. May import `app.engine`, `domain`, `procs` and `spec`.
"""
