"""The outcome of a storm: the seed, the counts of faults, and each broken rule with the history of its run."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.chaos.audit_log import AuditEntry
from tests.chaos.evidence import Evidence, StoredGap
from tests.chaos.judge import ANSWER, RULES, Violation, is_engine, judge_run, name_stream
from tests.second_attempt import PromiseBroken

MOST_TOLD = 12
"""Violations whose runs are told in full."""
MOST_ENTRIES = 60
"""Of the audit log, of a run that is told in full."""
LONGEST_REQUEST = 300
DELETIONS = ("pod-delete", "job-delete", "claim-delete")


@dataclass(slots=True, kw_only=True)
class Report:
    """The outcome of one storm."""

    command: str
    seconds: float
    faults: Mapping[str, int]
    """How often each was done."""
    proxy_faults: Mapping[str, int] = field(default_factory=dict)
    """How often each met a request."""
    evidences: Sequence[Evidence]
    violations: Sequence[Violation]
    strays: Sequence[str] = ()
    """Objects of the installation that belong to no run of the storm."""
    settle_seconds: float = 0.0
    """From the last fault until every run had ended."""
    most_in_flight: int = 0
    """Runs that were submitted and had not ended, at the same time."""
    most_pods: int = 0
    """Pods that ran at the same time."""
    crashes: Sequence[str] = ()
    """Servers that ended though nobody killed them, with the end of their output."""
    notes: Sequence[str] = field(default=())

    @property
    def is_clean(self) -> bool:
        """Whether every rule held."""
        return not self.violations and not self.strays and not self.crashes

    def format(self) -> str:
        """For people."""
        return "\n".join(self._iter_lines())

    def _iter_lines(self) -> Iterator[str]:
        yield f"to repeat this storm: {self.command}"
        yield ""
        yield from self._iter_table()
        yield ""
        yield from self.notes
        yield from self.crashes[:3]
        yield from (f"stray: {stray}" for stray in self.strays[:MOST_TOLD])
        known = {evidence.workload.run_id: evidence for evidence in self.evidences}
        for violation in self.violations[:MOST_TOLD]:
            yield ""
            yield f"{violation.rule}: {violation.run_id}: {violation.message}"
            yield from tell_run(known[violation.run_id])
        if len(self.violations) > MOST_TOLD:
            yield f"… and {len(self.violations) - MOST_TOLD} more:"
            yield from (f"{each.rule}: {each.run_id}: {each.message}" for each in self.violations[MOST_TOLD:100])

    def _iter_table(self) -> Iterator[str]:
        """The figures, as a table in Markdown: `docs/design/faults.md` has one of them."""
        pods = sum(len(evidence.pods) for evidence in self.evidences)
        lines = sum(len(printed) for evidence in self.evidences for printed in evidence.printed.values())
        broken = Counter(violation.rule for violation in self.violations)
        rows = {
            "runs, pods, lines printed": f"{len(self.evidences):,}, {pods:,}, {lines:,}",
            "most at once": f"{self.most_in_flight} runs in flight, {self.most_pods} pods running",
            "time": f"{self.seconds:.0f} s, of which {self.settle_seconds:.0f} s for all to end after the last fault",
            "faults of components": _format(self._choose_faults(lambda kind: kind not in DELETIONS)),
            "deleted by others": _format(self._choose_faults(lambda kind: kind in DELETIONS)),
            "faults of the proxy": _format(self.proxy_faults),
            "ends": _format(Counter(_describe_outcome(evidence) for evidence in self.evidences)),
            "gaps that logs name": _format(
                Counter(gap.cause for evidence in self.evidences for gap in _iter_gaps(evidence))
            ),
            "broken rules": _format({rule: broken[rule] for rule in (*RULES, ANSWER)}),
            "strays, servers that ended by themselves": f"{len(self.strays)}, {len(self.crashes)}",
        }
        yield "| | |"
        yield "|---|---|"
        yield from (f"| {name} | {figures} |" for name, figures in rows.items())

    def _choose_faults(self, is_chosen: Callable[[str], bool]) -> dict[str, int]:
        return {kind: count for kind, count in sorted(self.faults.items()) if is_chosen(kind)}


def assert_clean(evidences: Sequence[Evidence]) -> None:
    """Raise `PromiseBroken` if one of the runs breaks a rule, with the rule and the history of that run."""
    for evidence in evidences:
        if violations := judge_run(evidence):
            found = [f"{each.rule}: {each.run_id}: {each.message}" for each in violations]
            raise PromiseBroken("\n".join([*found, *tell_run(evidence)]))


def tell_run(evidence: Evidence) -> Iterator[str]:
    """The history of a run as the judge saw it, one line per event."""
    workload = evidence.workload
    yield f"  {workload}"
    asked = {"stop": evidence.stop_asked_at, "delete": evidence.delete_asked_at}
    wishes = ", ".join(f"{name} at {_format_time(at)}" for name, at in asked.items() if at is not None)
    status = evidence.status
    yield f"  users asked: {wishes or 'nothing'}; submitted: {evidence.is_submitted}"
    yield f"  the API says: {evidence.state} {status.get('reason') or ''} {status.get('message') or ''}".rstrip()
    yield f"  its ends: {status.get('ends')}, its logs: {status.get('logs')}"
    for step in reversed(evidence.status.get("transitions", [])):
        yield f"  {step.get('time', '')} {step.get('status')} {step.get('reason') or ''} {step.get('message') or ''}"
    for tampering in evidence.tamperings:
        yield f"  {_format_time(tampering.at)} a fault deleted {tampering.resource} {tampering.name}"
    for pod in evidence.pods:
        ends = {number: (end.exit_code, end.reason, end.finished_at) for number, end in pod.ends.items()}
        gone = f"deleted {_format_time(pod.deleted_at)}" if pod.deleted_at else "still there"
        yield f"  {_format_time(pod.seen_at)} pod {pod.name} {pod.uid} {pod.phase}, {gone}, ends={ends}"
        yield f"    conditions {sorted(pod.conditions)}, started={pod.has_started}"
    for anchor in evidence.anchors:
        gone = f"deleted {_format_time(anchor.deleted_at)}" if anchor.deleted_at else "still there"
        yield f"  {_format_time(anchor.seen_at)} {anchor.resource} {anchor.uid}, {gone}, {sorted(anchor.conditions)}"
    for entry in evidence.entries[:MOST_ENTRIES]:
        who = "engine" if is_engine(entry) else entry.user.rpartition(":")[2]
        yield f"  {entry.at} {who} {entry.verb} {entry.resource} {entry.name} → {entry.status}{_format_request(entry)}"
    for instance, printed in evidence.printed.items():
        yield f"  printed {name_stream(instance)}: {len(printed)} lines"
    for name, stored in evidence.logs.items():
        sizes = [len(segment) for segment in stored.segments]
        yield f"  stored {name}: {sizes} lines"
        for gap in (piece for piece in stored.pieces if isinstance(piece, StoredGap)):
            yield f"    gap {_format_time(gap.since)} to {_format_time(gap.until)}: {gap.cause}"
    for remain in evidence.remains:
        yield f"  left: {remain['kind']} {remain['metadata']['name']}"


def _format_request(entry: AuditEntry) -> str:
    return f" {json.dumps(entry.request)[:LONGEST_REQUEST]}" if entry.request and is_engine(entry) else ""


def _format_time(seconds: float) -> str:
    """As the audit log writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _describe_outcome(evidence: Evidence) -> str:
    reason = evidence.status.get("reason")
    return f"{evidence.state} {reason}" if evidence.state == "ERROR" else evidence.state


def _iter_gaps(evidence: Evidence) -> Iterator[StoredGap]:
    for stored in evidence.logs.values():
        yield from (piece for piece in stored.pieces if isinstance(piece, StoredGap))


def _format(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
