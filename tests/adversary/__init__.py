"""Tests that the admin wins: generated hostile requests against generated profiles and policies, judged independently.

`python -m tests.adversary --count 1000000 --seed 7 --workers 2` plays that many cases and exits 1 with the smallest
failing one. A case's seed is the run's seed and its number, so `--only N` plays one of them again.

- `generator.py` draws worlds (an admin's `policies.py` and `profiles.py`) and cases (requests: `users.py`).
  `boundaries.py`, `ruled_variables.py` and `ruled_images.py` ask for values beside the rules of that world.
- `trial.py` plays a case: read, resolve, render, admission, then the judge.
- `judge.py` compares the rendered dictionaries with the raw policy, profile and request, which it reads itself
  (`raw*.py`). It shares no code with resolver, manifests or admission; of the product it uses only
  `runyard.spec.kubernetes.quantity`, to compare amounts.
- `shrink.py` reduces a failing case.

`tests/unit/domain/test_admin_wins.py` plays some thousands of cases in every test run and shows that the judge and
admission both catch planted bypasses. `test_adversary_judge.py` breaks the product on purpose; the judge must notice.
"""
