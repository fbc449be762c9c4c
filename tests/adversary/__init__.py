"""The proof that the admin wins: hostile users, legal profiles and policies, and a judge that knows no resolver.

`python -m tests.adversary --count 1000000 --seed 7 --workers 2` plays that many cases and exits 1 with the smallest
failing one. A case's seed is the run's seed and its number, so `--only N` plays one of them again.

- `generator.py` draws worlds (what an admin prepared: `admins.py`) and cases (what users ask there: `users.py`).
- `trial.py` plays a case: read, resolve, render, admission, then the judge.
- `judge.py` holds the rendered dictionaries against the raw policy and the raw profile, by its own reading (`raw.py`),
  and the resolution against its own spec. It shares no code with resolver, manifests or admission; of the product it
  uses `runyard.spec.kubernetes.quantity` to compare amounts.
- `shrink.py` makes a failing case small.

`tests/unit/domain/test_admin_wins.py` plays some thousands of cases in every test run and shows that the judge and
admission both see planted bypasses.
"""
