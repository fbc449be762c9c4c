"""Rehearse a candidate policy or profiles against stored runs before applying them. Writes only an audit entry.

Each run's stored request is resolved twice, by the current rules and by the candidate. Requests that can no longer be
read, because their task or function is gone, are counted and listed.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.list_query import Query
from runyard.app.model import Json, Principal, Run
from runyard.app.ports import UnitOfWork
from runyard.app.rules import assume_recorded, load_current, read_profile
from runyard.app.runs.entity_cache import EntityCache
from runyard.app.runs.run_requests import read_run_request
from runyard.app.times import read_time
from runyard.domain.rehearsal import OUTCOMES, Causes, RecordedRequest, RehearsedRun, rehearse
from runyard.domain.resolve_inputs import AdminRules
from runyard.spec.policy import Policy, read_policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Refused
from runyard.spec.profile import Profile
from runyard.spec.readers import Findings, expect_integer, expect_keys, expect_mapping, expect_text, refuse

FIELDS = ("policy", "profiles", "since", "until", "project", "limit")
DEFAULT_RUNS = 1000
MOST_RUNS = 10_000
MOST_DETAILS = 200
"""Runs that are listed; the others are only counted."""
MOST_CHANGES = 50
SLICE = 50
"""Runs that are resolved at once; other tasks run between two slices."""
MOST_SLICE_BYTES = 8 << 20
"""Specs and statuses of the runs of a slice; if they are large, it has fewer runs."""
DIRECTIONS = ("smaller", "larger", "mixed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The candidate rules, and the runs to rehearse them against."""

    has_policy: bool = False
    policy: Policy | None = None
    """With `has_policy`, None is the built-in policy."""
    profiles: Mapping[str, Profile | None] = field(default_factory=lambda: MappingProxyType({}))
    """None: the profile would be deleted."""
    since: datetime | None = None
    until: datetime | None = None
    project: str | None = None
    limit: int = DEFAULT_RUNS

    def prepare(self, current: AdminRules) -> AdminRules:
        """The rules with the candidate applied."""
        changed = {**current.profiles, **self.profiles}
        profiles = {name: profile for name, profile in changed.items() if profile is not None}
        policy = (self.policy or Policy()) if self.has_policy else current.policy
        return AdminRules(policy=policy, profiles=MappingProxyType(profiles))


@dataclass(slots=True)
class Outcome:
    """The result: counts, and details of some runs."""

    counts: Counter[str] = field(default_factory=Counter)
    causes: Causes = field(default_factory=Causes)
    """Why the current rules and the candidate refuse runs."""
    details: list[Json] = field(default_factory=list)
    left_out: int = 0
    """Runs whose details were left out."""
    total: int = 0
    """Runs in the time span; the newest `limit` of them were rehearsed."""

    def add(self, played: RehearsedRun) -> None:
        """Count one rehearsed run."""
        self.counts[played.outcome] += 1
        self.causes.add(played)
        if played.direction is not None:
            self.counts[played.direction] += 1
        if played.outcome not in ("unchanged", "refused_by_both") or played.refusals:
            shown = played.to_dict()
            shown["changes"] = shown.get("changes", [])[:MOST_CHANGES]
            self.add_details(shown)

    def add_details(self, shown: Json) -> None:
        """Add the details of one run, up to `MOST_DETAILS`."""
        if len(self.details) < MOST_DETAILS:
            self.details.append({key: value for key, value in shown.items() if value not in (None, [])})
        else:
            self.left_out += 1

    def to_dict(self) -> Json:
        """For JSON, with every count."""
        names = (*OUTCOMES, *DIRECTIONS, "unreadable", "local")
        counts = {name: self.counts[name] for name in names}
        return {
            "counts": counts,
            "refused_by_both": [cause.to_dict() for cause in self.causes.list_first()],
            "runs": self.details,
            "left_out": self.left_out,
            "total": self.total,
        }


async def rehearse_candidate(core: Core, who: Principal, given: Any) -> Outcome:
    """Rehearse the runs of a time span, newest first. Raises `Refused` with every problem of the candidate."""
    candidate = await compute(lambda: read_candidate(given), over=given)
    outcome = Outcome()
    # New runs would shift the pages.
    until = candidate.until or core.clock.now()
    async with core.store.begin(is_read_only=True) as unit:
        old = (await load_current(unit)).admin_rules
    new = candidate.prepare(old)
    number, left = 0, candidate.limit
    query = Query(
        type="run",
        project=candidate.project,
        created=(candidate.since, until),
        size=SLICE,
        most_bytes=MOST_SLICE_BYTES,
    )
    while left > 0:
        async with core.store.begin(is_read_only=True) as unit:
            page = await unit.runs.find_page(replace(query, page=number))
            runs = [run for run in page.content if isinstance(run, Run)][:left]
            recorded = await _record(unit, runs, old=old, new=new, outcome=outcome)
        outcome.total = page.total
        for played in (await asyncio.to_thread(rehearse, recorded, old=old, new=new)).runs:
            outcome.add(played)
        number, left = number + 1, left - len(runs)
        if len(page.content) < page.size:
            break
        # A larger run that is stored meanwhile must not shift the pages.
        query = replace(query, size=page.size, most_bytes=None)
    await _note(core, who, candidate, outcome)
    return outcome


def read_candidate(given: Any) -> Candidate:
    """Read the body of a rehearsal; raises `Refused` with every problem."""
    findings = Findings()
    document = expect_mapping(given, of="what is rehearsed")
    expect_keys(document, FIELDS, findings)
    if "policy" not in document and not document.get("profiles"):
        findings.add(Code.REHEARSAL_EMPTY, (), "needs a `policy` or `profiles`")
    profiles = findings.read(_read_profiles, document.get("profiles") or {}, "profiles")
    values: dict[str, Any] = {
        name: findings.read(reader, document[name], name)
        for name, reader in _READERS.items()
        if document.get(name) is not None
    }
    findings.finish()
    since, until = values.get("since"), values.get("until")
    if since is not None and until is not None and since > until:
        raise refuse(Code.TIME_ORDER, "ends before it begins", path=("until",), value=document["until"])
    return Candidate(has_policy="policy" in document, profiles=profiles or {}, **values)


async def _record(
    unit: UnitOfWork, runs: list[Run], *, old: AdminRules, new: AdminRules, outcome: Outcome
) -> list[RecordedRequest]:
    """The runs that can be rehearsed; the others are counted."""
    entities = EntityCache(unit.entities)
    profiles = [*old.profiles.values(), *new.profiles.values()]
    recorded = []
    for run in runs:
        # Parsing takes time, and a cache hit does not yield to other tasks.
        await asyncio.sleep(0)
        if run.is_local:
            outcome.counts["local"] += 1
            continue
        try:
            request = (await read_run_request(entities, run.project, run.request)).request
        except Refused as refused:
            outcome.counts["unreadable"] += 1
            problems = [problem.to_dict() for problem in refused.problems]
            outcome.add_details({"id": run.id, "project": run.project, "outcome": "unreadable", "refusals": problems})
            continue
        if request is not None:
            recorded.append(assume_recorded(run.id, request, profiles))
    return recorded


async def _note(core: Core, who: Principal, candidate: Candidate, outcome: Outcome) -> None:
    async with core.store.begin() as unit:
        details = {
            "policy": candidate.has_policy,
            "profiles": sorted(candidate.profiles),
            "counts": {name: count for name, count in outcome.counts.items() if count},
        }
        of = ("policy", None)
        await note_act(core, unit, who, "policy.rehearse", of=of, project=candidate.project, details=details)
        await unit.commit()


def _read_profiles(given: Any) -> Mapping[str, Profile | None]:
    findings = Findings()
    read: dict[str, Profile | None] = {}
    for name, document in expect_mapping(given, of="profiles by their names").items():
        if document is None:
            read[name] = None
        else:
            found = findings.read(lambda one, name=name: read_profile(one, name), document, name)  # type: ignore[misc]
            read[name] = None if found is None else found[0]
    findings.finish()
    return read


def _read_limit(given: Any) -> int:
    return expect_integer(given, what="the limit", at_least=1, at_most=MOST_RUNS)


def _read_project(given: Any) -> str:
    return expect_text(given, what="the project", most=256)


_READERS: Mapping[str, Any] = {
    "policy": read_policy,
    "since": read_time,
    "until": read_time,
    "project": _read_project,
    "limit": _read_limit,
}
