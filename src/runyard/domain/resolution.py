"""Resolves a request with the admin's profiles and policy into the effective spec, with an owner per value. Pure.

This is where a profile's value wins over a user's: `_iter_layers` yields the layers weakest first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from runyard.domain.board import Board, Offer, format_value
from runyard.domain.default_denials import check_denials
from runyard.domain.effective_spec import SECONDS, Disk, EffectiveSpec, Leaf, Replaced, to_plain
from runyard.domain.layer_merge import Layer, Setting, put_layer
from runyard.domain.locks_and_defaults import apply_locks, complete_volume, fill_blanks
from runyard.domain.project_policy import ProjectPolicy
from runyard.domain.project_references import settle_collisions, settle_references
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.domain.rule_checks import check_rules
from runyard.spec.kinds.registry import get_kind
from runyard.spec.lints import lint_fields
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, find_nearest, list_words
from runyard.spec.profile import DEFAULT_PROFILE, Profile
from runyard.spec.resources import LIMITS, Sides
from runyard.spec.run_fields import AdminFields
from runyard.spec.volumes import Volume

NOT_USED = frozenset({Code.OVERRIDE, Code.RESOURCES_CONTRADICTION, Code.FIELD_POINTLESS})
"""Warnings about values of users that have no effect; with `strict` they are refusals."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The result. With refusals nothing may be started, and `spec` shows what would have run."""

    spec: EffectiveSpec
    leaves: tuple[Leaf, ...]
    warnings: tuple[Problem, ...]
    refusals: tuple[Problem, ...]
    profile: Profile | None = None

    @property
    def is_refused(self) -> bool:
        """Whether anything refuses this run."""
        return bool(self.refusals)


def resolve(request: Request, admin_rules: AdminRules, inventory: ProjectInventory) -> Resolution:
    """Resolve one request. Deterministic; never raises on a parsed request; does not change its inputs."""
    policy = ProjectPolicy(admin_rules.policy, request.project)
    board = Board()
    setting = Setting(request.action, get_kind(request.kind), policy.gpu_resources)
    profile = _choose_profile(board, request, admin_rules, policy)
    for layer in _iter_layers(request, profile):
        put_layer(board, layer, setting)
    apply_locks(board, policy, setting)
    settle_references(board, inventory, project=request.project)
    settle_collisions(board)
    fill_blanks(board, policy, setting)
    _complete_volumes(board, policy)
    board.refusals += check_rules(board, policy, setting)
    board.refusals += check_denials(board, policy)
    lints = [lint for fields in (request.function, request.task, request.run) if fields for lint in lint_fields(fields)]
    return Resolution(
        spec=_assemble(board, request),
        leaves=tuple(_iter_leaves(board, request)),
        warnings=tuple(dict.fromkeys([*board.warnings, *lints])),
        refusals=tuple(dict.fromkeys(board.refusals)),
        profile=profile,
    )


def find_profile(request: Request, admin_rules: AdminRules) -> Profile | None:
    """The profile that applies to a request, named or by default; None where there is none or it is unknown."""
    return _choose_profile(Board(), request, admin_rules, ProjectPolicy(admin_rules.policy, request.project))


def iter_winning_volumes(request: Request, profile: Profile | None) -> Iterator[Volume]:
    """The volumes that a run gets before anything is resolved: of each name, that of the strongest layer."""
    named = {volume.name: volume for layer in _iter_layers(request, profile) for volume in layer.fields.volumes or ()}
    yield from named.values()


def _choose_profile(board: Board, request: Request, admin_rules: AdminRules, policy: ProjectPolicy) -> Profile | None:
    for fields, owner, source in _iter_users(request):
        if fields is not None and fields.profile is not None:
            board.put(("profile",), Offer(fields.profile, owner, source))
    default, lock, asked = (
        policy.find_default("profile"),
        policy.find_lock("profile"),
        board.find("profile"),
    )
    if default is not None and (default.is_locked or asked is None):
        board.put(("profile",), default.offer("locked" if default.is_locked else "default"))
    elif asked is not None and lock is not None:
        message = f"the {lock.name} locks `profile`; it cannot be chosen"
        board.refusals.append(Problem(Code.POLICY_LOCKED, ("profile",), message, value=asked.value))
    elif asked is None and DEFAULT_PROFILE in admin_rules.profiles:
        rule = "applies when no profile is named"
        board.put(("profile",), Offer(DEFAULT_PROFILE, "profile", f"profile {DEFAULT_PROFILE}", rule))
    chosen = board.find("profile")
    return None if chosen is None else _find_profile(board, chosen.value, admin_rules)


def _find_profile(board: Board, name: str, admin_rules: AdminRules) -> Profile | None:
    profile = admin_rules.profiles.get(name)
    if profile is None:
        names = sorted(admin_rules.profiles)
        board.refusals.append(
            Problem(
                Code.PROFILE_UNKNOWN,
                ("profile",),
                f"there is no profile `{name}`",
                value=name,
                allowed=list_words(names) if names else "no profiles are loaded",
                suggestion=find_nearest(name, names),
            )
        )
    return profile


def _iter_users(request: Request) -> Iterator[tuple[Any, Any, str]]:
    yield request.function, "function", "function"
    yield request.task, "task", "task"
    yield request.run, "you", "you"


def _iter_layers(request: Request, profile: Profile | None) -> Iterator[Layer]:
    if profile is not None:
        for kind in ("Job",) if request.action in ("job", "build") else ("Deployment", "Service"):
            base: AdminFields | None = profile.base.get(kind)  # type: ignore[call-overload]  # a literal in a tuple
            if base is not None:
                yield Layer("base", f"base {kind} of {profile.id}", base)
    for fields, owner, source in _iter_users(request):
        if fields is not None:
            yield Layer(owner, source, fields)
    if profile is not None:
        yield Layer("profile", f"profile {profile.id}", profile.fields)


def _complete_volumes(board: Board, policy: ProjectPolicy) -> None:
    for path, offer in board.under("volumes"):
        volume, filled = complete_volume(offer.value, policy)
        for name, fill in filled.items():
            asked = getattr(offer.value, name)
            if asked is not None:
                board.unfilled[(*path, name)] = Replaced(offer.source, to_plain(asked))
            if asked is not None and offer.is_users:
                new, old = (format_value((*path, name), value) for value in (fill.value, asked))
                message = f"{fill.source} locks {new}; {old} from {offer.source} is ignored"
                board.warnings.append(Problem(Code.OVERRIDE, (*path, name), message))
        board.refine(path, volume)
        board.fills |= {(*path, name): fill for name, fill in filled.items()}


_PLAIN = (
    "profile",
    "image",
    "command",
    "args",
    "working_dir",
    "image_pull_policy",
    "image_pull_secrets",
    "topology_spread",
    "runtime_class",
    "priority_class",
    "scheduler_name",
    "service_account",
    "host_aliases",
    "run_as_user",
    "run_as_group",
    "fs_group",
    "pod_security",
    "replicas",
    "service_ports",
    "service_type",
    "service_name",
    "readiness_path",
    "backoff_limit",
    "disruptions",
    "affinity",
    "parameters",
    "inputs",
    "init_parameters",
    "source",
    "python_version",
    "requirements",
)


def _assemble(board: Board, request: Request) -> EffectiveSpec:
    values: dict[str, Any] = {name: value for name in _PLAIN if (value := board.value(name)) is not None}
    values |= {f"{name}_seconds": value for name in SECONDS if (value := board.value(name)) is not None}
    for name in ("command", "args", "topology_spread"):
        if name in values:
            values[name] = tuple(values[name])
    for name in ("node_selector", "envs", "labels"):
        values[name] = MappingProxyType({str(path[1]): offer.value for path, offer in board.under(name)})
    sides: dict[str, dict[str, Any]] = {}
    for path, offer in board.under("resources"):
        if path[1] not in ("gpu", "disk"):
            sides.setdefault(str(path[1]), {})[str(path[2])] = offer.value
    gpus = board.value("resources", "gpu", LIMITS)
    size = board.value("resources", "disk", "size")
    if size is not None:
        medium, storage_class = (board.value("resources", "disk", leaf) for leaf in ("medium", "storage_class"))
        values["disk"] = Disk(size=size, medium=medium, storage_class=storage_class)
    return EffectiveSpec(
        kind=request.kind,
        action=request.action,
        resources=MappingProxyType({name: Sides(**both) for name, both in sides.items()}),
        gpu=None if gpus is None else gpus.value,
        gpu_resource=board.value("resources", "gpu", "resource"),
        tolerations=tuple(offer.value for _, offer in board.under("tolerations")),
        volumes=tuple(offer.value for _, offer in board.under("volumes")),
        secrets=tuple(offer.value for _, offer in board.under("secrets")),
        **values,
    )


def _iter_leaves(board: Board, request: Request) -> Iterator[Leaf]:
    who, source = ("function", "function") if request.function is not None else ("you", "you")
    yield Leaf(("kind",), request.kind, who, source)  # type: ignore[arg-type]  # both are owners
    yield Leaf(("action",), request.action, "you", "you")
    for leaf in board.iter_leaves():
        if leaf.path[0] == "volumes":
            yield from _iter_volume_leaves(leaf, board)
        else:
            yield leaf


def _iter_volume_leaves(leaf: Leaf, board: Board) -> Iterator[Leaf]:
    for key, value in leaf.value.items():
        path = (*leaf.path, key)
        replaced = tuple(
            replace(other, value=other.value.get(key))
            for other in leaf.replaced
            if other.value.get(key) not in (None, value)
        )
        if path in board.unfilled:
            replaced = (board.unfilled[path], *replaced)
        fill = board.fills.get(path)
        if fill is None:
            yield Leaf(path, value, leaf.owner, leaf.source, leaf.rule, replaced)
        else:
            yield Leaf(path, value, fill.owner, fill.source, fill.rule, replaced)
