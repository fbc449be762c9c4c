"""Why an apiserver refuses to create a pod, in the words that its controller repeats in an event or condition.

`Error creating: pods "run-x" is forbidden: exceeded quota: team, requested: cpu=2, used: cpu=1, limited: cpu=2`
"""

import re
from dataclasses import dataclass
from enum import StrEnum

LONGEST_REFUSAL = 8192
"""How many characters of a refusal are read."""
MOST_QUOTA_AMOUNTS = 20
"""How many resources of an exceeded quota a message lists; the others are counted."""

_QUOTA = re.compile(r"exceeded quota: ([^,]{1,253}), requested: ([^:]*), used: ([^:]*), limited: (.*)", re.DOTALL)
_PREFIX = re.compile(r'(?:Error creating: )?(?:pods "[^"]{0,300}" is forbidden: )?')
_CLASSES = (
    (re.compile(r'RuntimeClass "([^"]{1,253})" not found'), "runtime_class"),
    (re.compile(r"no PriorityClass with name (\S{1,253}) was found"), "priority_class"),
    (re.compile(r'serviceaccount "([^"]{1,253})" not found'), "service_account"),
)


class RefusalKind(StrEnum):
    """What was refused."""

    QUOTA = "quota"
    """There is no room; the controller tries again."""
    RUNTIME_CLASS = "runtime_class"
    PRIORITY_CLASS = "priority_class"
    SERVICE_ACCOUNT = "service_account"
    ADMISSION = "admission"
    """A rule of the cluster: Pod Security, a LimitRange, an admission policy or webhook."""


@dataclass(frozen=True, slots=True)
class CreationRefusal:
    """Why a pod was not created, for people."""

    kind: RefusalKind
    text: str


def read_refusal(message: str) -> CreationRefusal:
    """What a refusal says."""
    said = message[:LONGEST_REFUSAL]
    if (quota := describe_quota(said)) is not None:
        return CreationRefusal(RefusalKind.QUOTA, quota)
    for pattern, name in _CLASSES:
        if found := pattern.search(said):
            kind = RefusalKind(name)
            where = "namespace" if kind is RefusalKind.SERVICE_ACCOUNT else "cluster"
            return CreationRefusal(kind, f"{_NAMES[kind]} {found[1]} does not exist in the {where}")
    return CreationRefusal(RefusalKind.ADMISSION, f"the cluster refuses the pod: {_PREFIX.sub('', said, count=1)}")


_NAMES = {
    RefusalKind.RUNTIME_CLASS: "the runtime class",
    RefusalKind.PRIORITY_CLASS: "the priority class",
    RefusalKind.SERVICE_ACCOUNT: "the service account",
}


def describe_quota(message: str) -> str | None:
    """Which quota has no room, with its figures; None if the message is about something else."""
    found = _QUOTA.search(message[:LONGEST_REFUSAL])
    if found is None:
        return None
    requested, used, limited = (_read_amounts(found[part]) for part in (2, 3, 4))
    told = [
        f"{name}: {amount} requested, {used.get(name, '?')} of {limited.get(name, '?')} used"
        for name, amount in list(requested.items())[:MOST_QUOTA_AMOUNTS]
    ]
    more = len(requested) - len(told)
    return f"the resource quota {found[1]} has no room ({'; '.join(told)}{f'; {more} more' if more > 0 else ''})"


def _read_amounts(text: str) -> dict[str, str]:
    """`cpu=2,memory=1Gi`: the amount by resource."""
    pairs = (pair.partition("=") for pair in text.strip().split(","))
    return {name.strip(): amount.strip() for name, _, amount in pairs if amount}
