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
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, format_path
from runyard.spec.resources import LARGEST_AMOUNT, LIMITS, REQUESTS
from runyard.spec.run_fields import RunFields

Outcome = Literal["refused", "accepted", "changed", "unchanged", "refused_by_both"]
OUTCOMES: tuple[Outcome, ...] = ("refused", "accepted", "changed", "unchanged", "refused_by_both")
MOST_CAUSES = 10
"""Causes of refusals by both rules that are listed, the most frequent first; the others are counted."""
MOST_DISTINCT_CAUSES = 1000
"""Different causes that are told apart; later ones are only counted."""


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
    """The outcome for one run: newly refused, newly accepted, changed, unchanged, or refused by both rules."""

    id: str
    project: str
    outcome: Outcome
    changes: tuple[Change, ...] = ()
    refusals: tuple[Problem, ...] = ()
    """The refusals that the new rules add."""
    causes: tuple[Problem, ...] = ()
    """All refusals by the new rules, of a run that the old ones refuse too."""
    direction: Literal["smaller", "larger", "mixed"] | None = None
    """Whether a changed run would get less or more cpu, memory, GPUs and disk."""

    @property
    def all_refusals(self) -> tuple[Problem, ...]:
        """Why the new rules refuse the run, whether or not the old ones do."""
        return self.causes or self.refusals

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
        if self.all_refusals:
            shown["refusals"] = [problem.to_dict() for problem in self.all_refusals]
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A reason why both rules refuse some runs, and the number of those runs."""

    code: Code
    path: Path
    message: str
    runs: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "code": self.code.value,
            "path": format_path(self.path),
            "message": self.message,
            "runs": self.runs,
        }


class Causes:
    """Counts why both rules refuse runs. Its memory is bounded."""

    def __init__(self) -> None:
        self._counted: Counter[tuple[Code, Path, str]] = Counter()
        self._is_full = False

    def add(self, run: RehearsedRun) -> None:
        """Count the causes of one run, each once."""
        for key in {(problem.code, problem.path, problem.message) for problem in run.causes}:
            if key in self._counted or len(self._counted) < MOST_DISTINCT_CAUSES:
                self._counted[key] += 1
            else:
                self._is_full = True

    def list_first(self) -> list[Cause]:
        """Return the most frequent causes, `MOST_CAUSES` at most."""
        ordered = sorted(self._counted.items(), key=lambda item: (-item[1], item[0][0].value, str(item[0][1:])))
        return [
            Cause(code=code, path=path, message=message, runs=runs)
            for (code, path, message), runs in ordered[:MOST_CAUSES]
        ]

    @property
    def left_out(self) -> int:
        """The number of causes that `list_first` leaves out; at least that many if there are very many."""
        return max(0, len(self._counted) - MOST_CAUSES) + self._is_full


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

    @property
    def causes(self) -> Causes:
        """Why both rules refuse runs."""
        counted = Causes()
        for run in self.runs:
            counted.add(run)
        return counted


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
        return RehearsedRun(
            id=entry.id, project=project, outcome="refused_by_both", refusals=added, causes=after.refusals
        )
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
