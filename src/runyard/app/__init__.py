"""The application: use cases, loops, and the ports through which they see the world.

Start in `ports.py`, then `usecases/`. Only this package writes runs. May import `domain`, `pods` and `spec`; adapters
(`store`, `vault`, `auth`, `logs`, `api`, engines) import `app.ports` and are put together in `runyard.bootstrap`.
"""
