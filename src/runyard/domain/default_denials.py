"""What users may not request unless the policy allows it by name. The lists are in `runyard.spec.denials`."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from runyard.domain.board import Board, show
from runyard.domain.environment_variables import list_variables
from runyard.domain.project_policy import ProjectPolicy
from runyard.domain.rule_checks import allows_toleration
from runyard.spec import denials
from runyard.spec.kubernetes.placement import iter_affinity_namespaces
from runyard.spec.patterns import matches
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem


def check_denials(board: Board, policy: ProjectPolicy) -> Iterator[Problem]:
    """Every value of a user that is denied and not allowed by the policy. Values of profiles are the admin's own."""
    yield from _check_tolerations(board, policy)
    yield from _check_service_type(board, policy)
    yield from _check_priority_class(board, policy)
    yield from _check_envs(board, policy)
    yield from _check_namespaces(board, policy)
    yield from _check_claims(board, policy)


def _list_allowed(policy: ProjectPolicy, name: str, *, with_options: bool = False) -> list[Any]:
    """What the platform's policy allows by name. A project's policy can only tighten, so it cannot lift a denial."""
    rule = policy.platform_wide.rules.get(name)
    if rule is None:
        return []
    return [*(rule.allowed or ()), *((rule.options or ()) if with_options else ())]


def _check_tolerations(board: Board, policy: ProjectPolicy) -> Iterator[Problem]:
    named = _list_allowed(policy, "tolerations")
    for path, offer in board.under("tolerations"):
        if not offer.is_users:
            continue
        key = offer.value.get("key") or ""
        exact = [entry for entry in named if entry["key"] == key and allows_toleration(entry, offer.value)]
        if key and not denials.is_reserved_taint(key):
            continue
        if not exact:
            what = (
                "a toleration without a key tolerates every taint"
                if not key
                else f"the taint `{key}` keeps nodes for the cluster's own components"
            )
            allowed = "tolerations of other taints"
            yield Problem(Code.DENIED_TOLERATION, path, what, value=show(offer.value), allowed=allowed)


def _check_service_type(board: Board, policy: ProjectPolicy) -> Iterator[Problem]:
    offer = board.find("service_type")
    if offer is None or not offer.is_users or offer.value not in denials.SERVICE_TYPES:
        return
    if offer.value not in _list_allowed(policy, "service_type", with_options=True):
        message = f"a {offer.value} service reaches beyond the cluster, which the policy does not allow"
        yield Problem(
            Code.DENIED_SERVICE_TYPE, ("service_type",), message, value=offer.value, allowed="ClusterIP, NodePort"
        )


def _check_priority_class(board: Board, policy: ProjectPolicy) -> Iterator[Problem]:
    offer = board.find("priority_class")
    if offer is None or not offer.is_users or not any(matches(it, offer.value) for it in denials.PRIORITY_CLASSES):
        return
    if offer.value not in _list_allowed(policy, "priority_class", with_options=True):
        message = "a priority class of the cluster itself, which the policy does not allow"
        yield Problem(Code.DENIED_PRIORITY_CLASS, ("priority_class",), message, value=offer.value)


def _check_envs(board: Board, policy: ProjectPolicy) -> Iterator[Problem]:
    named = _list_allowed(policy, "envs")
    for path, offer in list_variables(board):
        name = str(path[1])
        if not offer.is_users or name in named:
            continue
        if _is_platforms(name):
            yield Problem(
                Code.DENIED_ENV, path, f"`{name}` is set by the platform", value=name, allowed="any other name"
            )


@functools.lru_cache(maxsize=4096)
def _is_platforms(name: str) -> bool:
    return any(matches(pattern, name) for pattern in denials.ENVS)


def _check_namespaces(board: Board, policy: ProjectPolicy) -> Iterator[Problem]:
    offer = board.find("affinity")
    if offer is None or not offer.is_users:
        return
    # No other rule checks namespaces, so the project's own list is applied here.
    lists: list[Sequence[str]] = [_list_allowed(policy, "affinity.namespaces")]
    lists += [rule.allowed or () for rule, _ in policy.find_rules("affinity.namespaces")]
    for path, namespace in iter_affinity_namespaces(offer.value):
        if not all(_names_namespace(named, namespace) for named in lists):
            shown = "namespaces chosen by a selector" if namespace == "*" else f"namespace `{namespace}`"
            message = f"the affinity selects pods of {shown}, which the policy does not allow"
            yield Problem(Code.DENIED_NAMESPACE, ("affinity", *path), message, allowed="the run's own namespace")


def _names_namespace(named: Sequence[str], namespace: str) -> bool:
    """`*` stands for a selector, which could select any namespace: only `*` itself allows that."""
    return "*" in named if namespace == "*" else any(matches(pattern, namespace) for pattern in named)


def _check_claims(board: Board, policy: ProjectPolicy) -> Iterator[Problem]:
    named = _list_allowed(policy, "volumes.claim_name")
    for path, offer in board.under("volumes"):
        volume = offer.value
        is_existing = volume.type == "persistent_volume_claim" and volume.claim_name is not None
        if is_existing and offer.is_users and not any(matches(pattern, volume.claim_name) for pattern in named):
            message = "existing claims may not be mounted unless the policy names them"
            yield Problem(
                Code.DENIED_CLAIM,
                (*path, "claim_name"),
                message,
                value=volume.claim_name,
                allowed="claims made for the run",
            )
