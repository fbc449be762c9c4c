"""How containers ended, instance by instance."""

from dataclasses import replace
from typing import Any

import pytest

from runyard.app.engine import MOST_ENDS, Anchor, ContainerEnd
from runyard.domain.outcomes import Seen
from runyard.engines.kubernetes.observations import collect_ends, has_started, observe_absence, observe_run
from runyard.engines.kubernetes.run_objects import GonePod
from runyard.engines.kubernetes.views import PodView
from tests.unit.engines.kubernetes.observations.objects import (
    NAME,
    RUNNING,
    ended,
    make_condition,
    make_container,
    make_deployment,
    make_job,
    make_pod,
    make_run,
    waiting,
)

ANCHOR = Anchor(run_uid="r-uid", run_id="r1", project="p", action="job", uid="u")


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (make_container(RUNNING), []),
        (make_container(ended(0)), [(0, 0, None)]),
        (make_container(ended(3)), [(0, 3, None)]),
        (make_container(ended(137)), [(0, 137, 9)]),
        (make_container(ended(143)), [(0, 143, 15)]),
        (make_container(ended(255)), [(0, 255, None)]),
        (make_container(ended(128)), [(0, 128, None)]),
        (make_container(ended(137, "ContainerStatusUnknown"), containerID="containerd://a"), [(0, None, None)]),
        (make_container(ended(137, "ContainerStatusUnknown")), []),
        (make_container(waiting("CrashLoopBackOff"), ended(4), restartCount=3), [(3, 4, None)]),
        (make_container(waiting("RunContainerError"), ended(128, "StartError")), [(0, 128, None)]),
        (make_container(ended(5), ended(4), restartCount=3), [(2, 4, None), (3, 5, None)]),
        (make_container(RUNNING, ended(4), restartCount=1), [(0, 4, None)]),
    ],
)
def test_each_instance_has_its_end_when_a_container_was_restarted(
    container: dict[str, Any], expected: list[tuple[int, int | None, int | None]]
) -> None:
    ends = collect_ends(make_pod("Running", container))
    assert [(end.instance, end.exit_code, end.signal) for end in ends] == expected


def test_only_failed_init_containers_are_listed_when_a_pod_has_ended() -> None:
    done = {"name": "launcher", "state": ended(0), "restartCount": 0}
    failed = {"name": "setup", "state": ended(7), "restartCount": 0}
    ends = collect_ends(make_pod("Failed", make_container(waiting("PodInitializing")), init=[done, failed]))
    assert [(end.container, end.exit_code) for end in ends] == [("setup", 7)]


def test_out_of_memory_and_peak_are_told_when_the_launcher_wrote_them() -> None:
    line = '{"runyard": 1, "message": null, "peak_bytes": 123456}'
    (end,) = collect_ends(make_pod("Failed", make_container(ended(137, "OOMKilled", line))))
    assert (end.is_out_of_memory, end.peak_bytes) == (True, 123456)


def test_peak_is_at_least_the_limit_when_a_container_ran_out_of_memory_and_told_none() -> None:
    limits, requests = {"memory": "512Mi"}, {"memory": "1Mi"}
    (end,) = collect_ends(make_pod("Failed", make_container(ended(137, "OOMKilled")), limits=limits, requests=requests))
    assert (end.is_out_of_memory, end.peak_bytes) == (True, 512 << 20)
    (end,) = collect_ends(make_pod("Failed", make_container(ended(137)), limits=limits, requests=requests))
    assert (end.is_out_of_memory, end.peak_bytes) == (False, None)
    (end,) = collect_ends(make_pod("Failed", make_container(ended(137, "OOMKilled"))))
    assert (end.is_out_of_memory, end.peak_bytes) == (True, None)


def test_run_has_succeeded_when_its_exit_code_is_0_though_a_child_ran_out_of_memory() -> None:
    pod = make_pod("Succeeded", make_container(ended(0, "OOMKilled")))
    found = observe_run(make_run(make_job("run"), pod))
    assert (found.seen, found.ends[0].exit_code, found.ends[0].is_out_of_memory) == (Seen.SUCCEEDED, 0, True)


def test_each_end_is_listed_once_in_order_when_it_is_known_in_several_ways() -> None:
    gone = make_pod("Failed", make_container(ended(1)), name="gone")
    pod = make_pod("Running", make_container(ended(5), ended(4), restartCount=3), name="pod")
    past = (
        ContainerEnd(pod="pod", container="main", instance=1, exit_code=2),
        ContainerEnd(pod="pod", container="main", instance=2, exit_code=4),
    )
    found = observe_run(make_run(make_deployment("run"), pod, gone=[gone], past_ends=past))
    assert sorted((end.pod, end.instance, end.exit_code) for end in found.ends) == [
        ("gone", 0, 1),
        ("pod", 1, 2),
        ("pod", 2, 4),
        ("pod", 3, 5),
    ]
    assert [end.instance for end in found.ends if end.pod == "pod"] == [1, 2, 3]


def test_newest_ends_are_kept_when_there_are_too_many() -> None:
    past = tuple(ContainerEnd(pod="p", container="main", instance=number, exit_code=1) for number in range(90))
    found = observe_run(make_run(make_deployment("run"), past_ends=past))
    assert [end.instance for end in found.ends] == list(range(90 - MOST_ENDS, 90))


def test_ends_are_told_when_the_anchor_is_gone() -> None:
    gone = GonePod(make_pod("Failed", make_container(ended(3))), is_final=True)
    past = ContainerEnd(pod="older", container="main", exit_code=2)
    found = observe_absence(ANCHOR, [gone], past_ends=[past], epoch=4)
    assert (found.seen, found.run_uid, found.uid, found.epoch) == (Seen.ABSENT, "r-uid", "u", 4)
    assert [(end.pod, end.exit_code) for end in found.ends] == [("older", 2), (f"{NAME}-a", 3)]
    assert observe_absence(replace(ANCHOR, uid="v")).ends == ()


def test_no_object_is_refused_when_kubernetes_does_not_know_a_time() -> None:
    """Go writes a time that is not set as null; the reflector could read nothing anymore."""
    unknown = {"exitCode": 1, "startedAt": None, "finishedAt": None}
    status = {"name": "main", "restartCount": 0, "state": {"terminated": unknown}}
    pod = make_pod("Failed", status, conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": None}])
    running = make_pod("Running", make_container({"running": {"startedAt": None}}))
    found = observe_run(make_run(make_job("run"), pod))
    assert (found.seen, [end.exit_code for end in found.ends]) == (Seen.FAILED, [1])
    assert observe_run(make_run(make_job("run"), running)).seen is Seen.RUNNING


def test_nothing_has_started_when_the_kubelet_made_the_end_up() -> None:
    made_up = make_container(ended(137, "ContainerStatusUnknown", "The container could not be located"))
    pod = make_pod("Failed", made_up, deleted_at="2026-11-16T10:03:00Z")
    assert not has_started(pod)
    stopped = observe_run(make_run(make_job("stop", make_condition("Suspended"), suspend=True), gone=[pod]))
    assert (stopped.seen, stopped.ends) == (Seen.STOPPED, ())
    deleted = observe_run(make_run(make_job("run"), pod))
    assert deleted.seen is Seen.FAILED
    assert deleted.message == f"somebody deleted pod {NAME}-a before a start was reported"


EVICTED = make_condition("DisruptionTarget", reason="EvictionByEvictionAPI")
PREEMPTED = make_condition("DisruptionTarget", reason="PreemptionByScheduler")
GIVEN_UP = make_condition("DisruptionTarget", reason="DeletionByPodGC")
DELETED_AT = "2026-11-16T10:03:00Z"
SET_UP = '{"runyard": 1, "message": "no", "step": "requirements"}'


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (make_pod("Succeeded", make_container(ended(0))), [("main", None)]),
        (make_pod("Failed", make_container(ended(3))), [("main", "run.failed")]),
        (make_pod("Failed", make_container(ended(137, "OOMKilled"))), [("main", "memory.exceeded")]),
        (make_pod("Failed", make_container(ended(128, "StartError"))), [("main", "start.failed")]),
        (make_pod("Failed", make_container(ended(1, message=SET_UP))), [("main", "environment.failed")]),
        (make_pod("Failed", make_container(ended(143)), conditions=[EVICTED]), [("main", "pod.evicted")]),
        (make_pod("Failed", make_container(ended(0)), conditions=[PREEMPTED]), [("main", "pod.preempted")]),
        (make_pod("Failed", make_container(ended(137)), reason="Evicted"), [("main", "node.pressure")]),
        (make_pod("Failed", make_container(ended(143)), reason="Terminated"), [("main", "node.shutdown")]),
        (make_pod("Failed", make_container(ended(143)), reason="NodeLost"), [("main", "node.lost")]),
        # Its end is its own, and the pod is evicted all the same.
        (
            make_pod("Failed", make_container(ended(137, "OOMKilled")), conditions=[EVICTED]),
            [("main", "memory.exceeded"), ("", "pod.evicted")],
        ),
        # An earlier instance ended by itself.
        (
            make_pod("Failed", make_container(ended(143), ended(1), restartCount=1), conditions=[EVICTED]),
            [("main", "run.failed"), ("main", "pod.evicted")],
        ),
        # Nobody knows how its containers ended, or they never started.
        (make_pod("Failed", make_container(RUNNING), conditions=[GIVEN_UP]), [("", "node.lost")]),
        (make_pod("Failed", reason="Evicted"), [("", "node.pressure")]),
        (make_pod("Failed", reason="OutOfcpu"), [("", "node.refused")]),
        # How a job and a service are stopped.
        (make_pod("Failed", make_container(ended(143)), reason="DeadlineExceeded"), [("main", None)]),
        (make_pod("Running", make_container(ended(143)), deleted_at=DELETED_AT), [("main", None)]),
        # It may go on to tell how its containers end.
        (make_pod("Running", make_container(RUNNING), conditions=[EVICTED], deleted_at=DELETED_AT), []),
        (make_pod("Succeeded", make_container(ended(0)), conditions=[EVICTED]), [("main", None)]),
    ],
)
def test_end_says_why_when_the_container_or_its_pod_was_ended(
    pod: PodView, expected: list[tuple[str, str | None]]
) -> None:
    assert [(end.container, end.reason) for end in collect_ends(pod)] == expected


def test_completed_run_tells_of_an_evicted_pod_when_it_is_gone_and_never_started() -> None:
    lost = make_pod("Pending", make_container(waiting("ContainerCreating")), name="lost", conditions=[PREEMPTED])
    done = make_pod("Succeeded", make_container(ended(0)))
    found = observe_run(make_run(make_job("run"), done, gone=[lost]))
    assert (found.seen, found.reason) == (Seen.SUCCEEDED, None)
    assert [(end.pod, end.container, end.exit_code, end.reason) for end in found.ends] == [
        ("lost", "", None, "pod.preempted"),
        (f"{NAME}-a", "main", 0, None),
    ]
