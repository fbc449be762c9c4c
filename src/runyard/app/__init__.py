"""The application: use cases, loops, and the ports through which they reach the outside.

Use cases live in rooms by noun: `runs`, `entities`, `projects`, `rules`, `identity`, `logs`, `places`, `sessions`,
`triggers`, `volumes`.
A use case is a function that takes the `Core` first, then the principal, and writes in one unit of work, audit entry
included. The caller has checked access (`identity.authorize`); a use case only restricts what a run's own token may do.

A room is known by what its `__init__` exports; import-linter holds that, and the order of the rooms (pyproject.toml).
Start in `ports.py`, then `runs/submission.py` and `loops/reconcile.py`. Only this package writes runs. Adapters
(`store`, `vault`, `auth`, `logs`, `api`, engines) import `app.ports`; `runyard.bootstrap` puts them together.
"""
