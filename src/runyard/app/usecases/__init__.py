"""What can be done with the Core, one function each: `core` first, then who asks.

Whether somebody may do it is checked before, by `access.authorize`; use cases narrow only what the token of a run may
touch. Each writes in one unit of work, its audit entry included.
"""
