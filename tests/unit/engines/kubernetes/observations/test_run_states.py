"""The state of a run, from its anchor and pods."""

import pytest

from runyard.domain.outcomes import Seen
from runyard.engines.kubernetes.observations import observe_run
from runyard.engines.kubernetes.run_objects import RunObjects
from tests.unit.engines.kubernetes.observations.objects import (
    READY,
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

SCHEDULED = make_condition("PodScheduled")
DISRUPTED = make_condition("DisruptionTarget", reason="EvictionByEvictionAPI")
WAITS = make_pod("Pending", node=None)
PULLS = make_pod("Pending", make_container(waiting("ContainerCreating")))
WORKS = make_pod("Running", make_container(RUNNING), conditions=[READY])
DRAINS = make_pod("Running", make_container(RUNNING), conditions=[READY], deleted_at="2026-11-16T10:03:00Z")
DONE = make_pod("Succeeded", make_container(ended(0)))
FAILS = make_pod("Failed", make_container(ended(3)))
EVICTED = make_pod("Failed", make_container(ended(143)), conditions=[DISRUPTED], name="evicted")
OVERDUE = make_pod("Failed", make_container(ended(143)), reason="DeadlineExceeded")
DELETED = make_pod("Failed", make_container(ended(143)), deleted_at="2026-11-16T10:03:00Z")
ROOT = make_pod(
    "Pending",
    make_container(waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")),
)
COMPLETE = make_condition("Complete")
FAILED = make_condition("Failed", reason="BackoffLimitExceeded")
TARGET = make_condition("FailureTarget", reason="BackoffLimitExceeded")
SUSPENDED = make_condition("Suspended")
NOT_SUSPENDED = make_condition("Suspended", "False")
STARTED = {"startTime": "2026-11-16T10:00:00Z"}


@pytest.mark.parametrize(
    ("objects", "seen"),
    [
        (make_run(make_job("hold", SUSPENDED)), Seen.HELD),
        (make_run(make_job("hold")), Seen.HELD),
        (make_run(make_job("run")), Seen.PENDING),
        (make_run(make_job("run", SUSPENDED, suspend=True)), Seen.PENDING),
        (make_run(make_job("run"), WAITS), Seen.PENDING),
        (make_run(make_job("run"), PULLS), Seen.PENDING),
        (make_run(make_job("run"), WORKS), Seen.RUNNING),
        (make_run(make_job("hold"), WORKS), Seen.RUNNING),
        (make_run(make_job("run"), DRAINS), Seen.RUNNING),
        (make_run(make_job("run"), DONE), Seen.SUCCEEDED),
        (make_run(make_job("run"), gone=[DONE]), Seen.SUCCEEDED),
        (make_run(make_job("run", COMPLETE)), Seen.SUCCEEDED),
        (make_run(make_job("run", status={"succeeded": 1})), Seen.SUCCEEDED),
        (make_run(make_job("run", make_condition("SuccessCriteriaMet"))), Seen.SUCCEEDED),
        (make_run(make_job("run"), FAILS), Seen.FAILED),
        (make_run(make_job("run"), gone=[FAILS]), Seen.FAILED),
        (make_run(make_job("run", FAILED)), Seen.FAILED),
        (make_run(make_job("run", make_condition("Failed", "False"))), Seen.PENDING),
        (make_run(make_job("run", TARGET), DRAINS), Seen.RUNNING),
        (make_run(make_job("run", TARGET), DONE), Seen.FAILED),
        (make_run(make_job("run", backoffLimit=1), FAILS), Seen.PENDING),
        (make_run(make_job("run", status={"failed": 1}, backoffLimit=1), FAILS), Seen.PENDING),
        (make_run(make_job("run", status={"failed": 2}, backoffLimit=1)), Seen.FAILED),
        (make_run(make_job("run", backoffLimit=1), FAILS, gone=[FAILS]), Seen.FAILED),
        (make_run(make_job("run", backoffLimit=1), FAILS, WORKS), Seen.RUNNING),
        (make_run(make_job("run"), EVICTED), Seen.PENDING),
        (make_run(make_job("run", podFailurePolicy=None), EVICTED), Seen.FAILED),
        (make_run(make_job("run"), ROOT), Seen.FAILED),
        (make_run(make_job("stop"), ROOT), Seen.PENDING),
        (make_run(make_job("stop", status=STARTED)), Seen.PENDING),
        (make_run(make_job("stop", suspend=True)), Seen.STOPPED),
        (make_run(make_job("stop", NOT_SUSPENDED, suspend=True, status=STARTED)), Seen.PENDING),
        (make_run(make_job("stop", SUSPENDED, suspend=True, status=STARTED)), Seen.STOPPED),
        (make_run(make_job("stop", SUSPENDED, suspend=True, status={**STARTED, "active": 1})), Seen.PENDING),
        (make_run(make_job("stop"), WAITS), Seen.PENDING),
        (make_run(make_job("stop"), WORKS), Seen.RUNNING),
        (make_run(make_job("stop"), OVERDUE), Seen.STOPPED),
        (make_run(make_job("stop"), DELETED), Seen.STOPPED),
        (make_run(make_job("stop"), EVICTED), Seen.STOPPED),
        (make_run(make_job("stop", FAILED)), Seen.STOPPED),
        (make_run(make_job("stop"), DONE), Seen.SUCCEEDED),
        (make_run(make_job("stop"), FAILS), Seen.FAILED),
        (make_run(make_job("run"), OVERDUE), Seen.FAILED),
    ],
)
def test_job_is_seen_as_its_pods_are_when_its_own_status_is_older(objects: RunObjects, seen: Seen) -> None:
    assert observe_run(objects).seen is seen


UNREADY = make_pod("Running", make_container(RUNNING))
CRASHES = make_pod("Running", make_container(waiting("CrashLoopBackOff"), ended(4), restartCount=2))


@pytest.mark.parametrize(
    ("objects", "seen"),
    [
        (make_run(make_deployment("hold")), Seen.HELD),
        (make_run(make_deployment("run")), Seen.PENDING),
        (make_run(make_deployment("run"), PULLS), Seen.PENDING),
        (make_run(make_deployment("run"), UNREADY), Seen.PENDING),
        (make_run(make_deployment("run"), CRASHES), Seen.PENDING),
        (make_run(make_deployment("run"), DRAINS), Seen.PENDING),
        (make_run(make_deployment("run"), WORKS), Seen.RUNNING),
        (make_run(make_deployment("run"), CRASHES, WORKS), Seen.RUNNING),
        (make_run(make_deployment("run"), EVICTED), Seen.PENDING),
        (make_run(make_deployment("run"), ROOT), Seen.FAILED),
        (make_run(make_deployment("run"), ROOT, WORKS), Seen.RUNNING),
        (make_run(make_deployment("run"), ROOT, PULLS), Seen.PENDING),
        (make_run(make_deployment("stop"), WORKS), Seen.RUNNING),
        (make_run(make_deployment("stop"), DRAINS), Seen.RUNNING),
        (make_run(make_deployment("stop")), Seen.STOPPED),
        (make_run(make_deployment("stop"), EVICTED), Seen.STOPPED),
        (make_run(make_deployment("stop"), gone=[FAILS]), Seen.STOPPED),
        (make_run(make_deployment("stop", observed=1)), Seen.PENDING),
        (make_run(make_deployment("run", replicas=0)), Seen.STOPPED),
        (make_run(make_deployment("run", replicas=0, asked="0")), Seen.PENDING),
    ],
)
def test_service_is_seen_as_its_pods_are_when_its_own_status_is_older(objects: RunObjects, seen: Seen) -> None:
    assert observe_run(objects).seen is seen


def test_observation_names_the_run_and_its_versions_when_it_is_made() -> None:
    seen = observe_run(make_run(make_job("run", generation="5")))
    assert (seen.run_uid, seen.uid, seen.epoch, seen.version, seen.generation) == (
        "r-uid",
        "uid-of-run-r1-0123",
        1,
        77,
        5,
    )


@pytest.mark.parametrize("text", ["", "-1", "1.5", "9" * 20, "٣"])
def test_generation_is_0_when_somebody_wrote_something_else(text: str) -> None:
    assert observe_run(make_run(make_job("run", generation=text))).generation == 0
