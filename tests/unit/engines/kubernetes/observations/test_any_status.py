"""Whatever a cluster says: nothing is raised, everything is bounded, and the end never contradicts the exit codes."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runyard.app.engine import LARGEST_DETAILS_BYTES, LONGEST_MESSAGE_BYTES, MOST_ENDS, STATUS_KEYS, ContainerEnd
from runyard.domain.outcomes import ENDED, Seen
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.observations import has_started, is_finished, observe_run
from runyard.engines.kubernetes.observations.container_faults import find_permanent_fault
from runyard.engines.kubernetes.run_objects import RunObjects
from runyard.engines.kubernetes.views import ClaimView, EventView, PodView
from tests.unit.engines.kubernetes.observations.objects import (
    decode,
    make_claim,
    make_condition,
    make_deployment,
    make_event,
    make_job,
    make_run,
    make_service,
)
from tests.unit.engines.kubernetes.observations.recorded import NAMES, read_recorded

RECORDED = [read_recorded(name) for name in NAMES]
WORDS = sorted(
    {
        str(text)
        for found in RECORDED
        for pod in found.get("pods", [])
        for status in pod["status"].get("containerStatuses", [])
        for state in (*status["state"].values(), *status.get("lastState", {}).values())
        for text in (state.get("reason"), state.get("message"))
        if text
    }
    | {
        condition.get("message", "")
        for found in RECORDED
        for pod in found.get("pods", [])
        for condition in pod["status"]["conditions"]
    }
)
texts = st.one_of(
    st.sampled_from(WORDS),
    st.text(max_size=30),
    st.sampled_from(["", "x" * 9000, "\ud800".encode("utf-16", "surrogatepass").decode("utf-16", "replace")]),
)
codes = st.sampled_from([0, 1, 3, 128, 137, 143, 255, -1, 2**31])
times = st.sampled_from(["", "2026-11-16T10:00:00Z", "2026-11-16T10:05:00.123456Z", "never"])
reasons = st.sampled_from(
    [
        "",
        "OOMKilled",
        "Error",
        "Completed",
        "StartError",
        "ContainerStatusUnknown",
        "Evicted",
        "DeadlineExceeded",
        "Odd",
    ]
)
terminated = st.fixed_dictionaries({"exitCode": codes, "reason": reasons, "message": texts, "finishedAt": times})
waiting = st.fixed_dictionaries(
    {
        "reason": st.sampled_from(
            [
                *("", "ContainerCreating", "PodInitializing", "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff"),
                *("InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "Odd"),
            ]
        ),
        "message": texts,
    }
)
states = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"waiting": waiting}),
    st.just({"running": {"startedAt": "2026-11-16T10:00:00Z"}}),
    st.fixed_dictionaries({"terminated": terminated}),
)
statuses = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["main", "sidecar", ""]),
        "state": states,
        "lastState": states,
        "restartCount": st.integers(0, 9),
    }
)
conditions = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["Ready", "PodScheduled", "Initialized", "DisruptionTarget", "PodReadyToStartContainers", "Odd"]
        ),
        "status": st.sampled_from(["True", "False", "Unknown", ""]),
        "reason": st.sampled_from(["", "Unschedulable", "EvictionByEvictionAPI", "DeletionByPodGC", "Odd"]),
        "message": texts,
    }
)
WISHES = st.sampled_from(["hold", "run", "stop", "odd"])


@st.composite
def pods(draw: st.DrawFn, name: str = "pod") -> PodView:
    """Any pod: of the recorded ones with parts exchanged, or made up."""
    found: dict[str, Any] = {
        "metadata": {"name": name, "uid": name},
        "spec": {"nodeName": draw(st.sampled_from(["", "node-1"]))},
    }
    if draw(st.booleans()):
        found["metadata"]["deletionTimestamp"] = "2026-11-16T10:03:00Z"
    found["status"] = {
        "phase": draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown", "Odd"])),
        "reason": draw(reasons),
        "message": draw(texts),
        "conditions": draw(st.lists(conditions, max_size=4)),
        "containerStatuses": draw(st.lists(statuses, max_size=3)),
        "initContainerStatuses": draw(st.lists(statuses, max_size=2)),
    }
    return decode(PodView, found)


anchor_conditions = st.lists(
    st.builds(
        lambda name, status, message: make_condition(name, status, message=message, reason="Odd"),
        st.sampled_from(["Complete", "Failed", "FailureTarget", "Suspended", "ReplicaFailure", "SuccessCriteriaMet"]),
        st.sampled_from(["True", "False"]),
        texts,
    ),
    max_size=2,
)


@st.composite
def runs(draw: st.DrawFn) -> RunObjects:
    """Any run."""
    wish, told = draw(WISHES), draw(anchor_conditions)
    if draw(st.booleans()):
        counts = {"failed": draw(st.integers(0, 3)), "active": draw(st.integers(0, 1))}
        anchor: Any = make_job(
            wish, *told, status=counts, suspend=draw(st.booleans()), backoffLimit=draw(st.integers(0, 2))
        )
    else:
        anchor = make_deployment(wish, *told, replicas=draw(st.integers(0, 3)), observed=draw(st.integers(0, 3)))
    events = draw(
        st.lists(st.builds(make_event, st.sampled_from(["FailedCreate", "FailedMount", "Odd"]), texts), max_size=3)
    )
    claims = draw(st.lists(st.builds(lambda phase: make_claim(phase=phase), texts), max_size=2))
    past = tuple(
        ContainerEnd(pod="old", container="main", instance=n, exit_code=1) for n in range(draw(st.integers(0, 60)))
    )
    return make_run(
        anchor,
        *(draw(pods(f"pod-{number}")) for number in range(draw(st.integers(0, 3)))),
        gone=[draw(pods(f"gone-{number}")) for number in range(draw(st.integers(0, 2)))],
        past_ends=past,
        events=tuple[EventView, ...](events),
        claims=tuple[ClaimView, ...](claims),
        services=(make_service(),),
        unready_nodes=draw(st.sampled_from([(), (("node-1", ""),)])),
    )


@given(runs())
def test_observation_is_bounded_and_true_when_the_cluster_says_anything(objects: RunObjects) -> None:
    found = observe_run(objects)
    assert found.reason is None or found.reason in set(Reason)
    assert found.message is None or len(found.message.encode()) <= LONGEST_MESSAGE_BYTES
    assert len(found.ends) <= MOST_ENDS
    assert len({(end.pod, end.container, end.instance) for end in found.ends}) == len(found.ends)
    assert set(found.details) <= set(STATUS_KEYS)
    assert len(json.dumps(found.details)) <= LARGEST_DETAILS_BYTES
    unfinished = [pod for pod in objects.pods if not is_finished(pod)]
    if found.seen in ENDED and unfinished:
        # Only what can never start ends before its pods do.
        assert found.seen is Seen.FAILED
        assert find_permanent_fault(unfinished[-1]) is not None
        assert all(pod.status.phase == "Pending" for pod in unfinished) or not hasattr(objects.anchor.spec, "suspend")
    if found.seen is Seen.HELD:
        assert not unfinished
    if found.seen is Seen.PENDING:
        assert found.message is not None or objects.anchor.metadata.annotations.wish == "stop"


@given(pods(), st.sampled_from([0, 1, 3, 137, 143]))
def test_end_is_that_of_the_exit_code_when_a_pod_has_ended_by_itself(pod: PodView, code: int) -> None:
    phase = "Succeeded" if code == 0 else "Failed"
    ended = {"name": "main", "state": {"terminated": {"exitCode": code, "reason": "Error"}}}
    plain = decode(
        PodView,
        {
            "metadata": {"name": "pod", "uid": "pod"},
            "spec": {"nodeName": pod.spec.node_name},
            "status": {"phase": phase, "containerStatuses": [ended]},
        },
    )
    for wish in ("run", "stop", "hold"):
        found = observe_run(make_run(make_job(wish), plain))
        assert found.seen is (Seen.SUCCEEDED if code == 0 else Seen.FAILED)
        assert [end.exit_code for end in found.ends] == [code]
    assert has_started(plain)
