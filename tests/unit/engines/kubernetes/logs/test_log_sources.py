"""Which outputs there are, by the statuses of pods."""

from typing import Any

import pytest

from runyard.app.engine import LogSource
from runyard.engines.kubernetes.log_gaps import Cause, explain_removal, make_gap, parse_time
from runyard.engines.kubernetes.log_sources import (
    MOST_LISTED_SOURCES,
    can_never_start,
    find_span,
    has_ended,
    is_replaced_twice,
    list_sources,
)
from runyard.engines.kubernetes.run_objects import GonePod
from runyard.engines.kubernetes.views import PodView
from tests.unit.engines.kubernetes.logs.played_pods import NOON, RUN, ended, make_pod, running, waiting

Status = dict[str, Any]
LATER = "2026-11-16T12:00:09Z"


def make_source(container: str = "main", instance: int = 0, pod: str = "pod") -> LogSource:
    return LogSource(run_uid=RUN, pod=pod, container=container, instance=instance)


def list_names(*pods: PodView, gone: tuple[GonePod, ...] = ()) -> list[str]:
    sources = list_sources(RUN, pods, gone)
    assert all(source.run_uid == RUN for source in sources)
    return [f"{source.pod}/{source.container}/{source.instance}" for source in sources]


def test_there_are_no_sources_when_no_container_has_started() -> None:
    assert list_names(make_pod(), make_pod(waiting(), init=[waiting("setup")])) == []


UNKNOWN = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}


def test_there_is_one_output_when_the_kubelet_knows_no_container_of_a_pod_that_ended() -> None:
    """Nobody can say whether something ran: one output stands for all containers of the pod."""
    unknown = make_pod(
        {"name": "main", "state": UNKNOWN}, init=[{"name": "setup", "state": UNKNOWN}, waiting("other")], phase="Failed"
    )
    assert list_names(unknown) == ["pod/main/0"]
    assert list_names(gone=(GonePod(unknown, is_final=True),)) == ["pod/main/0"]
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    lost = make_pod({"name": "main", "state": UNKNOWN}, phase="Failed", conditions=[disrupted])
    assert list_names(gone=(GonePod(lost, is_final=True),)) == ["pod/main/0"]


def test_pod_that_was_not_seen_to_start_is_an_output_only_when_its_deletion_was_missed() -> None:
    for pod in (make_pod(waiting()), make_pod(phase="Pending")):
        assert list_names(gone=(GonePod(pod, is_final=True),)) == []
        assert list_names(gone=(GonePod(pod, is_final=False),)) == ["pod/main/0"]


def test_pod_that_was_not_seen_to_start_is_an_output_when_it_was_removed_by_force() -> None:
    """A kubelet that lets go of a pod has given it a final phase before."""
    spec = {"nodeName": "n"}
    for pod in (make_pod(waiting(), phase="Pending", spec=spec), make_pod(phase="Pending", spec=spec)):
        assert list_names(gone=(GonePod(pod, is_final=True),)) == ["pod/main/0"]
    assert list_names(gone=(GonePod(make_pod(phase="Failed", spec=spec), is_final=True),)) == []
    assert list_names(gone=(GonePod(make_pod(phase="Pending"), is_final=True),)) == []
    assert list_names(make_pod(phase="Pending", spec=spec)) == []


def test_start_is_known_when_an_init_container_ran() -> None:
    pod = make_pod({"name": "main", "state": UNKNOWN}, init=[ended("setup")], phase="Failed")
    assert list_names(pod) == ["pod/setup/0"]


def test_there_is_one_output_when_a_pod_that_never_restarts_was_evicted() -> None:
    """The kubelet does not find its container, makes up an end for it, and counts a restart."""
    unknown = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    status = {"name": "main", "restartCount": 1, "state": unknown, "lastState": unknown}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main"}]}
    assert list_names(make_pod(status, spec=spec, phase="Failed", reason="Evicted")) == ["pod/main/0"]


def test_init_containers_come_first_when_all_began_in_the_same_second() -> None:
    pod = make_pod(running(), init=[ended("fetch"), ended("setup")])
    assert list_names(pod) == ["pod/fetch/0", "pod/setup/0", "pod/main/0"]


@pytest.mark.parametrize(
    ("status", "instances"),
    [
        (running(restarts=2), [0, 1, 2]),
        (ended(restarts=1), [0, 1]),
        (waiting(restarts=1, has_last=True), [0, 1]),
        (waiting(restarts=0, has_last=True), [0]),
        (waiting(restarts=2), [0, 1]),
        ({**running(restarts=2), "lastState": {"terminated": {"startedAt": NOON}}}, [0, 1, 2]),
    ],
)
def test_every_instance_is_a_source_when_a_container_was_restarted(status: Status, instances: list[int]) -> None:
    assert list_names(make_pod(status)) == [f"pod/main/{number}" for number in instances]


def test_outputs_are_in_the_order_of_their_beginning_when_pods_overlap() -> None:
    first = make_pod({**running(restarts=1, since=LATER)}, name="a", created=NOON)
    second = make_pod(running(since="2026-11-16T12:00:05Z"), name="b", created="2026-11-16T12:00:04Z")
    assert list_names(second, first) == ["a/main/0", "b/main/0", "a/main/1"]


def test_second_instance_is_an_output_when_the_first_one_could_not_be_started() -> None:
    """A kubelet starts it again, also in a pod that is never restarted."""
    failed = {"exitCode": 128, "reason": "StartError", "startedAt": "1970-01-01T00:00:00Z", "finishedAt": LATER}
    status = {**ended(restarts=1, since=LATER, until=LATER), "lastState": {"terminated": failed}}
    pod = make_pod(status, spec={"restartPolicy": "Never", "containers": [{"name": "main"}]})
    assert list_names(pod) == ["pod/main/0", "pod/main/1"]
    assert find_span(pod, make_source()) == (parse_time(pod.metadata.created_at), parse_time(LATER))
    assert find_span(pod, make_source(instance=1)) == (parse_time(LATER), parse_time(LATER))


def test_a_deleted_pod_s_outputs_are_listed_when_it_was_seen() -> None:
    gone = GonePod(make_pod(ended(), name="gone", created="2026-11-16T11:00:00Z"), is_final=False)
    assert sorted(list_names(make_pod(running(since=LATER)), gone=(gone,))) == ["gone/main/0", "pod/main/0"]


def test_only_the_newest_are_listed_when_a_container_restarts_for_ever() -> None:
    names = list_names(make_pod(running(restarts=100_000, since=LATER)))
    assert len(names) == MOST_LISTED_SOURCES
    assert names[-1] == "pod/main/100000"
    assert names[0] == f"pod/main/{100_001 - MOST_LISTED_SOURCES}"


def test_the_newest_pod_is_listed_when_an_older_one_has_restarted_for_ever() -> None:
    older = make_pod(running(restarts=MOST_LISTED_SOURCES, since=NOON), name="older")
    newer = make_pod(running(since=LATER), name="newer", created=LATER)
    names = list_names(older, newer)
    assert len(names) == MOST_LISTED_SOURCES
    assert names[-1] == "newer/main/0"


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (make_pod(running()), False),
        (make_pod(ended()), True),
        (make_pod(running(restarts=1)), True),
        (make_pod(waiting(restarts=0, has_last=True)), False),
        (make_pod(waiting(restarts=0), phase="Failed"), True),
        (make_pod(running(), phase="Failed"), False),
        (make_pod(), False),
    ],
)
def test_an_instance_has_ended_when_its_pod_says_so(pod: PodView, expected: bool) -> None:
    assert has_ended(pod, make_source()) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (running(restarts=1), False),
        (running(restarts=2), True),
        (waiting(restarts=2), False),
        (ended(restarts=3), True),
    ],
)
def test_a_log_is_known_to_be_gone_when_its_container_restarted_twice(status: Status, expected: bool) -> None:
    assert is_replaced_twice(make_pod(status), make_source()) is expected


def test_the_span_is_that_of_the_instance_when_its_state_is_known() -> None:
    pod = make_pod(
        {**running(restarts=1, since=LATER), "lastState": ended()["state"]}, startTime="2026-11-16T11:00:00Z"
    )
    assert find_span(pod, make_source()) == (parse_time(NOON), parse_time(NOON))
    assert find_span(pod, make_source(instance=1)) == (parse_time(LATER), None)
    assert find_span(pod, make_source(instance=7)) == (parse_time(pod.metadata.created_at), None)


@pytest.mark.parametrize(
    ("pod", "expected"), [(make_pod(), False), (make_pod(phase="Failed"), True), (make_pod(deleted=NOON), True)]
)
def test_nothing_starts_anymore_when_the_pod_has_ended_or_is_being_deleted(pod: PodView, expected: bool) -> None:
    assert can_never_start(pod) is expected


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ({"reason": "NodeLost"}, Cause.NODE_LOST),
        ({"conditions": [{"type": "DisruptionTarget", "reason": "DeletionByTaintManager"}]}, Cause.NODE_LOST),
        ({"conditions": [{"type": "DisruptionTarget", "reason": "DeletionByPodGC"}]}, Cause.NODE_LOST),
        ({"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}, Cause.NODE_LOST),
        ({"reason": "Evicted"}, Cause.EVICTED),
        ({"conditions": [{"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}]}, Cause.EVICTED),
        ({"conditions": [{"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}]}, Cause.PREEMPTED),
        ({"conditions": [{"type": "Other", "reason": "Evicted"}]}, Cause.DELETED),
        ({}, Cause.DELETED),
    ],
)
def test_the_cluster_s_own_reason_is_the_cause_when_it_removed_the_pod(status: Status, cause: Cause) -> None:
    assert explain_removal(make_pod(**status), Cause.DELETED) is cause
    assert explain_removal(None, Cause.DELETED) is Cause.DELETED


def test_a_gap_never_ends_before_it_begins_when_clocks_differ() -> None:
    early, late = parse_time(NOON), parse_time(LATER)
    assert early is not None
    assert late is not None
    gap = make_gap("x", since=late, until=early, now=late)
    assert (gap.since, gap.until) == (early, early)
    assert make_gap("x", since=None, until=None, now=late).since == late
