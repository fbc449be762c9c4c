"""What goes on without being asked: `reconcile` (runs), `triggers`, `retention`; `supervise` keeps them going.

Each is a coroutine that ends only by being cancelled, and each pass of it can be called alone. Loops may run in every
replica at once: leases and used occasions keep them apart.
"""
