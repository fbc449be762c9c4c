"""What this client may do: asked of the apiserver, so that a missing right is known before it is needed.

`review_access` asks about single requests and is exact (SelfSubjectAccessReview). `list_rules` lists what RBAC grants
in one namespace in one request (SelfSubjectRulesReview); the apiserver may not know all of it.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runyard.kube.client import Client
from runyard.kube.errors import Malformed
from runyard.kube.objects import complete_object, encode
from runyard.kube.rate_limiter import Priority
from runyard.kube.resources import SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_RULES_REVIEWS, Resource

MOST_ACCESSES = 1000
"""How many requests one call of `review_access` asks about."""
MOST_RULES = 10_000
"""How many rules of one namespace are read."""
_AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class Access:
    """One kind of request: `get pods/log in team-a`. Without a namespace: in all of them, or cluster-scoped."""

    verb: str
    resource: Resource
    namespace: str | None = None
    subresource: str = ""
    name: str = ""

    def __str__(self) -> str:
        group = f".{self.resource.group}" if self.resource.group else ""
        part = f"/{self.subresource}" if self.subresource else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource.plural}{group}{part}{f' {self.name}' if self.name else ''}{where}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The apiserver's answer about one `Access`."""

    is_allowed: bool
    reason: str
    """The authorizer's words; often empty."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of RBAC: each verb on each resource of each group. `*` stands for all of them."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    """Empty: objects of every name."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is granted in one namespace, cluster-wide grants included."""

    rules: tuple[Rule, ...]
    is_complete: bool
    """False: an authorizer could not list its rules, and more may be allowed. Ask `review_access` then."""

    def allow(self, access: Access) -> bool:
        """Whether a rule grants it; `access.namespace` is taken to be the one that was asked about."""
        path = f"{access.resource.plural}/{access.subresource}" if access.subresource else access.resource.plural
        wildcards = {path, "*", f"*/{access.subresource}"} if access.subresource else {path, "*"}
        return any(
            rule.verbs & {access.verb, "*"}
            and rule.groups & {access.resource.group, "*"}
            and rule.resources & wildcards
            and (not rule.names or access.name in rule.names)
            for rule in self.rules
        )


async def review_access(client: Client, accesses: Iterable[Access]) -> dict[Access, Verdict]:
    """Ask about each access, a few at a time; the answers stand in the order of the questions."""
    asked = list(dict.fromkeys(accesses))
    if len(asked) > MOST_ACCESSES:
        raise ValueError(f"{len(asked)} accesses; allowed: {MOST_ACCESSES}")
    verdicts: dict[Access, Verdict] = {}
    left = iter(asked)

    async def work() -> None:
        for access in left:
            verdicts[access] = await _review(client, access)

    workers = [asyncio.ensure_future(work()) for _ in range(min(_AT_A_TIME, len(asked)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return {access: verdicts[access] for access in asked}


async def find_missing(client: Client, accesses: Iterable[Access]) -> list[Access]:
    """Those that are not allowed, in order."""
    return [access for access, verdict in (await review_access(client, accesses)).items() if not verdict.is_allowed]


async def list_rules(client: Client, *, namespace: str) -> Rules:
    """What this client may do in one namespace."""
    status = await _ask(client, SELF_SUBJECT_RULES_REVIEWS, {"namespace": namespace})
    rules = status.get("resourceRules") or []
    if not isinstance(rules, list):
        raise Malformed("a SelfSubjectRulesReview whose rules are not a list")
    return Rules(
        rules=tuple(
            Rule(
                verbs=_texts(rule, "verbs"),
                groups=_texts(rule, "apiGroups"),
                resources=_texts(rule, "resources"),
                names=_texts(rule, "resourceNames"),
            )
            for rule in rules[:MOST_RULES]
            if isinstance(rule, dict)
        ),
        is_complete=not status.get("incomplete") and len(rules) <= MOST_RULES,
    )


async def _review(client: Client, access: Access) -> Verdict:
    attributes = {
        "verb": access.verb,
        "group": access.resource.group,
        "version": access.resource.version,
        "resource": access.resource.plural,
        "subresource": access.subresource,
        "name": access.name,
        "namespace": access.namespace or "",
    }
    spec = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    status = await _ask(client, SELF_SUBJECT_ACCESS_REVIEWS, spec)
    return Verdict(is_allowed=status.get("allowed") is True, reason=str(status.get("reason") or ""))


async def _ask(client: Client, resource: Resource, spec: dict[str, Any]) -> dict[str, Any]:
    """The answer to a review. It is sent like a creation and stores nothing, so it is repeated if it gets lost."""
    sender = client if client.priority is not None else client.with_priority(Priority.STATUS)
    body = complete_object(resource, {"spec": spec}, namespace=None, is_new=True).body
    answer = await sender.send_encoded("POST", resource, encode(body), is_idempotent=True)
    status = answer.get("status")
    if not isinstance(status, dict):
        raise Malformed("a review without a status")
    return status


def _texts(rule: dict[str, Any], field: str) -> frozenset[str]:
    values = rule.get(field)
    return frozenset(value for value in values if isinstance(value, str)) if isinstance(values, list) else frozenset()
