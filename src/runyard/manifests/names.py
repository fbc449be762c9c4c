"""Names of a run's objects: legal for Kubernetes, and different for different runs.

A name holds as much of the run's id as is legal and fits, for people, and ends with a hash of the run's uid. Ids are
unique in a project only, and several projects may share a namespace.
"""

import hashlib
import json
import re

from runyard.manifests.identity import RunIdentity
from runyard.spec.names import check_dns_label

HASH_CHARACTERS = 20
"""80 bits: finding a text with the same hash as another is infeasible."""
UID_HASH_CHARACTERS = 15
"""60 bits: uids are random, so two of a million runs share a hash with a probability below one in a million."""
PREVIEW_UID_CHARACTERS = 32
MOST_RUN_NAME_CHARACTERS = 52
"""Controllers append up to 11 characters for ReplicaSets and pods; the result must fit a label value."""
MOST_SERVICE_NAME_CHARACTERS = 63
_OF_RUN = re.compile(
    rf"(run-(?:[a-z0-9-]{{0,{MOST_RUN_NAME_CHARACTERS}}}-)?[0-9a-f]{{{UID_HASH_CHARACTERS}}})(?:[-.]|$)"
)


def make_preview_uid(project: str, run_id: str) -> str:
    """A uid for a run that is not stored: the same for the same id in the same project, and only then."""
    return hashlib.sha256(json.dumps([project, run_id]).encode()).hexdigest()[:PREVIEW_UID_CHARACTERS]


def run_name(identity: RunIdentity) -> str:
    """The name of a run's Job or Deployment, a DNS label that begins with a letter."""
    digest = hash_text(identity.run_uid)[:UID_HASH_CHARACTERS]
    room = MOST_RUN_NAME_CHARACTERS - len("run-") - len(digest) - 1
    return "-".join(part for part in ("run", _make_slug(identity.run_id, most=room), digest) if part)


def find_run_name(name: str) -> str | None:
    """The name of the run that an object belongs to, by its own: the run's, or that and more after a dash or a dot."""
    found = _OF_RUN.match(name)
    return None if found is None else found[1]


def claim_name(identity: RunIdentity, *, volume: str) -> str:
    """The name of the claim behind a volume. Later runs mount kept claims by this name.

    The separator is a dot, which neither part has.
    """
    if check_dns_label(volume) is None:
        return f"{run_name(identity)}.{volume}"
    return f"{run_name(identity)}.{_join_hashed('x', volume, hashed=volume, most=63)}.x"


def config_map_name(identity: RunIdentity, *, volume: str) -> str:
    """The name of the ConfigMap with a volume's inline data."""
    return claim_name(identity, volume=volume)


def secret_name(identity: RunIdentity) -> str:
    """The name of the run's own Secret."""
    return f"{run_name(identity)}-secrets"


def registry_secret_name(project: str) -> str:
    """The name of the Secret with a project's registry credentials."""
    return _join_hashed("runyard-registry", project, hashed=project, most=63)


def service_name(identity: RunIdentity) -> str:
    """The name of the run's own Service."""
    return run_name(identity)


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
    slug = _make_slug(text, most=most - len(prefix) - HASH_CHARACTERS - 2)
    return "-".join(part for part in (prefix, slug, hash_text(hashed)) if part)


def _make_slug(text: str, *, most: int) -> str:
    """The part of a text that a DNS label can hold."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:most].strip("-")
