"""The last validator: reads exactly the dictionaries that will be sent, and knows nothing of how they were made.

Fails closed, in two steps. First `plain.py`, `shapes.py`, `known.py`: JSON alone, and only kinds, keys and forms that
we send. Then `identity.py` and `marks.py` (whose objects they are), `pods.py` (Pod Security, references, what only
admins set), `rules.py`, `locks.py` (every scope's rules) and `denied.py` (what needs the policy's leave), over the
values that `facts.py` and `amounts.py` take from the dictionaries, against what the admin said (`admins.py`); and that
the profile's own values are there (`upheld.py`).

May import `pods` and `spec`; never `domain.resolve`, `domain.merge` or `manifests`.
"""

from runyard.domain.admission.objects import check_objects

__all__ = ["check_objects"]
