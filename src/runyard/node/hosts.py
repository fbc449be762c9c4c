"""Under which host name a Service is reached: `<uid of the Service>-<tenant>.<domain>`."""

import re
from dataclasses import dataclass

LONGEST_LABEL = 63
LONGEST_NAME = 253
UID_CHARACTERS = 36
LONGEST_TENANT = LONGEST_LABEL - UID_CHARACTERS - 1

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names of one tenant at one provider. ValueError, in words, where they would not be DNS names."""

    tenant: str
    domain: str

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.tenant) or len(self.tenant) > LONGEST_TENANT:
            raise ValueError(
                f"the tenant {self.tenant[:80]!r} cannot be part of a host name: allowed are 1 to {LONGEST_TENANT} "
                f"lower-case letters, digits and '-', not at either end; the uid of a Service and '-' take the other "
                f"{UID_CHARACTERS + 1} of the {LONGEST_LABEL} characters of a DNS label"
            )
        check_domain(self.domain)

    def host_of(self, uid: str) -> str:
        """The host of the Service with this uid; ValueError where the uid is not one of Kubernetes' own."""
        if not _UID.fullmatch(uid):
            raise ValueError(f"the uid {uid[:80]!r} cannot be part of a host name: expected a lower-case UUID")
        return f"{uid}-{self.tenant}.{self.domain}"


def check_domain(domain: str) -> None:
    """ValueError, in words, unless `domain` can end the host names of Services."""
    labels = domain.split(".") if len(domain) <= LONGEST_NAME else [""]
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(
            f"the domain {domain[:80]!r} is not a DNS name: allowed are labels of 1 to {LONGEST_LABEL} lower-case "
            f"letters, digits and '-', joined by '.'"
        )
    if len(domain) > LONGEST_NAME - LONGEST_LABEL - 1:
        raise ValueError(
            f"the domain {domain[:80]!r} has {len(domain)} characters; allowed: {LONGEST_NAME - LONGEST_LABEL - 1}, "
            f"so that a host name in it has at most {LONGEST_NAME}"
        )
