"""A log belongs to one instance of a container: what is read of which, and what is said where it cannot be read."""

from typing import Any

import pytest

from runyard.kube.errors import Disconnected
from runyard.kube.streams import (
    ContainerWaiting,
    LogGap,
    LogPosition,
    LogsRotated,
    LogsUnavailable,
    LogsUnconfirmed,
    follow_logs,
    list_instances,
)
from runyard.kube.streams.instances import can_restart
from tests.unit.kube.scripted_apiserver import Step, answer, refuse
from tests.unit.kube.streams.scripted_logs import SECOND, START_NS, playing, pod, text

FIRST = text((1, "one"), (2, "two"))
SECOND_LOG = text((3 * SECOND, "other"))
NO_PREVIOUS = answer(
    {"kind": "Status", "message": 'previous terminated container "main" in pod "p" not found', "code": 400}, status=400
)
X, Y, Z = "c://x", "c://y", "c://z"
STARTED, FINISHED = "2027-01-15T08:00:00Z", "2027-01-15T08:00:07Z"


@pytest.fixture(autouse=True)
def _short_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.kube.streams.follow._SETTLE_SECONDS", 0.0)


def always(state: str = "running", container_id: str = X, **options: Any) -> Step:
    """A pod whose container restarts."""
    return pod(state, container_id=container_id, restart_policy="Always", **options)


async def follow(
    pods: list[Step], logs: list[Step], previous: list[Step] | None = None, **options: Any
) -> tuple[list[str], LogPosition | None, list[str]]:
    """The lines, the position at the end, and the kinds of questions that were asked."""
    async with playing(pods=pods, logs=logs, previous=previous) as (client, server):
        async with follow_logs(client, "pod", namespace="ns", **options) as log:
            lines = [line.text.decode() async for line in log]
            position = log.position
        targets = [request.target for request in server.requests]
    kinds = ["previous" if "previous" in each else "log" if "/log" in each else "pod" for each in targets]
    return lines, position, kinds


async def fail(error: type[LogsUnavailable], *script: Any, **options: Any) -> LogsUnavailable:
    with pytest.raises(error) as caught:
        await follow(*script, **options)
    assert type(caught.value) is error
    return caught.value


async def test_nothing_looks_rotated_when_the_container_restarts_before_the_end_is_confirmed() -> None:
    # The status says that it ended; when the log is read again, the next instance has the place already.
    pods = [always(), always("terminated"), always(container_id=Y, previous_id=X)]
    lines, position, kinds = await follow(
        pods, [answer(FIRST), answer(SECOND_LOG)], [NO_PREVIOUS, answer(FIRST), answer(FIRST)]
    )
    assert lines == ["one", "two"]
    assert position == LogPosition(START_NS + 2, 1, X, 0)
    assert kinds == ["pod", "log", "previous", "pod", "log", "previous", "pod", "previous"]


async def test_no_line_of_another_instance_comes_when_the_status_lags_behind_the_kubelet() -> None:
    pods = [always(), always(container_id=Y, previous_id=X)]
    lines, position, _ = await follow(pods, [answer(SECOND_LOG)], [answer(FIRST)])
    assert lines == ["one", "two"]
    assert position == LogPosition(START_NS + 2, 1, X, 0)


async def test_it_is_disconnected_when_the_status_never_shows_the_restart() -> None:
    with pytest.raises(Disconnected, match="later instance"):
        await follow([always()], [answer(SECOND_LOG)], [answer(FIRST)])


async def test_a_later_instance_is_known_by_the_status_when_nothing_was_read_of_it() -> None:
    pods = [
        always(container_id=Y, previous_id=X, restart_count=4),
        always(container_id=Z, previous_id=Y, restart_count=5),
    ]
    lines, position, kinds = await follow(pods, [answer(SECOND_LOG)], [answer(FIRST)])
    assert lines == ["one", "two"]
    assert position == LogPosition(START_NS + 2, 1, Y, 4)
    assert kinds == ["pod", "log", "pod", "pod", "previous", "pod", "pod", "previous"]


@pytest.mark.parametrize(("instance", "expected"), [(3, Y), (2, X), (None, Y)])
async def test_the_instance_is_followed_when_its_restart_count_is_given(instance: int | None, expected: str) -> None:
    pods = [always("terminated", container_id=Y, previous_id=X, restart_count=3)]
    log = answer(text((1, Y))), answer(text((1, X)))
    lines, position, _ = await follow(pods, [log[0]], [log[1]], instance=instance)
    assert lines == [expected]
    assert position is not None
    assert (position.container_id, position.restart_count) == (expected, 3 if expected == Y else 2)


async def test_it_waits_to_be_asked_again_when_the_instance_has_not_started() -> None:
    with pytest.raises(ContainerWaiting, match="instance 1 "):
        await follow([always("terminated")], [answer(FIRST)], instance=1)


async def test_the_gap_is_named_when_the_instance_is_older_than_those_that_are_kept() -> None:
    pods = [always(container_id=Z, previous_id=Y, restart_count=5)]
    assert (await fail(LogsUnavailable, pods, [answer(FIRST)], instance=3)).gap == LogGap(None, None, "restarted")
    after = LogPosition(START_NS + 2, 1, X, 3)
    assert (await fail(LogsUnavailable, pods, [answer(FIRST)], after=after)).gap == LogGap(
        START_NS + 2, None, "restarted"
    )


async def test_the_old_log_goes_on_when_its_position_is_of_the_instance_before() -> None:
    pods = [always(container_id=Y, previous_id=X)]
    lines, _, _ = await follow(pods, [answer(SECOND_LOG)], [answer(FIRST)], after=LogPosition(START_NS + 1, 1, X, 0))
    assert lines == ["two"]


async def test_the_gap_reaches_to_the_next_line_when_lines_were_rotated_away() -> None:
    rest = text((2 * SECOND, "later"), (3 * SECOND, "much later"))
    after = LogPosition(START_NS + 5, 1, X, 0)
    error = await fail(LogsRotated, [pod(container_id=X)], [answer(rest)], after=after)
    assert error.gap == LogGap(START_NS + 5, START_NS + 2 * SECOND, "rotated")
    error = await fail(LogsRotated, [always()], [answer(rest)], [NO_PREVIOUS], after=after)
    assert error.gap == LogGap(START_NS + 5, START_NS + 2 * SECOND, "rotated")


@pytest.mark.parametrize("now", [refuse(404, "NotFound"), pod("terminated", uid="another")])
async def test_the_gap_is_named_when_the_pod_is_gone(now: Step) -> None:
    options = {"uid": "u1", "after": LogPosition(START_NS + 2, 1, X, 0)}
    error = await fail(LogsUnavailable, [now], [answer(FIRST)], **options)
    assert error.gap == LogGap(START_NS + 2, None, "pod deleted")


async def test_the_gap_is_named_when_the_pod_goes_while_its_log_is_asked_for() -> None:
    error = await fail(LogsUnavailable, [pod()], [refuse(404, "NotFound")])
    assert error.gap == LogGap(None, None, "pod deleted")


def ended_pod() -> Step:
    detail = {"containerID": X, "startedAt": STARTED, "finishedAt": FINISHED, "exitCode": 1}
    status = {"name": "main", "restartCount": 0, "containerID": X, "state": {"terminated": detail}}
    spec = {"restartPolicy": "Never", "nodeName": "n", "containers": [{"name": "main"}]}
    return answer({"metadata": {"uid": "u1"}, "spec": spec, "status": {"containerStatuses": [status]}})


async def test_the_gap_spans_the_instance_when_its_log_was_removed() -> None:
    gone = answer(f"unable to retrieve container logs for {X}")
    error = await fail(LogsUnavailable, [ended_pod()], [gone])
    assert error.gap == LogGap(START_NS, START_NS + 7 * SECOND, "log removed")
    error = await fail(LogsUnconfirmed, [ended_pod()], [answer(FIRST), gone])
    assert error.gap == LogGap(START_NS + 2, START_NS + 7 * SECOND, "log removed")


async def test_the_position_names_the_instance_when_no_line_was_read_yet() -> None:
    lines, position, _ = await follow([pod("terminated", container_id=X)], [answer(b"")])
    assert (lines, position) == ([], LogPosition(0, 0, X, 0))
    lines, _, _ = await follow([pod("terminated", container_id=X)], [answer(FIRST)], after=position)
    assert lines == ["one", "two"]


def build_pod(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "spec": {"containers": [{"name": "main"}], **spec},
        "status": {"containerStatuses": [{"name": "main", **status}]},
    }


def test_the_instance_that_ended_last_is_the_newest_when_the_container_is_in_back_off() -> None:
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"containerID": X}}}
    [only] = list_instances(build_pod({**waiting, "restartCount": 3, "containerID": X}), None)
    assert (only.container_id, only.restart_count, only.is_running, only.is_previous) == (X, 3, False, True)


def test_times_are_known_to_the_second_when_the_status_has_them() -> None:
    ended = {"terminated": {"containerID": X, "startedAt": STARTED, "finishedAt": FINISHED}}
    running = {"running": {"startedAt": FINISHED}}
    status = {"state": running, "lastState": ended, "restartCount": 1, "containerID": Y}
    newest, before = list_instances(build_pod(status), "main")
    assert (newest.started_ns, newest.finished_ns) == (START_NS + 7 * SECOND, None)
    assert (before.started_ns, before.finished_ns) == (START_NS, START_NS + 7 * SECOND)
    assert (newest.restart_count, before.restart_count) == (1, 0)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"restartPolicy": "Never"}, False),
        ({"restartPolicy": "OnFailure"}, True),
        ({}, True),
        ({"restartPolicy": "Never", "containers": [{"name": "main", "restartPolicy": "Always"}]}, True),
    ],
)
def test_a_container_can_restart_when_a_policy_says_so(spec: dict[str, Any], expected: bool) -> None:
    assert can_restart(build_pod({}, **spec), None) is expected
