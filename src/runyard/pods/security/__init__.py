"""Pod Security *baseline* and *restricted*, per Kubernetes version: the verdicts and messages of the admission plugin.

`policy.py` selects the checks of a version. The checks are in `host.py`, `volumes.py`, `kernel.py`, `profiles.py` and
`identity.py`, over the facts (`facts.py`) that `pod_reader.py` reads from the dictionary.

May import `pods.fields` and `spec.problems`. Fails closed: unreadable and unknown fields are refused.
"""

from runyard.pods.security.policy import Level, check_pod_security, check_template_security
from runyard.pods.security.violations import Violation, format_violations

__all__ = ["Level", "Violation", "check_pod_security", "check_template_security", "format_violations"]
