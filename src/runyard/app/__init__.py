"""The application: use cases, loops, and the ports through which they reach the outside.

Use cases live in rooms by noun: `runs`, `entities`, `rules`, `identity`, `logs`, `triggers`, `volumes`. Each is one
function that takes the `Core` first, then the principal, and writes in one unit of work, audit entry included. The
caller has checked access (`identity.access.authorize`); a use case only narrows what a run's own token may touch.

Start in `ports.py`, then `runs/submission.py` and `loops/reconcile.py`. Only this package writes runs. Adapters
(`store`, `vault`, `auth`, `logs`, `api`, engines) import `app.ports`; `runyard.bootstrap` puts them together.
"""
