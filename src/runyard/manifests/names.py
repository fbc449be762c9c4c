"""Names of a run's objects: legal for Kubernetes, and different for different run ids.

A name contains the id itself if that is legal, and otherwise ends with a hash of it. Hashed names have a prefix or a
character that plain names cannot have, so no id can be chosen to collide with another's.
"""

import hashlib
import json
import re

from runyard.spec.names import check_dns_label

HASH_CHARACTERS = 20
"""80 bits: finding an id with the same hash as another is infeasible."""
MOST_PLAIN_ID_CHARACTERS = 40
MOST_RUN_NAME_CHARACTERS = 52
"""Controllers append up to 11 characters for ReplicaSets and pods; the result must fit a label value."""
MOST_SERVICE_NAME_CHARACTERS = 63


def run_name(run_id: str) -> str:
    """The name of a run's Job or Deployment, a DNS label that begins with a letter."""
    if len(run_id) <= MOST_PLAIN_ID_CHARACTERS and check_dns_label(run_id) is None:
        return f"run-{run_id}"
    return _join_hashed("runx", run_id, hashed=run_id, most=MOST_RUN_NAME_CHARACTERS)


def claim_name(run_id: str, *, volume: str) -> str:
    """The name of the claim behind a volume. Later runs mount kept claims by this name.

    The separator is a dot, which neither part has: with a dash, run `a` and volume `b-c` would collide with run `a-b`
    and volume `c`.
    """
    if check_dns_label(volume) is None:
        return f"{run_name(run_id)}.{volume}"
    return f"{run_name(run_id)}.{_join_hashed('x', volume, hashed=volume, most=63)}.x"


def config_map_name(run_id: str, *, volume: str) -> str:
    """The name of the ConfigMap with a volume's files."""
    return claim_name(run_id, volume=volume)


def secret_name(run_id: str) -> str:
    """The name of the run's own Secret."""
    return f"{run_name(run_id)}-secrets"


def service_name(run_id: str) -> str:
    """The name of the run's own Service."""
    return run_name(run_id)


def alias_name(project: str, *, function: str | None, service: str) -> str:
    """The stable name of a service: the same for every run of the function with this `service_name`.

    Parts are joined by two dashes. The name is hashed if a part contains two dashes or is not a DNS label.
    """
    parts = [part for part in (project, function, service) if part is not None]
    plain = f"svc-{'--'.join(parts)}"
    is_plain = all(check_dns_label(part) is None and "--" not in part for part in parts)
    if is_plain and len(plain) <= MOST_SERVICE_NAME_CHARACTERS:
        return plain
    return _join_hashed(
        "svcx", "-".join(parts), hashed=json.dumps([project, function, service]), most=MOST_SERVICE_NAME_CHARACTERS
    )


def hash_text(text: str) -> str:
    """The hash that stands for a text that cannot be part of a name."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:HASH_CHARACTERS]


def _join_hashed(prefix: str, text: str, *, hashed: str, most: int) -> str:
    room = most - len(prefix) - HASH_CHARACTERS - 2
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:room].strip("-")
    return "-".join(part for part in (prefix, slug, hash_text(hashed)) if part)
