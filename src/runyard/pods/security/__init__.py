"""Pod Security *baseline* and *restricted*, per Kubernetes version: the verdicts and words of the admission plugin.

`policy.py` says which checks hold in which version; the checks stand in `host.py`, `volumes.py`, `kernel.py`,
`profiles.py` and `identity.py`, over the facts (`facts.py`) that `reading.py` takes from the dictionary.

May import `pods.fields` and `spec.problems`. Fails closed: what cannot be read, or is not known, is refused.
"""

from runyard.pods.security.policy import Level, check_pod_security, check_template_security
from runyard.pods.security.wording import Violation, format_violations

__all__ = ["Level", "Violation", "check_pod_security", "check_template_security", "format_violations"]
