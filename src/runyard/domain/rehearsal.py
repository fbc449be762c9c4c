"""Rehearsal (dry run) of a policy change: resolves recorded requests with the old and the new rules. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from runyard.domain.resolution import Resolution, resolve
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.spec.config_maps import ConfigMap, parse_config_map_reference
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problems import Path, Problem, format_path
from runyard.spec.resources import LARGEST_AMOUNT, LIMITS, REQUESTS
from runyard.spec.run_fields import RunFields

Outcome = Literal["refused", "accepted", "changed", "unchanged"]
OUTCOMES: tuple[Outcome, ...] = ("refused", "accepted", "changed", "unchanged")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A request as it was made, and the inventory of its project at that time."""

    id: str
    request: Request
    inventory: ProjectInventory


def assume_inventory(*layers: RunFields | None) -> ProjectInventory:
    """Make the inventory of a project that has every secret, volume, claim and config map named in the layers.

    The config maps have no files.
    Use it only to compare policies and profiles: the inventory is the same on both sides.
    """
    fields = [layer for layer in layers if layer is not None]
    volumes = [volume for layer in fields for volume in layer.volumes or ()]
    named = [parse_config_map_reference(volume.config_map) for volume in volumes if volume.config_map is not None]
    kept = {volume.claim_name or volume.name for volume in volumes if volume.type == "shared_volume"}
    return ProjectInventory(
        secrets=frozenset(use.name for layer in fields for use in layer.secrets or ()),
        volumes=MappingProxyType({name: name for name in sorted(kept)}),
        claims=frozenset(volume.claim_name for volume in volumes if volume.claim_name is not None),
        config_maps=MappingProxyType(
            {str(each): ConfigMap(name=each.name, version=each.version, data=MappingProxyType({})) for each in named}
        ),
    )


@dataclass(frozen=True, slots=True)
class Change:
    """A leaf that would change; None stands for a blank."""

    path: Path
    old: Any
    new: Any
    by: str
    """The owner of the new value, or of the old one if the leaf becomes blank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedRun:
    """The outcome for one run: newly refused, newly accepted, changed, or unchanged."""

    id: str
    project: str
    outcome: Outcome
    changes: tuple[Change, ...] = ()
    refusals: tuple[Problem, ...] = ()
    """The refusals that the new rules add."""
    direction: Literal["smaller", "larger", "mixed"] | None = None
    """Whether a changed run would get less or more cpu, memory, GPUs and disk."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        shown: dict[str, Any] = {"id": self.id, "project": self.project, "outcome": self.outcome}
        if self.direction:
            shown["direction"] = self.direction
        if self.changes:
            shown["changes"] = [
                {"path": format_path(change.path), "old": change.old, "new": change.new, "by": change.by}
                for change in self.changes
            ]
        if self.refusals:
            shown["refusals"] = [problem.to_dict() for problem in self.refusals]
        return shown


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The outcome of all runs, in the order given."""

    runs: tuple[RehearsedRun, ...]

    @property
    def counts(self) -> Mapping[str, int]:
        """Runs by outcome, and the changed ones by direction."""
        counted = Counter(run.outcome for run in self.runs)
        directions = Counter(run.direction for run in self.runs if run.direction)
        return {
            **{outcome: counted[outcome] for outcome in OUTCOMES},
            **{str(key): directions[key] for key in sorted(directions)},
        }


def rehearse(recorded: Iterable[RecordedRequest], *, old: AdminRules, new: AdminRules) -> Rehearsal:
    """Resolve every request with both rules, and compare."""
    return Rehearsal(tuple(_play(entry, old=old, new=new) for entry in recorded))


def _play(entry: RecordedRequest, *, old: AdminRules, new: AdminRules) -> RehearsedRun:
    before = resolve(entry.request, old, entry.inventory)
    after = resolve(entry.request, new, entry.inventory)
    project = entry.request.project
    if after.is_refused and not before.is_refused:
        return RehearsedRun(id=entry.id, project=project, outcome="refused", refusals=after.refusals)
    if before.is_refused and after.is_refused:
        known = {(problem.code, problem.path) for problem in before.refusals}
        added = tuple(problem for problem in after.refusals if (problem.code, problem.path) not in known)
        return RehearsedRun(id=entry.id, project=project, outcome="unchanged", refusals=added)
    if before.is_refused:
        return RehearsedRun(id=entry.id, project=project, outcome="accepted")
    changes = _compare(before, after)
    outcome: Outcome = "changed" if changes else "unchanged"
    return RehearsedRun(
        id=entry.id, project=project, outcome=outcome, changes=changes, direction=_find_direction(changes)
    )


def _compare(before: Resolution, after: Resolution) -> tuple[Change, ...]:
    old = {leaf.path: leaf for leaf in before.leaves}
    new = {leaf.path: leaf for leaf in after.leaves}
    changes = []
    for path in dict.fromkeys([*old, *new]):
        was, will = old.get(path), new.get(path)
        if (was and was.value) != (will and will.value):
            by = will.source if will is not None else was.source if was is not None else ""
            changes.append(Change(path, was and was.value, will and will.value, by))
    return tuple(changes)


def _find_direction(changes: Iterable[Change]) -> Literal["smaller", "larger", "mixed"] | None:
    found = set()
    for change in changes:
        if change.path[0] == "resources" and change.path[-1] in (REQUESTS, LIMITS, "size"):
            is_bound = change.path[-1] == LIMITS and change.path[1] != "gpu"
            was, will = (_read_amount(value, is_bound=is_bound) for value in (change.old, change.new))
            if was != will:
                found.add("larger" if was < will else "smaller")
    if not found:
        return None
    return "mixed" if len(found) > 1 else "larger" if "larger" in found else "smaller"


def _read_amount(value: Any, *, is_bound: bool) -> Quantity:
    """The amount of a leaf; a blank request counts as zero, a blank limit as unbounded."""
    return Quantity.parse(value) if value is not None else LARGEST_AMOUNT if is_bound else Quantity.from_int(0)
