"""The judge of the storm: what it must notice, and what it must let pass."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.audit_log import AuditEntry
from tests.chaos.evidence import Evidence, StoredGap, StoredLog, Tampering, read_stored_logs
from tests.chaos.judge import judge_run, read_time
from tests.chaos.kept_logs import Instance, PrintedLine, read_container_log
from tests.chaos.log_comparison import SKEW_SECONDS, compare_log
from tests.chaos.witness import ContainerEnd, Sighting, read_status_time
from tests.chaos.workloads import Workload

WORKLOAD = Workload(number=1, run_id="r1", lines=3, pause_seconds=0.1, ttl_seconds=60)
LINES = ["1 1 a", "1 2 b", "1 3 c", "1 end 3 0"]
ENGINE = "system:serviceaccount:runyard-system:runyard-server"
APART_SECONDS = 100.0
"""Between two lines: much more than the skew of a gap."""
PRINTED = [PrintedLine(line, number * APART_SECONDS) for number, line in enumerate(LINES)]
BEFORE, ENDED, AFTER = "2026-01-01T00:00:05.000000Z", "2026-01-01T00:00:10Z", "2026-01-01T00:00:15.000000Z"


def make_sighting(resource: str, uid: str, *, status: dict[str, Any] | None = None, **more: Any) -> Sighting:
    return Sighting(
        resource, uid, f"run-r1-{uid}", "r1", "u1", 0.0, {"metadata": {}, "status": status or {}, "kind": "x"}, **more
    )


def make_pod(exit_code: int = 0, *, reason: str = "", **more: Any) -> Sighting:
    phase = "Failed" if exit_code else "Succeeded"
    ends = {0: ContainerEnd(exit_code, reason, ENDED)}
    values = {"ends": ends, "has_started": True, "start_told_at": 0.0, **more}
    return make_sighting("pods", "p", status={"phase": phase}, **values)


def make_entry(verb: str, resource: str, *, at: str = AFTER, uid: str | None = None, **more: Any) -> AuditEntry:
    values = {"user": ENGINE, "namespace": "n", "name": "run-r1-j", "status": 200, **more}
    return AuditEntry(at=at, verb=verb, resource=resource, uid=uid, **values)


def make_evidence(state: str = "COMPLETED", *, exit_code: int = 0, reason: str | None = None, **more: Any) -> Evidence:
    job = make_sighting(
        "jobs",
        "j",
        status={
            "conditions": [
                {"type": "Failed" if exit_code else "Complete", "status": "True", "lastTransitionTime": ENDED}
            ]
        },
    )
    end = {"pod": "run-r1-p", "container": "main", "instance": 0, "exit_code": exit_code, "is_out_of_memory": False}
    status = {
        "state": state,
        "reason": reason,
        "ends": [end],
        "logs": {"state": "complete"},
        "transitions": [{"status": state}, {"status": "RUNNING"}, {"status": "PENDING"}],
    }
    values: dict[str, Any] = {
        "anchors": [job],
        "pods": [make_pod(exit_code)],
        "printed": {Instance("p", "run-r1-p", "main", 0): PRINTED},
        "logs": {"run-r1-p/main": StoredLog(list(LINES))},
        "entries": [make_entry("create", "jobs", at=BEFORE, uid="j")],
    }
    return Evidence(workload=WORKLOAD, is_submitted=True, document={"status": status}, **{**values, **more})


def make_gap(cause: str = "pod deleted: …", *, lines: tuple[int, int] = (0, len(LINES))) -> StoredGap:
    """A gap from the moment of one line to that of another."""
    since, until = (line * APART_SECONDS for line in lines)
    return StoredGap(cause, since, until)


def judge(evidence: Evidence) -> list[str]:
    return [violation.rule for violation in judge_run(evidence)]


def test_nothing_is_broken_when_a_run_ended_as_its_pod_did() -> None:
    assert judge(make_evidence()) == []
    assert judge(make_evidence("ERROR", exit_code=3, reason="run.failed")) == []


@pytest.mark.parametrize(
    "evidence",
    [
        make_evidence("ERROR", reason="run.failed"),
        make_evidence("ERROR", reason="run.failed", stop_asked_at=1.0),
        make_evidence("COMPLETED", exit_code=3),
        make_evidence("ERROR", exit_code=3),
        make_evidence("RUNNING"),
        make_evidence("STOPPED", exit_code=3, reason="run.stopped"),
        make_evidence("ERROR", exit_code=3, reason="run.lost"),
        replace(make_evidence(), document=None, logs={}),
        replace(make_evidence(), is_delete_acknowledged=True, delete_asked_at=1.0),
        make_evidence("ERROR", exit_code=3, reason="run.failed", pods=[make_pod(4)]),
        make_evidence("ERROR", exit_code=137, reason="run.failed", pods=[make_pod(137, reason="OOMKilled")]),
    ],
)
def test_state_is_wrong_when_the_pod_says_otherwise(evidence: Evidence) -> None:
    assert judge(evidence) == ["state"]


def test_run_may_be_stopped_deleted_or_lost_when_somebody_did_that() -> None:
    assert judge(make_evidence("STOPPED", exit_code=143, reason="run.stopped", stop_asked_at=1.0)) == []
    assert judge(replace(make_evidence(), document=None, logs={}, delete_asked_at=1.0)) == []
    removed = [Tampering(1.0, "jobs", "run-r1-j", "r1")]
    lost = make_evidence("ERROR", reason="run.lost", pods=[], printed={}, logs={}, tamperings=removed)
    assert judge(lost) == []


def test_second_anchor_is_noticed_when_the_audit_log_or_the_witness_has_it() -> None:
    twice = [make_entry("create", "jobs", at=BEFORE, uid=uid) for uid in ("j", "k")]
    assert judge(make_evidence(entries=twice)) == ["doubled"]
    anchors = [*make_evidence().anchors, make_sighting("jobs", "k")]
    assert judge(make_evidence(anchors=anchors)) == ["doubled"]
    refused = [*make_evidence().entries, make_entry("create", "jobs", uid=None, status=409)]
    assert judge(make_evidence(entries=refused)) == []


def test_second_anchor_is_none_too_many_when_others_deleted_the_first_while_it_was_held_back() -> None:
    moments = [f"2026-01-01T00:00:0{second}.000000Z" for second in range(4)]
    first, again = (make_entry("create", "jobs", at=moments[place], uid=uid) for place, uid in ((0, "i"), (3, "j")))
    deletion = make_entry("delete", "jobs", at=moments[2], user="admin")
    released = make_entry("patch", "jobs", at=moments[1])
    assert judge(make_evidence(entries=[first, deletion, again])) == []
    assert judge(make_evidence(entries=[first, released, deletion, again])) == ["doubled"]
    ours = replace(deletion, user=ENGINE)
    assert judge(make_evidence(entries=[first, ours, again])) == ["doubled", "live work ended"]
    pod = make_pod()
    pod.object["metadata"]["ownerReferences"] = [{"uid": "i"}]
    assert judge(make_evidence(entries=[first, deletion, again], pods=[pod])) == ["doubled"]


@pytest.mark.parametrize(
    "entry",
    [
        make_entry("delete", "jobs", at=BEFORE),
        make_entry("delete", "pods", at=BEFORE),
        make_entry(
            "patch", "pods", at=BEFORE, request=[{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}]
        ),
        make_entry("patch", "jobs", at=BEFORE, request=[{"op": "add", "path": "/spec/backoffLimit", "value": 0}]),
    ],
)
def test_live_work_is_ended_when_nobody_asked_for_it(entry: AuditEntry) -> None:
    assert judge(make_evidence(entries=[entry])) == ["live work ended"]
    assert judge(make_evidence(entries=[replace(entry, at=AFTER)])) == []
    assert judge(make_evidence(entries=[entry], stop_asked_at=1.0)) == []
    assert judge(make_evidence(entries=[entry], stop_asked_at=read_time(AFTER))) == ["live work ended"]
    assert judge(make_evidence(entries=[replace(entry, user="admin")])) == []
    assert judge(make_evidence(entries=[replace(entry, status=404)])) == []


def test_work_has_ended_with_its_pod_when_its_node_lost_the_container() -> None:
    lost = {0: ContainerEnd(137, "ContainerStatusUnknown", "")}
    entry = make_entry("patch", "jobs", request=[{"op": "add", "path": "/spec/backoffLimit", "value": 0}])
    values: dict[str, Any] = {"exit_code": 137, "reason": "run.failed", "anchors": [make_sighting("jobs", "j")]}

    def judge_pod(
        *, ended_at: str | None, conditions: Sequence[dict[str, str]] = (), deleted_at: str | None = None
    ) -> bool:
        pod = make_sighting("pods", "p", status={"phase": "Failed", "conditions": conditions}, ends=lost)
        pod.object["metadata"]["deletionTimestamp"] = deleted_at
        pod.ended_at = None if ended_at is None else read_time(ended_at)
        return "live work ended" in judge(make_evidence("ERROR", pods=[pod], entries=[entry], **values))

    assert not judge_pod(ended_at=BEFORE)
    assert judge_pod(ended_at=None)
    assert judge_pod(ended_at="2026-01-01T00:00:16Z")
    assert judge_pod(ended_at=BEFORE, conditions=[{"type": "DisruptionTarget", "status": "True"}])
    assert not judge_pod(ended_at=BEFORE, deleted_at=BEFORE)  # by somebody: it counts as a failure


def test_work_has_ended_when_its_pods_have_used_up_the_retries() -> None:
    entry = make_entry("patch", "jobs", request=[{"op": "add", "path": "/spec/backoffLimit", "value": 0}])

    def judge_pods(*disrupted: str | None, retries: int = 1) -> bool:
        conditions = [
            [] if at is None else [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at}]
            for at in disrupted
        ]
        pods = [
            make_sighting(
                "pods", f"p{n}", status={"phase": "Failed", "conditions": some}, ends={0: ContainerEnd(7, "", ENDED)}
            )
            for n, some in enumerate(conditions)
        ]
        evidence = make_evidence("ERROR", exit_code=7, pods=pods, entries=[entry], anchors=[make_sighting("jobs", "j")])
        return "live work ended" in judge(replace(evidence, workload=replace(WORKLOAD, backoff_limit=retries)))

    assert not judge_pods(None, None)
    assert judge_pods(None, None, retries=2)
    assert not judge_pods(None, AFTER)  # it had failed by itself before its node was lost
    assert judge_pods(None, "2026-01-01T00:00:05Z")
    assert judge_pods("2026-01-01T00:00:05Z", retries=0)  # it was disrupted first: another takes its place
    assert not judge_pods(None, retries=0)


def test_end_of_a_pod_is_the_write_of_its_status_when_the_witness_sees_it_later() -> None:
    fields = [
        {"manager": "kube-controller-manager", "time": AFTER},
        {"manager": "kubelet", "subresource": "status", "time": ENDED},
    ]
    assert read_status_time({"metadata": {"managedFields": fields}}) == read_time(ENDED)


@pytest.mark.parametrize(
    ("reason", "early", "due"),
    [
        ("timeout.run", replace(WORKLOAD, timeout_seconds=11), replace(WORKLOAD, timeout_seconds=10)),
        (
            "timeout.pending",
            replace(WORKLOAD, pending_timeout_seconds=11),
            replace(WORKLOAD, pending_timeout_seconds=10),
        ),
    ],
)
def test_live_work_is_ended_when_its_timeout_has_not_passed(reason: str, early: Workload, due: Workload) -> None:
    deletion: dict[str, Any] = {
        "entries": [make_entry("delete", "jobs", at=BEFORE)],
        "submit_asked_at": read_time(BEFORE) - 10,
    }
    evidence = make_evidence("ERROR", exit_code=143, reason=reason, **deletion)
    assert judge(evidence) == ["state", "live work ended"]
    assert judge(replace(evidence, workload=early)) == ["live work ended"]
    assert judge(replace(evidence, workload=due)) == []


def test_timeout_of_what_waits_is_no_excuse_when_the_run_has_run() -> None:
    deletion: dict[str, Any] = {
        "entries": [make_entry("delete", "jobs", at=BEFORE)],
        "submit_asked_at": read_time(BEFORE) - 10,
    }
    waited = replace(make_evidence(**deletion), workload=replace(WORKLOAD, pending_timeout_seconds=1))
    assert judge(waited) == ["live work ended"]
    late = make_pod(start_told_at=read_time(BEFORE) - 9)
    assert judge(replace(waited, pods=[late])) == []


def test_release_and_settlement_are_no_end_of_work_when_they_are_patches() -> None:
    release = make_entry("patch", "jobs", at=BEFORE, request=[{"op": "add", "path": "/spec/suspend", "value": False}])
    ttl = [{"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": 5}]
    assert judge(make_evidence(entries=[release, make_entry("patch", "jobs", at=BEFORE, request=ttl)])) == []


@pytest.mark.parametrize(
    "remain",
    [
        {"kind": "Job", "metadata": {"name": "x"}, "spec": {}},
        {"kind": "Secret", "metadata": {"name": "x"}},
        {"kind": "Pod", "metadata": {"name": "x"}, "status": {"phase": "Running"}},
    ],
)
def test_object_is_an_orphan_when_its_run_has_ended(remain: dict[str, Any]) -> None:
    assert judge(make_evidence(remains=[remain])) == ["orphan"]
    gone = replace(make_evidence(remains=[remain]), document=None, logs={}, delete_asked_at=1.0)
    assert judge(gone) == ["orphan"]


def test_object_may_stay_when_it_expires() -> None:
    job = {"kind": "Job", "metadata": {"name": "x"}, "spec": {"ttlSecondsAfterFinished": 60}}
    assert judge(make_evidence(remains=[job])) == []


@pytest.mark.parametrize(
    "pieces",
    [
        LINES[:-1],
        LINES[1:],
        [*LINES[:1], *LINES[2:]],
        [LINES[0], *LINES],
        [*LINES, LINES[0]],
        [LINES[1], LINES[0], *LINES[2:]],
        [*LINES, "what nobody printed"],
        [LINES[0], LINES[2], make_gap("rotated"), LINES[3]],
        # Gaps that do not span what is missing.
        [LINES[0], make_gap(lines=(0, 1)), LINES[3]],
        [LINES[0], make_gap(lines=(2, 3)), LINES[3]],
        [LINES[0], make_gap(lines=(0, 1))],
        [LINES[0], make_gap("log removed: …", lines=(0, 2))],
        [LINES[0], make_gap(lines=(2, 4))],
        [make_gap(lines=(0, 2))],
        [make_gap(), LINES[0]],
        [],
    ],
)
def test_log_is_wrong_when_lines_are_missing_or_doubled(pieces: list[Any]) -> None:
    assert judge(make_evidence(logs={"run-r1-p/main": StoredLog(pieces)})) == ["log"]


@pytest.mark.parametrize(
    "pieces",
    [
        [LINES[0], make_gap("rotated", lines=(0, 2)), *LINES[2:]],
        [make_gap("rotated", lines=(0, 2)), *LINES[2:]],
        [LINES[0], make_gap(lines=(0, 3))],
        [LINES[0], make_gap(lines=(0, 1)), make_gap(lines=(2, 3))],
        [make_gap()],
        [*LINES, make_gap()],
    ],
)
def test_lines_may_be_missing_when_a_gap_says_so(pieces: list[Any]) -> None:
    assert judge(make_evidence(logs={"run-r1-p/main": StoredLog(pieces)})) == []


@pytest.mark.parametrize(
    ("pod", "entries", "rules"),
    [
        # A gap that ends the log of a pod which lived on: by an outage of its container runtime, or of its node.
        (make_pod(), [], ["log"]),
        (make_pod(is_deleted=True, deleted_at=3 * APART_SECONDS), [], ["log"]),
        # Of a pod that was being removed by then: its container lived on, and nobody could read it.
        (make_pod(is_deleted=True, deleted_at=APART_SECONDS), [], []),
        (make_pod(), [("1970-01-01T00:01:40Z", 200)], []),
        (make_pod(), [("1970-01-01T00:01:40Z", 404)], ["log"]),
        (make_pod(), [("1970-01-01T00:05:00Z", 200)], ["log"]),
    ],
)
def test_later_lines_may_be_missing_only_when_the_pod_was_being_removed_at_the_end_of_the_gap(
    pod: Sighting, entries: list[tuple[str, int]], rules: list[str]
) -> None:
    deletions = [
        make_entry("delete", "pods", at=at, status=status, name=pod.name, user="admin") for at, status in entries
    ]
    stored = StoredLog([LINES[0], make_gap(lines=(0, 1))])
    evidence = make_evidence(pods=[pod], entries=deletions, logs={"run-r1-p/main": stored})
    assert judge(evidence) == rules


def test_deletion_begins_before_the_grace_period_when_it_is_judged() -> None:
    stored = StoredLog([LINES[0], make_gap(lines=(0, 1))])
    pod = make_pod()
    pod.object["metadata"] |= {"deletionTimestamp": "1970-01-01T00:02:10Z", "deletionGracePeriodSeconds": 30}
    assert judge(make_evidence(pods=[pod], logs={"run-r1-p/main": stored})) == []
    pod.object["metadata"]["deletionGracePeriodSeconds"] = 5
    assert judge(make_evidence(pods=[pod], logs={"run-r1-p/main": stored})) == ["log"]


def test_line_is_named_only_within_the_skew_when_it_was_written_outside_a_gap() -> None:
    gap = make_gap(lines=(1, 2))
    for seconds, is_named in ((0.0, True), (SKEW_SECONDS, True), (SKEW_SECONDS + 0.1, False)):
        for at in (gap.since - seconds, gap.until + seconds):
            assert (list(compare_log([PrintedLine("a", at)], [gap])) == []) is is_named
    (message,) = compare_log(PRINTED, [LINES[0], gap])
    assert "no gap spans 1970-01-01T00:05:00.000+00:00, when '1 end 3 0' was written" in message
    assert list(compare_log([PrintedLine("a")], [gap])) == []


def test_lines_have_the_stamps_of_the_container_runtime_when_its_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text(
        "1970-01-01T00:00:01.500000000Z stdout F one\n"
        "1970-01-01T00:00:02Z stderr P tw\n1970-01-01T00:00:03Z stderr F o\n"
        "1970-01-01T00:00:04+00:00 stdout P cut\nno stamp\n"
    )
    assert read_container_log(path) == [PrintedLine("one", 1.5), PrintedLine("two", 2.0), PrintedLine("cut", 4.0)]


def test_span_of_a_gap_is_read_when_a_stored_log_is_taken_apart() -> None:
    said = (
        '{"gap": "rotated: …", "since": "1970-01-01T00:00:01.500Z", "until": "1970-01-01T00:00:02.000Z", "offset": 4}'
    )
    logs = read_stored_logs(f"one\n#m {said}\ntwo\n", marker="#m", stream="pod/main")
    assert logs["pod/main"].pieces == ["one", StoredGap("rotated: …", 1.5, 2.0), "two"]


def test_log_is_wrong_when_a_whole_stream_is_missing_or_not_complete() -> None:
    assert judge(make_evidence(logs={})) == ["log"]
    draining = make_evidence()
    assert draining.document is not None
    draining.document["status"]["logs"] = {"state": "draining"}
    assert judge(draining) == ["log"]


def test_stream_may_be_missing_when_a_gap_stands_for_a_pod_that_nobody_saw() -> None:
    unseen = {"run-r1-unseen/main": StoredLog([make_gap()])}
    assert judge(make_evidence(logs=unseen)) == []
    twice = {Instance(uid, f"run-r1-{uid}", "main", 0): PRINTED for uid in ("p", "q")}
    assert judge(make_evidence(logs=unseen, printed=twice)) == ["log"]


@pytest.mark.parametrize(
    ("cause", "is_named"), [("pod deleted: …", True), ("node lost: …", True), ("restarted: …", False), (None, False)]
)
def test_later_instance_may_be_missing_only_when_an_earlier_one_ends_with_its_pod(
    cause: str | None, *, is_named: bool
) -> None:
    first = Instance("p1", "run-r1-a", "main", 0)
    logs = {"run-r1-a/main": StoredLog([LINES[0], *([] if cause is None else [make_gap(cause)])])}
    printed = {first: PRINTED[:1], replace(first, number=1): PRINTED[1:]}
    assert judge(make_evidence(printed=printed, logs=logs)) == ([] if is_named else ["log"])


def test_all_streams_may_be_missing_when_one_gap_says_that_the_run_is_lost() -> None:
    pods = {Instance(f"p{number}", f"run-r1-{number}", "main", 0): PRINTED for number in range(3)}
    assert judge(make_evidence(printed=pods, logs={"lost/lost": StoredLog([make_gap("lost: …")])})) == []


def test_transition_is_wrong_when_a_run_went_on_after_its_end() -> None:
    evidence = make_evidence()
    assert evidence.document is not None
    evidence.document["status"]["transitions"] = [{"status": "COMPLETED"}, {"status": "ERROR"}, {"status": "RUNNING"}]
    assert judge(evidence) == ["transition"]


def test_times_are_compared_when_they_have_fractions_or_none() -> None:
    assert read_time(BEFORE) < read_time(ENDED) < read_time(AFTER)
