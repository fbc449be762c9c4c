"""Reading and following: which end is an end, and what is never lost in silence."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
from aiohttp import web

from runyard.kube.errors import BadRequest, Disconnected, KubeError, NotFound, Stalled, Unavailable
from runyard.kube.streams import (
    ContainerUnspecified,
    ContainerWaiting,
    LogGap,
    LogLine,
    LogPosition,
    LogsRotated,
    LogsUnavailable,
    LogsUnconfirmed,
    PreviousNotFound,
    UnknownContainer,
    follow_logs,
    read_logs,
)
from tests.unit.kube.scripted_apiserver import Step, answer, refuse
from tests.unit.kube.streams.scripted_logs import (
    SECOND,
    START_NS,
    cut_after,
    playing,
    pod,
    stall_after,
    stamp,
    text,
)

GONE = "unable to retrieve container logs for containerd://" + 64 * "a"
ONE_TWO = text((1, "one"), (2, "two"))


@pytest.fixture(autouse=True)
def _short_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.kube.streams.follow._SETTLE_SECONDS", 0.0)


async def take(opening: AbstractAsyncContextManager[AsyncIterator[LogLine]], into: list[str]) -> LogPosition | None:
    """Read to the end, and remember how far one got even when it fails."""
    position: LogPosition | None = None
    async with opening as lines:
        async for line in lines:
            into.append(line.text.decode() if line.is_complete else f"{line.text.decode()}…")
            position = LogPosition.after(line, position)
    return position


async def test_timestamps_are_asked_for_and_taken_off_when_a_log_is_read() -> None:
    lines: list[str] = []
    async with playing(pods=[pod()], logs=[answer(ONE_TWO)]) as (client, server):
        opening = read_logs(
            client, "pod", namespace="ns", container="main", previous=True, since_ns=START_NS + 1, tail_lines=5
        )
        assert await take(opening, lines) == LogPosition(START_NS + 2, 1)
    assert lines == ["one", "two"]
    assert server.requests[0].target == (
        "/api/v1/namespaces/ns/pods/pod/log"
        "?timestamps=true&container=main&previous=true&sinceTime=2027-01-15T08%3A00%3A00Z&tailLines=5"
    )


async def test_only_later_lines_come_when_the_moment_asked_for_lies_within_a_second() -> None:
    lines: list[str] = []
    async with playing(pods=[pod()], logs=[answer(ONE_TWO)]) as (client, _):
        await take(read_logs(client, "pod", namespace="ns", since_ns=START_NS + 2), lines)
    assert lines == ["two"]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(1, ["o…"]), (3, ["one…"]), (4, ["one"]), (5, ["one", "t…"]), (8, ["one", "two"]), (99, ["one", "two"])],
)
async def test_the_log_ends_when_enough_bytes_were_read(limit: int, expected: list[str]) -> None:
    lines: list[str] = []
    async with playing(pods=[pod()], logs=[answer(ONE_TWO)]) as (client, _):
        await take(read_logs(client, "pod", namespace="ns", limit_bytes=limit), lines)
    assert lines == expected


async def test_an_excuse_is_an_error_when_it_comes_in_place_of_the_log() -> None:
    async with playing(pods=[pod()], logs=[answer(GONE)]) as (client, _):
        for opening in (
            read_logs(client, "pod", namespace="ns"),
            follow_logs(client, "pod", namespace="ns"),
        ):
            with pytest.raises(LogsUnavailable, match="unable to retrieve") as caught:
                await take(opening, [])
            assert caught.value.request == "GET /api/v1/namespaces/ns/pods/pod/log"


@pytest.mark.parametrize(
    ("sentence", "error"),
    [
        ('container "main" in pod "pod" is waiting to start: ContainerCreating', ContainerWaiting),
        ('container "main" in pod "pod" is not available', ContainerWaiting),
        (f'container "{63 * "c"}" in pod "{253 * "p"}" is waiting to start: x', ContainerWaiting),
        ('container "main" in pod "pod" is terminated', LogsUnavailable),
        ('previous terminated container "main" in pod "pod" not found', PreviousNotFound),
        ("a container name must be specified for pod pod, choose one of: [a b]", ContainerUnspecified),
        ("container zz is not valid for pod pod", UnknownContainer),
        ("something else", BadRequest),
    ],
)
async def test_the_reason_is_typed_when_a_log_is_refused(sentence: str, error: type[KubeError]) -> None:
    status = {"kind": "Status", "message": sentence, "reason": "BadRequest", "code": 400}
    async with playing(pods=[pod()], logs=[answer(status, status=400)]) as (client, _):
        with pytest.raises(error) as caught:
            await take(read_logs(client, "pod", namespace="ns"), [])
    assert type(caught.value) is error


async def test_a_pod_is_not_gone_when_only_its_kubelet_does_not_know_it() -> None:
    cause = {"reason": "UnexpectedServerResponse", "message": 'pod "pod" does not exist'}
    message = "the server could not find the requested resource ( pods/log pod)"
    status = {"kind": "Status", "message": message, "reason": "NotFound", "code": 404, "details": {"causes": [cause]}}
    async with playing(pods=[pod()], logs=[answer(status, status=404)]) as (client, _):
        for opening in (read_logs(client, "pod", namespace="ns"), follow_logs(client, "pod", namespace="ns")):
            with pytest.raises(Unavailable, match="does not exist"):
                await take(opening, [])


async def test_a_pod_without_a_node_is_no_empty_log_when_the_answer_is_empty() -> None:
    waiting = answer({"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "main"}]}, "status": {}})
    async with playing(pods=[waiting], logs=[answer(b"", status=204)]) as (client, _):
        for opening in (read_logs(client, "pod", namespace="ns"), follow_logs(client, "pod", namespace="ns")):
            with pytest.raises(ContainerWaiting, match="no node yet"):
                await take(opening, [])


async def test_an_empty_log_is_one_when_the_container_has_run() -> None:
    lines: list[str] = []
    async with playing(pods=[pod("terminated")], logs=[answer(b"")]) as (client, _):
        await take(read_logs(client, "pod", namespace="ns"), lines)
        await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == []


async def test_the_cut_line_comes_before_the_error_when_the_connection_is_cut() -> None:
    for follow in (read_logs, follow_logs):
        lines: list[str] = []
        async with playing(pods=[pod()], logs=[cut_after(ONE_TWO + f"{stamp(3)} thr")]) as (client, _):
            with pytest.raises(Disconnected):
                await take(follow(client, "pod", namespace="ns"), lines)
        assert lines == ["one", "two", "thr…"]


async def test_a_silent_log_is_stalled_when_it_is_only_read() -> None:
    async with playing(pods=[pod()], logs=[stall_after(ONE_TWO)]) as (client, _):
        with pytest.raises(Stalled):
            await take(read_logs(client, "pod", namespace="ns", read_deadline_seconds=0.1), [])


async def test_the_end_is_confirmed_by_a_second_reading_when_a_follow_ends() -> None:
    whole = ONE_TWO + text((3, "three")) + f"{stamp(4)} no newline"
    lines: list[str] = []
    states = [pod(), pod("terminated")]
    async with playing(pods=states, logs=[answer(ONE_TWO), answer(whole)]) as (client, server):
        await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two", "three", "no newline…"]
    targets = [request.target for request in server.requests]
    assert [target.endswith("/pod") for target in targets] == [True, False, True, False]
    assert "follow=true" in targets[1]
    assert "follow=true" not in targets[3]
    assert "sinceTime=2027-01-15T07%3A59%3A59Z" in targets[3]


async def test_nothing_is_followed_when_the_container_has_ended_before() -> None:
    lines: list[str] = []
    async with playing(pods=[pod("terminated")], logs=[answer(ONE_TWO), answer(ONE_TWO)]) as (client, server):
        await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two"]
    follows = ["follow=true" in request.target for request in server.requests if "/log?" in request.target]
    assert follows == [False, False], "read, and confirmed"


async def test_a_follow_is_disconnected_when_it_ends_before_its_container() -> None:
    lines: list[str] = []
    async with playing(pods=[pod()], logs=[answer(ONE_TWO + f"{stamp(3)} thr")]) as (client, _):
        with pytest.raises(Disconnected, match="still runs"):
            await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two", "thr…"]


async def test_lines_come_once_when_a_log_is_taken_up_again() -> None:
    # Two outputs: moments that are equal, and one that lies before the line it follows.
    whole = text((5, "a"), (7, "b"), (7, "b"), (6, "earlier"), (7, "b"), (8, "c"))
    async with playing(pods=[pod("terminated")], logs=[answer(whole)]) as (client, _):
        for count, rest in ((1, ["b", "earlier", "b", "c"]), (2, ["earlier", "b", "c"])):
            lines: list[str] = []
            after = LogPosition(START_NS + 7, count)
            await take(follow_logs(client, "pod", namespace="ns", after=after), lines)
            assert lines == rest


async def test_lost_lines_are_reported_when_the_last_one_read_is_not_in_the_log() -> None:
    after = LogPosition(START_NS + 5, 2)
    for whole in (text((5, "one of two")), text((6, "later"), (5 * SECOND, "much later")), ""):
        async with playing(pods=[pod()], logs=[answer(whole)]) as (client, _):
            with pytest.raises(LogsRotated):
                await take(follow_logs(client, "pod", namespace="ns", after=after), [])


@pytest.mark.parametrize("short", ["", text((1, "one"))], ids=["empty", "before the last line"])
async def test_nothing_is_read_twice_when_the_answer_that_confirms_the_end_is_cut_short(short: str) -> None:
    # An apiserver ends what it passes on as if it were complete when the kubelet dies.
    lines: list[str] = []
    states = [pod(), pod("terminated")]
    async with playing(pods=states, logs=[answer(ONE_TWO), answer(short), answer(ONE_TWO)]) as (client, _):
        await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two"]


async def test_a_rotated_log_is_noticed_when_its_follow_does_not_end() -> None:
    log = stall_after(text((5 * SECOND, "much later")))
    after = LogPosition(START_NS, 1)
    async with playing(pods=[pod()], logs=[log]) as (client, _):
        with pytest.raises(LogsRotated):
            await take(follow_logs(client, "pod", namespace="ns", after=after), [])


async def test_a_follow_goes_on_behind_its_last_line_when_the_connection_falls_silent() -> None:
    first = stall_after(text((1, "one")) + f"{stamp(2)} tw")
    lines: list[str] = []
    states = [pod(), pod("terminated")]
    async with playing(pods=states, logs=[first, answer(ONE_TWO)]) as (client, server):
        await take(follow_logs(client, "pod", namespace="ns", tail_lines=9, read_deadline_seconds=0.5), lines)
    assert lines == ["one", "two"]
    logs = [request.target for request in server.requests if "/log?" in request.target]
    assert ["follow" in target for target in logs] == [True, True, False]
    assert ["tailLines" in target for target in logs] == [True, False, False]


async def test_the_instance_before_is_read_again_when_its_container_was_restarted() -> None:
    lines: list[str] = []
    states = [pod(), pod(container_id="c://2", previous_id="c://1")]
    async with playing(pods=states, logs=[answer(ONE_TWO), answer(ONE_TWO)]) as (client, server):
        await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two"]
    assert "previous=true" in server.requests[-1].target


@pytest.mark.parametrize(
    "later",
    [
        refuse(404, "NotFound"),
        pod(uid="u2"),
        pod(container_id="c://3", previous_id="c://2"),
        pod("waiting"),
    ],
)
async def test_the_end_is_unconfirmed_when_nobody_is_left_to_ask(later: Step) -> None:
    lines: list[str] = []
    began_ns = time.time_ns()
    async with playing(pods=[pod(), later], logs=[answer(ONE_TWO)]) as (client, _):
        with pytest.raises(LogsUnconfirmed) as caught:
            await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two"]
    assert caught.value.ended_ns is not None
    assert began_ns <= caught.value.ended_ns <= time.time_ns()


@pytest.mark.parametrize(("size", "is_late"), [(10, False), (5000, True)])
async def test_it_is_said_that_the_last_line_was_read_late_when_the_log_may_have_been_rotated(
    size: int, *, is_late: bool
) -> None:
    body = text((1, size * "x")).replace("2027", "2025")
    began_ns = time.time_ns()
    async with playing(pods=[pod(), refuse(404, "NotFound")], logs=[answer(body)]) as (client, _):
        with pytest.raises(LogsUnconfirmed) as caught:
            await take(follow_logs(client, "pod", namespace="ns"), [])
    late_ns = caught.value.late_ns
    assert (late_ns is not None and began_ns <= late_ns <= time.time_ns()) == is_late


async def test_nobody_waited_for_the_end_when_the_node_cannot_wait_for_new_lines() -> None:
    body = ONE_TWO + "failed to create fsnotify watcher: too many open files"
    states = [pod(), pod("terminated"), refuse(404, "NotFound")]
    async with playing(pods=states, logs=[answer(body)]) as (client, _):
        with pytest.raises(LogsUnconfirmed) as caught:
            await take(follow_logs(client, "pod", namespace="ns"), [])
    assert caught.value.ended_ns is None


async def test_nobody_waited_for_the_end_when_more_lines_come_after_it() -> None:
    rest = ONE_TWO + text((3, "three")) + GONE
    lines: list[str] = []
    async with playing(pods=[pod("terminated")], logs=[answer(ONE_TWO), answer(rest)]) as (client, _):
        with pytest.raises(LogsUnconfirmed) as caught:
            await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two", "three"]
    assert caught.value.ended_ns is None


@pytest.mark.parametrize("later", [answer(GONE), refuse(404, "NotFound")])
async def test_the_end_is_unconfirmed_when_the_log_goes_before_it_was_read_again(later: Step) -> None:
    lines: list[str] = []
    logs = [answer(ONE_TWO + f"{stamp(3)} thr"), later]
    async with playing(pods=[pod("terminated")], logs=logs) as (client, _):
        with pytest.raises(LogsUnconfirmed):
            await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two", "thr…"]


async def test_the_container_must_be_one_of_the_pod_s_when_its_log_is_followed() -> None:
    async with playing(pods=[pod(containers=2)], logs=[answer(ONE_TWO)]) as (client, server):
        with pytest.raises(ContainerUnspecified, match="main, side1"):
            await take(follow_logs(client, "pod", namespace="ns"), [])
        with pytest.raises(UnknownContainer, match="zz"):
            await take(follow_logs(client, "pod", namespace="ns", container="zz"), [])
        with pytest.raises(ContainerWaiting, match="side1"):
            await take(follow_logs(client, "pod", namespace="ns", container="side1"), [])
        assert not any("/log" in request.target for request in server.requests)


async def test_there_is_no_log_to_follow_when_there_is_no_pod() -> None:
    async with playing(pods=[refuse(404, "NotFound")], logs=[answer("")]) as (client, _):
        with pytest.raises(NotFound):
            await take(follow_logs(client, "pod", namespace="ns"), [])


async def test_new_file_is_read_without_a_gap_when_the_container_ended_after_a_rotation() -> None:
    old = ONE_TWO + f"{stamp(3)} cut in"
    new = text((4, " two"), (5, "three"))
    lines: list[str] = []
    async with playing(pods=[pod(), pod("terminated")], logs=[answer(old), answer(new)]) as (client, _):
        await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two", "cut in…", " two", "three"]


async def test_lines_may_be_lost_when_the_new_file_begins_much_later() -> None:
    new = text((4 * SECOND, "later"))
    lines: list[str] = []
    async with playing(pods=[pod(), pod("terminated")], logs=[answer(ONE_TWO), answer(new)]) as (client, _):
        with pytest.raises(LogsRotated) as caught:
            await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two"]
    assert caught.value.gap == LogGap(START_NS + 2, START_NS + 4 * SECOND, "rotated")


async def test_reading_goes_on_at_the_first_line_when_a_log_was_rotated() -> None:
    after = LogPosition(START_NS, 1, "c://1")
    new = text((5 * SECOND, "a"), (5 * SECOND - 1, "of another output"))
    async with playing(pods=[pod("terminated")], logs=[answer(new)]) as (client, _):
        async with follow_logs(client, "pod", namespace="ns", after=after) as log:
            with pytest.raises(LogsRotated):
                await anext(log)
        assert log.position == LogPosition(START_NS + 5 * SECOND, 0, "c://1")
        lines: list[str] = []
        await take(follow_logs(client, "pod", namespace="ns", after=log.position), lines)
    assert lines == ["a", "of another output"]


PAUSE = text(
    (0, "x" * 4096), (4 * SECOND, "a"), (4 * SECOND + 2, "b"), (4 * SECOND - 1, "of stderr"), (5 * SECOND, "c")
)


@pytest.mark.parametrize("look", [refuse(503, "ServiceUnavailable"), answer(b""), answer(text((4 * SECOND, "a")))])
async def test_no_line_is_lost_when_two_outputs_are_stamped_in_disorder_after_a_pause(look: Step) -> None:
    """Whether the newest file can be read, where the follow may have skipped one, or not."""
    has_looked, last = asyncio.Event(), text((6 * SECOND, "end"))

    async def follow(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(PAUSE.encode())
        await has_looked.wait()
        await response.write(last.encode())
        return response

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        assert request.query["limitBytes"] == "64"
        has_looked.set()
        return await look(request)

    lines: list[str] = []
    logs = [follow, respond, answer(PAUSE + last)]
    async with playing(pods=[pod(), pod("terminated")], logs=logs) as (client, _):
        await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines[1:] == ["a", "b", "of stderr", "c", "end"]


@pytest.mark.parametrize("count", [1, 3])
async def test_only_the_last_lines_are_read_again_when_a_long_log_ends(count: int) -> None:
    body = "".join(text((number, "x" * 1000)) for number in range(100)) + text(*[(100, "same")] * count)
    tail = text((99, "x" * 1000), *[(100, "same")] * count)
    lines: list[str] = []
    async with playing(pods=[pod("terminated")], logs=[answer(body), answer(tail)]) as (client, server):
        await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert len(lines) == 100 + count
    assert server.requests[-1].target.endswith(f"tailLines={count + 1}")


@pytest.mark.parametrize(
    "tail",
    [
        text((100, "same")),
        text((100, "same"), (100, "same")),
        text((100, "same"), (101, "more")),
        text((99, "x"), (100, "same")) + f"{stamp(101)} cu",
    ],
)
async def test_end_of_a_long_log_is_read_again_when_its_last_lines_do_not_confirm_it(tail: str) -> None:
    body = "".join(text((number, "x" * 1000)) for number in range(100)) + text((100, "same"))
    rest = text((100, "same"), (101, "more"))
    lines: list[str] = []
    async with playing(pods=[pod("terminated")], logs=[answer(body), answer(tail), answer(rest)]) as (client, _):
        await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines[100:] == ["same", "more"]


async def test_log_is_read_again_and_again_when_its_node_cannot_wait_for_new_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runyard.kube.streams.follow._UNWATCHED_SECONDS", 0.01)
    complaint = "failed to create fsnotify watcher: too many open files"
    three = ONE_TWO + text((3, "three"))
    logs = [answer(body + complaint) for body in (text((1, "one")), ONE_TWO, ONE_TWO, three)]
    states = [pod(), pod(), pod(), pod(), pod("terminated")]
    lines: list[str] = []
    async with playing(pods=states, logs=[*logs, answer(three)]) as (client, server):
        await take(follow_logs(client, "pod", namespace="ns"), lines)
    assert lines == ["one", "two", "three"]
    follows = ["follow=true" in request.target for request in server.requests if "/log?" in request.target]
    assert follows == [True, True, True, True, False]
