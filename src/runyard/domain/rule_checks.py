"""Checks every value against every rule of the policy, and reports each violation."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from runyard.domain.board import Board, Offer, show
from runyard.domain.environment_variables import list_variables
from runyard.domain.layer_merge import INAPPLICABLE_FIELDS, Setting
from runyard.domain.project_policy import ProjectPolicy
from runyard.spec.duration import format_duration
from runyard.spec.figures import format_figure
from runyard.spec.image_patterns import denies_image, matches_image
from runyard.spec.kubernetes.placement import iter_node_keys
from runyard.spec.patterns import matches
from runyard.spec.policy import BUILT_IN, Scope
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, find_nearest, list_words
from runyard.spec.resources import LIMITS, REQUESTS
from runyard.spec.rule_grammar import Rule
from runyard.spec.volumes import Volume

_LATE_LOCKS = ("volumes.", "resources.")
DURATIONS = frozenset({"timeout", "pending_timeout", "ttl", "grace_period"})


class RuledValue(NamedTuple):
    """One value that a rule applies to."""

    path: Path
    value: Any
    offer: Offer


def check_rules(board: Board, policy: ProjectPolicy, setting: Setting) -> list[Problem]:
    """Every violation. Lists and options apply to values of users; min and max to those of profiles too."""
    found: list[Problem] = []
    for name, rule, scope in policy.iter_rules():
        if not rule.can_refuse:
            continue
        values = _collect(board, name)
        if rule.required and name not in INAPPLICABLE_FIELDS[setting.action]:
            found += _check_required(name, rule, scope, [ruled for ruled in values if _is_explicit(ruled.offer)])
        has_bounds = rule.min is not None or rule.max is not None
        for ruled in values:
            if has_bounds:
                found += _check_bounds(name, rule, scope, ruled)
            if ruled.offer.is_users:
                found += _check_lists(name, rule, scope, ruled)
                if rule.locked and rule.default is None and name.startswith(_LATE_LOCKS):
                    found += _check_late_lock(name, policy, scope, ruled)
    return [*found, *_check_unbounded(board, policy)]


def _check_unbounded(board: Board, policy: ProjectPolicy) -> Iterator[Problem]:
    """A run without a memory limit is unbounded: under a cap, somebody has to set one."""
    cap = policy.max_for("resources.mem", "resources.mem.limits")
    if cap is not None and board.find("resources", "mem", LIMITS) is None:
        most = format_figure("resources.mem", cap[0])
        message = f"the {cap[1].name} caps memory at {most}; without `resources.mem` the run would be unbounded"
        yield Problem(Code.POLICY_UNBOUNDED, ("resources", "mem"), message, allowed=f"at most {most}")


def _check_late_lock(name: str, policy: ProjectPolicy, scope: Scope, ruled: RuledValue) -> Iterator[Problem]:
    """Most locks are applied before blanks are filled; these fields may be set by a value that follows from another."""
    choice = policy.find_default(name)
    if choice is None or choice.scope is BUILT_IN:
        message = f"the {scope.name} locks `{name}`: only a profile may set it"
        yield Problem(Code.POLICY_LOCKED, ruled.path, message, value=_write(name, ruled.value))


def _collect(board: Board, name: str) -> list[RuledValue]:
    collect = _COLLECTORS.get(name)
    if collect is not None:
        return list(collect(board))
    parts = tuple(name.split("."))
    if parts[0] == "resources":
        return list(_collect_resource(board, parts))
    offer = board.find(*parts)
    return [] if offer is None else [RuledValue(parts, offer.value, offer)]


def _collect_resource(board: Board, parts: tuple[str, ...]) -> Iterator[RuledValue]:
    leaves: tuple[str, ...] = (REQUESTS, LIMITS)
    if len(parts) == 3:
        leaves = (parts[2],)
    elif parts[1] == "gpu":
        leaves = (LIMITS,)
    elif parts[1] == "disk":
        leaves = ("size",)
    for leaf in leaves:
        offer = board.find("resources", parts[1], leaf)
        if offer is not None and offer.value is not None:
            yield RuledValue(("resources", parts[1], leaf), offer.value, offer)


def _collect_pairs(name: str) -> Callable[[Board], Iterator[RuledValue]]:
    def collect(board: Board) -> Iterator[RuledValue]:
        for path, offer in board.under(name):
            yield RuledValue(path, path[-1], offer)

    return collect


def _collect_node_keys(board: Board) -> Iterator[RuledValue]:
    """Node labels, from the node selector and from the affinity, which would otherwise bypass the rule."""
    yield from _collect_pairs("node_selector")(board)
    affinity = board.find("affinity")
    if affinity is not None:
        for path, key in iter_node_keys(affinity.value):
            yield RuledValue(("affinity", *path), key, affinity)


def _collect_envs(board: Board) -> Iterator[RuledValue]:
    """Variables, from `envs` and from secrets, which would otherwise bypass the rule."""
    for path, offer in list_variables(board):
        yield RuledValue(path, path[-1], offer)


def _collect_tolerations(board: Board) -> Iterator[RuledValue]:
    for path, offer in board.under("tolerations"):
        yield RuledValue(path, offer.value, offer)


def _collect_volumes(attribute: str, *, types: tuple[str, ...]) -> Callable[[Board], Iterator[RuledValue]]:
    def collect(board: Board) -> Iterator[RuledValue]:
        for path, offer in board.under("volumes"):
            volume = offer.value
            if isinstance(volume, Volume) and volume.type in types:
                value = getattr(volume, attribute)
                if value is not None and not (attribute != "claim_name" and attribute != "type" and volume.claim_name):
                    yield RuledValue((*path, attribute), value, board.fills.get((*path, attribute), offer))

    return collect


def _collect_images(board: Board) -> Iterator[RuledValue]:
    image = board.find("image")
    if image is not None:
        yield RuledValue(("image",), image.value, image)
    yield from _collect_volumes("image", types=("image",))(board)


def _collect_nothing(board: Board) -> Iterator[RuledValue]:  # noqa: ARG001 - a collector takes the board
    """For fields that are checked elsewhere: namespaces by `default_denials`, an affinity only by its lock."""
    return iter(())


_ALL_TYPES = ("persistent_volume_claim", "config_map", "empty_dir", "ephemeral", "shared_volume", "image")
_CLAIMS = ("persistent_volume_claim", "ephemeral")
_COLLECTORS: Mapping[str, Callable[[Board], Iterator[RuledValue]]] = MappingProxyType(
    {
        "node_selector": _collect_node_keys,
        "envs": _collect_envs,
        "secrets": _collect_pairs("secrets"),
        "tolerations": _collect_tolerations,
        "image": _collect_images,
        "volumes.size": _collect_volumes("size", types=_CLAIMS),
        "volumes.size_limit": _collect_volumes("size", types=("empty_dir",)),
        "volumes.storage_class": _collect_volumes("storage_class", types=_CLAIMS),
        "volumes.type": _collect_volumes("type", types=_ALL_TYPES),
        "volumes.claim_name": _collect_volumes("claim_name", types=("persistent_volume_claim",)),
        "affinity": _collect_nothing,
        "affinity.namespaces": _collect_nothing,
    }
)


def _is_explicit(offer: Offer) -> bool:
    """Whether somebody set it, or it follows from what somebody set; a platform default does not count."""
    return offer.owner != "platform" or offer.rule is not None


def _check_required(name: str, rule: Rule, scope: Scope, values: list[RuledValue]) -> Iterator[Problem]:
    values = [ruled for ruled in values if _sets_field(name, ruled.path)]
    if isinstance(rule.required, tuple):
        there = {ruled.path[-1] for ruled in values}
        for key in rule.required:
            if key not in there:
                yield Problem(Code.POLICY_REQUIRED, (name, key), f"the {scope.name} requires `{key}`")
    elif not values:
        yield Problem(Code.POLICY_REQUIRED, tuple(name.split(".")), f"the {scope.name} requires `{name}`")


def _sets_field(name: str, path: Path) -> bool:
    """Whether a value sets the ruled field itself. An affinity sets no node label and an image volume no image, but a
    secret sets a variable.
    """
    return path[0] == name.split(".", maxsplit=1)[0] or (name, path[0]) == ("envs", "secrets")


def _check_bounds(name: str, rule: Rule, scope: Scope, ruled: RuledValue) -> Iterator[Problem]:
    value, shown = _write(name, ruled.value), format_figure(name, ruled.value)
    if rule.max is not None and ruled.value > rule.max:
        limit = _write(name, rule.max)
        message = f"{shown} from {ruled.offer.source} is above the {scope.name}'s max"
        allowed = f"at most {format_figure(name, rule.max)}"
        yield Problem(Code.POLICY_MAX, ruled.path, message, value=value, allowed=allowed, suggestion=limit)
    if rule.min is not None and ruled.value < rule.min:
        limit = _write(name, rule.min)
        message = f"{shown} from {ruled.offer.source} is below the {scope.name}'s min"
        allowed = f"at least {format_figure(name, rule.min)}"
        yield Problem(Code.POLICY_MIN, ruled.path, message, value=value, allowed=allowed, suggestion=limit)


def _check_lists(name: str, rule: Rule, scope: Scope, ruled: RuledValue) -> Iterator[Problem]:
    if rule.options is not None and ruled.value not in rule.options:
        shown, options = _write(name, ruled.value), [_write(name, option) for option in rule.options]
        message = f"{format_figure(name, ruled.value)} is not one of the {scope.name}'s options"
        nearest = find_nearest(shown, options)
        allowed = list_words([format_figure(name, option) for option in rule.options])
        yield Problem(Code.POLICY_OPTIONS, ruled.path, message, value=shown, allowed=allowed, suggestion=nearest)
    if rule.allowed is not None and not any(_allows(name, entry, ruled.value) for entry in rule.allowed):
        shown, allowed = _write(name, ruled.value), list_words([show(entry) for entry in rule.allowed])
        yield Problem(
            Code.POLICY_ALLOWED, ruled.path, f"the {scope.name} does not allow {shown}", value=shown, allowed=allowed
        )
    if any(_denies(name, entry, ruled.value) for entry in rule.denied):
        shown = _write(name, ruled.value)
        yield Problem(Code.POLICY_DENIED, ruled.path, f"the {scope.name} denies {shown}", value=shown)


def _allows(name: str, entry: Any, value: Any) -> bool:
    if name == "tolerations":
        return allows_toleration(entry, value)
    return matches_image(entry, value) if name == "image" else matches(entry, str(value))


def _denies(name: str, entry: Any, value: Any) -> bool:
    if name == "tolerations":
        return denies_toleration(entry, value)
    return denies_image(entry, value) if name == "image" else matches(entry, str(value))


def allows_toleration(matcher: Mapping[str, str], toleration: Mapping[str, Any]) -> bool:
    """Whether the matcher covers every taint that the toleration tolerates."""
    defaults = {"operator": "Equal"}
    if toleration.get("operator") == "Exists" and matcher.get("value", "*") != "*":
        return False
    return all(matches(pattern, str(toleration.get(key) or defaults.get(key, ""))) for key, pattern in matcher.items())


def denies_toleration(matcher: Mapping[str, str], toleration: Mapping[str, Any]) -> bool:
    """Whether the toleration tolerates any taint of the matcher; no key, no effect or `Exists` tolerate all of them."""
    key, effect = str(toleration.get("key") or ""), str(toleration.get("effect") or "")
    reaches_key = matches(matcher["key"], key) or (not key and matcher["key"] != "")
    reaches_effect = "effect" not in matcher or not effect or matches(matcher["effect"], effect)
    is_any = toleration.get("operator") == "Exists"
    reaches_value = "value" not in matcher or is_any or matches(matcher["value"], str(toleration.get("value") or ""))
    operator = str(toleration.get("operator") or "Equal")
    reaches_operator = "operator" not in matcher or matches(matcher["operator"], operator)
    return reaches_key and reaches_effect and reaches_value and reaches_operator


def _write(name: str, value: Any) -> str:
    return format_duration(value) if name in DURATIONS else str(show(value))
