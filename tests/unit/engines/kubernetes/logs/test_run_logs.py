"""The output of a container through a played apiserver: bytes, positions, gaps, and what may come later."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Self

import pytest
from aiohttp import web

from runyard.app.engine import Anchor, EngineUnavailable, LogChunk, LogGap, LogSource
from runyard.engines.kubernetes import log_follow, run_logs
from runyard.engines.kubernetes.log_sources import list_sources
from runyard.engines.kubernetes.run_logs import RunLogs
from runyard.engines.kubernetes.run_objects import GonePod
from runyard.engines.kubernetes.views import PodView
from runyard.kube.client import Client
from runyard.kube.streams import LogsUnconfirmed
from tests.unit.engines.kubernetes.logs.played_pods import (
    NAMESPACES,
    NOON,
    RUN,
    PlayedCache,
    ended,
    make_job,
    make_pod,
    running,
)
from tests.unit.kube.scripted_apiserver import Step, answer, refuse, serve
from tests.unit.kube.streams.scripted_logs import SECOND, cut_after, playing, pod, stamp, text

GONE = "unable to retrieve container logs for containerd://" + 64 * "a"
SOURCE = LogSource(run_uid=RUN, pod="pod", container="main")
ANCHOR = Anchor(run_uid=RUN, run_id="r1", project="p", action="job", uid="job-uid")
ONE_TWO = text((1, "one"), (2, "two"))
Items = list[LogChunk | LogGap]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.kube.streams.follow._SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(log_follow, "FIRST_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(log_follow, "TOMBSTONE_SECONDS", 0.05)


async def follow(
    client: Client,
    cache: PlayedCache,
    *,
    source: LogSource = SOURCE,
    after: str | None = None,
    logs: RunLogs | None = None,
) -> Items:
    """Everything to the end."""
    logs = logs or RunLogs(client, cache, NAMESPACES)
    return [item async for item in logs.follow_log(source, after=after)]


def join(items: Sequence[LogChunk | LogGap]) -> bytes:
    return b"".join(item.content for item in items if isinstance(item, LogChunk))


def list_causes(items: Sequence[LogChunk | LogGap]) -> list[str]:
    gaps = [item for item in items if isinstance(item, LogGap)]
    assert all(gap.since <= gap.until for gap in gaps)
    return [gap.cause.partition(":")[0] for gap in gaps]


def make_cache(**options: Any) -> PlayedCache:
    return PlayedCache(make_pod(running(), uid="u1"), **options)


async def test_bytes_are_the_program_s_when_its_last_line_has_no_newline() -> None:
    body = ONE_TWO.encode() + stamp(3).encode() + b" \xff\r\x00\n" + stamp(4).encode() + b" no newline"
    async with playing(pods=[pod("terminated")], logs=[answer(body)]) as (client, _):
        items = await follow(client, make_cache())
        assert join(items) == b"one\ntwo\n\xff\r\x00\nno newline"
        assert await follow(client, make_cache(), after=items[-1].position) == []
        assert join(await follow(client, make_cache(), after=items[0].position)) == b"no newline"


async def test_nothing_is_missing_or_doubled_when_every_line_has_the_same_moment() -> None:
    lines = [(5, f"line {number % 3}") for number in range(50)]
    steps = [answer(text(*lines[:20])), answer(text(*lines))]
    states = [pod(), pod("terminated")]
    async with playing(pods=states, logs=steps) as (client, _):
        items = await follow(client, make_cache())
    assert join(items) == b"".join(f"{line}\n".encode() for _, line in lines)
    async with playing(pods=[pod("terminated")], logs=[answer(text(*lines))]) as (client, _):
        rest = await follow(client, make_cache(), after=items[0].position)
    assert join(items[:1]) + join(rest) == join(items)


def make_job_pod(state: str) -> PodView:
    """A pod of a Job: its containers are never restarted."""
    times = {"startedAt": NOON, "finishedAt": NOON, "exitCode": 0, "containerID": "containerd://c1"}
    status = {"name": "main", "containerID": "containerd://c1", "state": {state: times}}
    return make_pod(status, uid="u1", spec={"restartPolicy": "Never", "containers": [{"name": "main"}]})


async def test_two_requests_read_a_log_when_the_watch_shows_the_end_of_a_pod_of_a_job() -> None:
    cache, logs = PlayedCache(make_job_pod("running")), [answer(ONE_TWO), answer(ONE_TWO)]
    async with playing(pods=[refuse(500, "InternalError")], logs=logs) as (client, server):
        items = []
        async for item in RunLogs(client, cache, NAMESPACES).follow_log(SOURCE):
            items.append(item)
            cache.pods = [make_job_pod("terminated")]
    assert join(items) == b"one\ntwo\n"
    paths = [request.target.partition("?")[0] for request in server.requests]
    assert paths == ["/api/v1/namespaces/ns/pods/pod/log"] * 2


async def test_an_empty_log_costs_two_requests_when_the_watch_shows_the_pod_of_a_job() -> None:
    cache = PlayedCache(make_job_pod("terminated"))
    async with playing(pods=[refuse(500, "InternalError")], logs=[answer("")]) as (client, server):
        assert await follow(client, cache) == []
    assert len(server.requests) == 2


async def test_the_pod_is_asked_for_when_the_watch_no_longer_shows_it() -> None:
    cache = PlayedCache(make_job_pod("running"))
    states = [pod("terminated", container_id="containerd://c1")]
    async with playing(pods=states, logs=[answer(ONE_TWO)]) as (client, server):
        items = []
        async for item in RunLogs(client, cache, NAMESPACES).follow_log(SOURCE):
            items.append(item)
            cache.pods = []
    assert (join(items), list_causes(items)) == (b"one\ntwo\n", [])
    assert any(request.target.partition("?")[0].endswith("/pods/pod") for request in server.requests)


async def test_reading_goes_on_at_once_when_the_connection_breaks() -> None:
    logs = [cut_after(ONE_TWO + f"{stamp(3)} thr"), answer(ONE_TWO + text((3, "three")))]
    states = [pod(), pod(), pod("terminated")]
    async with playing(pods=states, logs=logs) as (client, _):
        assert join(await follow(client, make_cache())) == b"one\ntwo\nthree\n"


async def test_rest_may_come_later_when_the_connection_breaks_again_and_again() -> None:
    async with playing(pods=[pod()], logs=[cut_after("")]) as (client, server):
        with pytest.raises(EngineUnavailable):
            await follow(client, make_cache())
    follows = [request for request in server.requests if "/log?" in request.target]
    assert len(follows) == 1 + log_follow.QUICK_RETRIES


@pytest.mark.parametrize(
    "later", [refuse(503, "ServiceUnavailable"), refuse(500, "InternalError"), refuse(403, "Forbidden")]
)
async def test_rest_may_come_later_when_kubelet_or_apiserver_do_not_answer(
    later: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follow, "DEADLINE_SECONDS", 0.2)
    async with playing(pods=[pod()], logs=[later]) as (client, _):
        with pytest.raises(EngineUnavailable):
            await follow(client, make_cache())


async def test_rest_may_come_later_when_the_container_waits() -> None:
    async with playing(pods=[pod("waiting")], logs=[answer(ONE_TWO)]) as (client, _):
        with pytest.raises(EngineUnavailable, match="has not started"):
            await follow(client, make_cache())


@pytest.mark.parametrize(("reason", "cause"), [("Evicted", "pod evicted"), ("", "log removed")])
async def test_gap_has_span_and_cause_when_the_node_has_forgotten_the_container(reason: str, cause: str) -> None:
    """So a kubelet leaves a pod that it has evicted: its container has no ID, no times, and one restart."""
    unknown = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    status = {"name": "main", "restartCount": 1, "state": unknown, "lastState": unknown}
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2027-01-15T08:00:30Z"}
    evicted = make_pod(status, uid="u1", phase="Failed", reason=reason, conditions=[ready])
    async with playing(pods=[pod("waiting")], logs=[answer(ONE_TWO)]) as (client, _):
        (gap,) = await follow(client, PlayedCache(evicted), after=f"0.{1_800_000_000 * SECOND}.1.c://1")
    assert isinstance(gap, LogGap)
    assert gap.cause.partition(":")[0] == cause
    assert (gap.since.isoformat(), gap.until.isoformat()) == ("2027-01-15T08:00:00+00:00", "2027-01-15T08:00:30+00:00")


async def test_gap_says_possibly_when_nobody_knows_whether_the_pod_ran() -> None:
    unknown = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}
    there = make_pod(unknown, uid="u1", phase="Failed")
    async with playing(pods=[], logs=[]) as (client, _):
        for cache in (
            PlayedCache(there),
            PlayedCache(gone=[GonePod(there, is_final=True)]),
            PlayedCache(gone=[GonePod(make_pod(), is_final=False)]),
        ):
            (gap,) = await follow(client, cache)
            assert isinstance(gap, LogGap)
            assert gap.cause.startswith("pod deleted: possibly; nobody reported whether the pod ran")


async def test_gap_of_a_pod_that_may_have_run_lasts_until_now_when_it_was_never_ready() -> None:
    """Its condition says since when it is not ready: since it was scheduled, so before anything ran."""
    unknown = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    times: dict[str, Any] = {"created": "2025-01-01T00:00:00Z", "conditions": [ready]}
    async with playing(pods=[], logs=[]) as (client, _):
        (gap,) = await follow(client, PlayedCache(make_pod(unknown, uid="u1", phase="Failed", **times)))
        assert isinstance(gap, LogGap)
        assert gap.since.isoformat() == "2025-01-01T00:00:00+00:00"
        assert (datetime.now(UTC) - gap.until).total_seconds() < 60
        deleted = make_pod(unknown, uid="u1", phase="Failed", deleted="2025-01-01T00:01:00Z", **times)
        (gap,) = await follow(client, PlayedCache(deleted))
        assert isinstance(gap, LogGap)
        assert gap.until.isoformat() == "2025-01-01T00:01:00+00:00"


@pytest.mark.parametrize("is_unseen", [False, True])
async def test_gap_begins_with_the_job_when_pod_and_job_are_gone(*, is_unseen: bool) -> None:
    """With its creation: the controller may have begun it once more, after its first pod."""
    source = LogSource(run_uid=RUN, pod="pod", container="main", is_unseen=is_unseen)
    cache = PlayedCache(gone_job=make_job(startTime=NOON.replace(":00Z", ":30Z")))
    async with playing(pods=[], logs=[]) as (client, _):
        (gap,) = await follow(client, cache, source=source)
    assert isinstance(gap, LogGap)
    assert gap.since == datetime.fromisoformat(NOON)


async def test_gap_is_named_and_reading_goes_on_when_lines_were_rotated_away() -> None:
    after = f"0.{1_800_000_000 * SECOND}.1.c://1"
    later = text((20 * SECOND, "kept"), (21 * SECOND, "more"))
    async with playing(pods=[pod("terminated")], logs=[answer(later)]) as (client, _):
        items = await follow(client, make_cache(), after=after)
        assert list_causes(items) == ["rotated"]
        assert isinstance(items[0], LogGap)
        assert (items[0].until - items[0].since).total_seconds() == 20
        assert join(items) == b"kept\nmore\n"
        resumed = await follow(client, make_cache(), after=items[0].position)
        assert (list_causes(resumed), join(resumed)) == ([], b"kept\nmore\n")


async def test_second_gap_is_named_when_more_is_rotated_away_before_reading_resumes() -> None:
    after = f"0.{1_800_000_000 * SECOND}.1.c://1"
    logs = [answer(text((20 * SECOND, "a"))), answer(text((30 * SECOND, "b")))]
    async with playing(pods=[pod("terminated")], logs=logs) as (client, _):
        items = await follow(client, make_cache(), after=after)
    assert list_causes(items) == ["rotated", "rotated"]
    assert join(items) == b"b\n"


async def test_beginning_is_doubted_when_a_log_is_first_read_late() -> None:
    began = stamp(0).replace("2027", "2025")
    started = {"state": {"terminated": {"containerID": "c://1", "startedAt": began, "finishedAt": began}}}

    def make_body(first_seconds: int, count: int) -> str:
        return text(*[(first_seconds * SECOND, "x" * 999)] * count).replace("2027", "2025")

    async def respond_pod(request: web.BaseRequest) -> web.StreamResponse:
        status = {"name": "main", "restartCount": 0, "containerID": "c://1", **started}
        body = {
            "metadata": {"name": "pod", "uid": "u1"},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]},
        }
        return await answer({**body, "status": {"containerStatuses": [status]}})(request)

    for seconds, count, causes in ((3, 1, []), (4, 1, ["rotated"]), (1, 99, []), (2, 99, ["rotated"])):
        async with playing(pods=[respond_pod], logs=[answer(make_body(seconds, count))]) as (client, _):
            items = await follow(client, make_cache())
            assert (list_causes(items), len(join(items))) == (causes, 1000 * count)
            resumed = await follow(client, make_cache(), after=items[0].position)
            assert list_causes(resumed) == []
            assert join(items[:1]) + join(resumed) == join(items)


async def test_output_ends_with_a_gap_when_its_pod_is_gone() -> None:
    cache = make_cache()
    cache.lose(make_pod(running(), uid="u1", deleted="2026-11-16T12:00:10Z"))
    async with playing(pods=[refuse(404, "NotFound")], logs=[answer(GONE)]) as (client, server):
        (gap,) = await follow(client, cache)
        assert isinstance(gap, LogGap)
        assert gap.cause.startswith("pod deleted")
        assert (gap.until - gap.since).total_seconds() == 10
        assert await follow(client, cache, after=gap.position) == []
    assert server.requests == []


async def test_cause_is_the_lost_node_when_the_pod_is_deleted_after_it() -> None:
    cache = make_cache()
    cache.lose(make_pod(running(), uid="u1", reason="NodeLost"))
    async with playing(pods=[refuse(404, "NotFound")], logs=[answer(GONE)]) as (client, _):
        assert list_causes(await follow(client, cache)) == ["node lost"]


async def test_what_was_read_of_the_last_line_is_kept_when_the_pod_is_deleted() -> None:
    cache = make_cache()
    logs = [cut_after(ONE_TWO + f"{stamp(3)} thr"), refuse(404, "NotFound")]
    async with playing(pods=[pod(), refuse(404, "NotFound")], logs=logs) as (client, _):
        items = await follow(client, cache)
    assert list_causes(items) == ["pod deleted"]
    assert join(items) == b"one\ntwo\n"


LATER = "2126-11-16T12:00:00Z"
REPLACED = running(restarts=1, lastState=ended()["state"])


@pytest.mark.parametrize(
    ("last", "causes"),
    [
        (ended(), []),
        (REPLACED, []),
        (running(), ["pod deleted"]),
        # The server ended the follow before the container ended: its kubelet died.
        (ended(until=LATER), ["pod deleted"]),
        (running(restarts=1, lastState=ended(until=LATER)["state"]), ["pod deleted"]),
        (running(restarts=2, lastState=ended()["state"]), ["pod deleted"]),
    ],
)
async def test_log_is_complete_when_the_node_reported_its_end_before_the_pod_was_gone(
    last: dict[str, Any], causes: list[str]
) -> None:
    cache = make_cache()
    cache.lose(make_pod(last, uid="u1"))
    cache.pods = [make_pod(running(), uid="u1")]
    async with playing(pods=[pod(), refuse(404, "NotFound")], logs=[answer(ONE_TWO)]) as (client, _):
        items = await follow(client, cache)
    assert (join(items), list_causes(items)) == (b"one\ntwo\n", causes)


async def test_log_is_complete_when_the_last_state_of_the_pod_comes_after_it_left_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_follow, "TOMBSTONE_SECONDS", 10.0)
    cache = make_cache()
    async with playing(pods=[pod(), refuse(404, "NotFound")], logs=[answer(ONE_TWO)]) as (client, _):
        items = []
        async for item in RunLogs(client, cache, NAMESPACES).follow_log(SOURCE):
            items.append(item)
            cache.pods = []
            asyncio.get_running_loop().call_later(0.2, cache.lose, make_pod(ended(), uid="u1"))
    assert (join(items), list_causes(items)) == (b"one\ntwo\n", [])


async def test_log_may_lack_its_end_when_it_was_read_late_and_may_have_been_rotated() -> None:
    body = text(*[(1, "x" * 999)] * 9).replace("2027", "2025")
    cache = make_cache()
    cache.lose(make_pod(ended(), uid="u1"))
    cache.pods = [make_pod(running(), uid="u1")]
    async with playing(pods=[pod(), refuse(404, "NotFound")], logs=[answer(body)]) as (client, _):
        items = await follow(client, cache)
    assert (len(join(items)), list_causes(items)) == (9000, ["pod deleted"])


@pytest.mark.parametrize(
    ("finished", "ended", "late", "is_read"),
    [
        (10, 10.1, None, True),
        (12, 10.1, None, True),
        (13, 10.1, None, False),
        (10, None, None, False),
        (10, 10.5, 10.4, False),
        (10, 10.5, 9, False),
        (10, 10.5, 7, True),
    ],
)
def test_all_was_read_when_the_follow_was_up_to_date_and_there_at_the_end(
    *, finished: float, ended: float | None, late: float | None, is_read: bool
) -> None:
    ended_ns, late_ns = (None if at is None else int(at * SECOND) for at in (ended, late))
    error = LogsUnconfirmed("the pod is gone", gap=None, ended_ns=ended_ns, late_ns=late_ns)
    assert log_follow.is_read_to_end(error, datetime.fromtimestamp(finished, UTC)) == is_read


async def test_last_state_is_not_believed_when_the_deletion_was_missed() -> None:
    cache = make_cache()
    cache.gone = []
    cache.lose(make_pod(ended(), uid="u1"), is_final=False)
    cache.pods = [make_pod(running(), uid="u1")]
    async with playing(pods=[pod(), refuse(404, "NotFound")], logs=[answer(ONE_TWO)]) as (client, _):
        assert list_causes(await follow(client, cache)) == ["pod deleted"]


async def test_gap_says_that_the_node_was_lost_when_the_follow_ended_and_its_pod_went_with_the_node() -> None:
    cache = make_cache()
    orphaned = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
    for last in (running(), ended()):  # the follow ended in the second in which the container did, before or after it
        cache.lose(make_pod(last, uid="u1", conditions=[orphaned]))
        cache.pods = [make_pod(running(), uid="u1")]
        async with playing(pods=[pod(), refuse(404, "NotFound")], logs=[answer(ONE_TWO)]) as (client, _):
            assert list_causes(await follow(client, cache)) == ["node lost"]
        cache.gone.clear()


async def test_log_is_complete_when_its_pod_was_driven_away_by_a_taint_and_the_kubelet_has_ended_it() -> None:
    cache = make_cache()
    for moment, causes in ((NOON, []), ("2026-11-16T12:00:01Z", ["node lost"])):
        tainted = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
        cache.lose(make_pod(ended(), uid="u1", conditions=[{**tainted, "lastTransitionTime": moment}]))
        cache.pods = [make_pod(running(), uid="u1")]
        async with playing(pods=[pod(), refuse(404, "NotFound")], logs=[answer(ONE_TWO)]) as (client, _):
            assert list_causes(await follow(client, cache)) == causes
        cache.gone.clear()


NEVER_BEGAN = {"exitCode": 128, "reason": "StartError", "startedAt": "1970-01-01T00:00:00Z", "finishedAt": NOON}
UNSTARTED = {"name": "main", "restartCount": 0, "state": {"terminated": NEVER_BEGAN}}
RESTARTED = {"restartPolicy": "Always", "containers": [{"name": "main"}]}


async def test_gap_lasts_until_the_pod_was_removed_when_a_later_instance_may_have_run_of_which_nobody_heard() -> None:
    removed = "2026-11-16T12:00:44Z"
    for policy, until in (("Always", removed), ("Never", NOON)):
        cache = make_cache()
        spec = {"restartPolicy": policy, "containers": [{"name": "main"}]}
        cache.lose(make_pod(UNSTARTED, uid="u1", deleted=removed, phase="Failed", spec=spec, created=NOON))
        async with playing(pods=[refuse(404, "NotFound")], logs=[answer(GONE)]) as (client, _):
            (gap,) = await follow(client, cache)
        assert isinstance(gap, LogGap)
        assert (gap.since, gap.until) == (datetime.fromisoformat(NOON), datetime.fromisoformat(until))


async def test_gap_lasts_until_now_when_a_service_pod_was_removed_by_force_and_may_have_gone_on() -> None:
    cache = make_cache()
    cache.lose(make_pod(ended(), uid="u1", spec=RESTARTED))
    async with playing(pods=[refuse(404, "NotFound")], logs=[answer(GONE)]) as (client, _):
        began = datetime.now(UTC)
        (gap,) = await follow(client, cache)
    assert isinstance(gap, LogGap)
    assert gap.until >= began


class _March(datetime):
    """A clock after the lines of the scripted logs."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(2027, 3, 1, tzinfo=tz)


async def test_gap_begins_with_the_last_line_when_the_clock_of_the_node_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the apiserver's clock the pod was created after the line was written."""
    monkeypatch.setattr(log_follow, "datetime", _March)
    cache = PlayedCache(make_pod(running(), uid="u1", created="2027-02-01T12:00:00Z"))
    async with playing(pods=[pod(), refuse(404, "NotFound")], logs=[answer(ONE_TWO), answer(GONE)]) as (client, _):
        chunk, gap = await follow(client, cache)
    assert isinstance(chunk, LogChunk)
    assert isinstance(gap, LogGap)
    assert gap.since == chunk.at


async def test_log_is_awaited_when_a_container_could_not_be_started_and_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_logs, "UNREADABLE_SECONDS", 0.0)
    cache = PlayedCache(make_pod(UNSTARTED, uid="u1", spec=RESTARTED))
    async with playing(pods=[pod("terminated")], logs=[answer(GONE)]) as (client, _):
        logs = RunLogs(client, cache, NAMESPACES)
        for _attempt in range(3):
            with pytest.raises(EngineUnavailable, match="unable to retrieve"):
                await follow(client, cache, logs=logs)
        cache.pods = [make_pod(UNSTARTED, uid="u1", spec=RESTARTED, deleted=NOON)]  # it may run until it is gone
        with pytest.raises(EngineUnavailable, match="unable to retrieve"):
            await follow(client, cache, logs=logs)
        cache.pods = [make_pod(UNSTARTED, uid="u1", spec=RESTARTED, deleted=NOON, phase="Failed")]
        assert list_causes(await follow(client, cache, logs=logs)) == ["pod deleted"]
        cache.pods = [make_pod(running(restarts=1, lastState=UNSTARTED["state"]), uid="u1", spec=RESTARTED)]
        assert list_causes(await follow(client, cache, logs=logs)) == ["log removed"]


async def test_gap_begins_with_the_pod_when_nothing_else_is_known_of_it_anymore() -> None:
    (source,) = list_sources(RUN, [make_pod(running(), created="2026-11-16T11:59:00Z")], [])
    async with playing(pods=[], logs=[]) as (client, _):
        (gap,) = await follow(client, PlayedCache(), source=source)
    assert isinstance(gap, LogGap)
    assert gap.since == datetime.fromisoformat("2026-11-16T11:59:00Z")


async def test_log_counts_as_removed_only_when_the_node_says_so_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = PlayedCache(make_pod(ended(), uid="u1"))
    async with playing(pods=[pod("terminated")], logs=[answer(GONE)]) as (client, _):
        logs = RunLogs(client, cache, NAMESPACES)
        with pytest.raises(EngineUnavailable, match="unable to retrieve"):
            await follow(client, cache, logs=logs)
        monkeypatch.setattr(run_logs, "UNREADABLE_SECONDS", 0.0)
        items = await follow(client, cache, logs=logs)
        assert list_causes(items) == ["log removed"]
        assert await follow(client, cache, logs=logs, after=items[0].position) == []


async def test_log_of_a_running_container_goes_on_when_its_runtime_was_away_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_logs, "UNREADABLE_SECONDS", 0.0)
    cache = make_cache()
    states, logs = [pod(), pod(), pod("terminated")], [answer(GONE), answer(GONE), answer(ONE_TWO)]
    async with playing(pods=states, logs=logs) as (client, _):
        run = RunLogs(client, cache, NAMESPACES)
        for _attempt in range(2):
            with pytest.raises(EngineUnavailable, match="unable to retrieve"):
                await follow(client, cache, logs=run)
        items = await follow(client, cache, logs=run)
    assert (join(items), list_causes(items)) == (b"one\ntwo\n", [])


async def test_time_until_a_log_counts_as_removed_begins_anew_when_its_node_gave_it_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("runyard.engines.kubernetes.run_logs.time.monotonic", lambda: now)
    cache = PlayedCache(make_pod(ended(), uid="u1"))
    # The second time the log is given, with nothing new, and the runtime goes before that is confirmed.
    logs = [answer(ONE_TWO), answer(GONE), answer(ONE_TWO), answer(GONE), answer(GONE)]
    async with playing(pods=[live(ended_instance())], logs=logs) as (client, _):
        run, items = RunLogs(client, cache, NAMESPACES), Items()

        async def follow_on() -> None:
            async for item in run.follow_log(SOURCE, after=items[-1].position if items else None):
                items.append(item)

        for _attempt in range(2):
            with pytest.raises(EngineUnavailable, match="unable to retrieve"):
                await follow_on()
            now += run_logs.UNREADABLE_SECONDS
        await follow_on()
    assert (join(items), list_causes(items)) == (b"one\ntwo\n", ["log removed"])


@pytest.mark.parametrize("logs", [[refuse(404, "NotFound")], [answer(ONE_TWO), refuse(404, "NotFound")]])
async def test_rest_may_come_later_when_the_node_is_not_registered_and_the_pod_exists(
    logs: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The apiserver answers with 404 for the log then, as for a pod that is gone; the kubelet may register again."""
    monkeypatch.setattr(run_logs, "UNREADABLE_SECONDS", 0.0)
    runs, has_ended = live(running(containerID="c://1")), live(ended_instance())
    async with playing(pods=[runs], logs=logs[-1:]) as (client, _):
        with pytest.raises(EngineUnavailable):
            await follow(client, make_cache())
    monkeypatch.setattr(run_logs, "UNREADABLE_SECONDS", 30.0)
    async with playing(pods=[has_ended], logs=logs) as (client, _):
        with pytest.raises(EngineUnavailable):
            await follow(client, make_cache())
    monkeypatch.setattr(run_logs, "UNREADABLE_SECONDS", 0.0)
    async with playing(pods=[has_ended], logs=logs) as (client, _):
        assert list_causes(await follow(client, make_cache())) == ["log removed"]


def live(status: dict[str, Any], *, deleted: str = "", **fields: Any) -> Step:
    """The pod as the apiserver has it, on a node that is done with it."""
    metadata = {"name": "pod", "namespace": "ns", "uid": "u1", "deletionTimestamp": deleted}
    spec = {"restartPolicy": "Never", "nodeName": "n", "containers": [{"name": "main"}]}
    return answer({"metadata": metadata, "spec": spec, "status": {"containerStatuses": [status], **fields}})


def ended_instance(until: str = NOON) -> dict[str, Any]:
    """The end of the instance that `pod` shows."""
    status = ended(until=until)
    status["state"]["terminated"]["containerID"] = "c://1"
    return status


async def test_log_is_read_to_its_end_when_the_runtime_restarts_while_that_is_confirmed() -> None:
    cache, items = PlayedCache(make_pod(ended(), uid="u1")), Items()
    logs = [answer(ONE_TWO + f"{stamp(3)} thr"), answer(GONE), answer(GONE), answer(ONE_TWO + text((3, "three")))]
    async with playing(pods=[live(ended_instance())], logs=logs) as (client, _):
        run = RunLogs(client, cache, NAMESPACES)

        async def follow_on() -> None:
            async for item in run.follow_log(SOURCE, after=items[-1].position if items else None):
                items.append(item)

        for _attempt in range(2):
            with pytest.raises(EngineUnavailable, match="unable to retrieve"):
                await follow_on()
        await follow_on()
    assert (join(items), list_causes(items)) == (b"one\ntwo\nthree\n", [])


async def test_gap_follows_when_the_end_cannot_be_confirmed_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_logs, "UNREADABLE_SECONDS", 0.0)
    logs = [answer(ONE_TWO + f"{stamp(3)} thr"), answer(GONE)]
    async with playing(pods=[live(ended_instance())], logs=logs) as (client, _):
        items = await follow(client, PlayedCache(make_pod(ended(), uid="u1")))
    assert (join(items), list_causes(items)) == (b"one\ntwo\nthr", ["log removed"])


@pytest.mark.parametrize(("until", "causes"), [(NOON, []), (LATER, ["pod deleted"])])
async def test_log_of_a_pod_that_is_being_deleted_is_complete_when_the_follow_was_there_at_its_end(
    until: str, causes: list[str]
) -> None:
    """A kubelet removes the containers of a pod before the pod; the watch may be later than that."""
    states, logs = [live(ended_instance(until), deleted=NOON)], [answer(ONE_TWO), answer(GONE)]
    async with playing(pods=states, logs=logs) as (client, _):
        items = await follow(client, make_cache())
    assert (join(items), list_causes(items)) == (b"one\ntwo\n", causes)


@pytest.mark.parametrize(("ready_until", "causes"), [(NOON, []), (LATER, ["pod evicted"])])
async def test_log_of_an_evicted_pod_is_complete_when_the_follow_was_there_at_its_end(
    ready_until: str, causes: list[str]
) -> None:
    unknown = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    status = {"name": "main", "restartCount": 1, "state": unknown}
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": ready_until}
    evicted = live(status, phase="Failed", reason="Evicted", conditions=[ready])
    async with playing(pods=[pod(), evicted], logs=[answer(ONE_TWO)]) as (client, _):
        items = await follow(client, make_cache())
    assert (join(items), list_causes(items)) == (b"one\ntwo\n", causes)


async def test_end_is_a_gap_when_the_container_was_restarted_twice_before_it_was_confirmed() -> None:
    states = [pod(), live(running(restarts=2, containerID="c://3"))]
    async with playing(pods=states, logs=[answer(ONE_TWO)]) as (client, _):
        items = await follow(client, make_cache())
    assert (join(items), list_causes(items)) == (b"one\ntwo\n", ["restarted"])


async def test_end_may_be_confirmed_later_when_the_pod_cannot_be_asked_for() -> None:
    states = [pod(), pod("terminated"), refuse(500, "InternalError")]
    async with playing(pods=states, logs=[answer(ONE_TWO), answer(GONE)]) as (client, _):
        with pytest.raises(EngineUnavailable):
            await follow(client, make_cache())


async def test_log_counts_as_removed_at_once_when_its_pod_was_evicted() -> None:
    cache = PlayedCache(make_pod(ended(), uid="u1", reason="Evicted", phase="Failed"))
    async with playing(pods=[pod("terminated")], logs=[answer(GONE)]) as (client, _):
        assert list_causes(await follow(client, cache)) == ["pod evicted"]


async def test_log_is_not_given_up_when_its_container_still_runs_in_a_pod_that_is_being_deleted() -> None:
    cache = PlayedCache(make_pod(running(), uid="u1", deleted=NOON))
    async with playing(pods=[pod()], logs=[answer(GONE)]) as (client, _):
        with pytest.raises(EngineUnavailable, match="unable to retrieve"):
            await follow(client, cache)


async def test_nothing_is_asked_when_the_container_restarted_twice_since() -> None:
    cache = PlayedCache(make_pod(running(restarts=2), uid="u1"))
    async with playing(pods=[pod()], logs=[answer(ONE_TWO)]) as (client, server):
        assert list_causes(await follow(client, cache)) == ["restarted"]
    assert server.requests == []


async def test_other_pod_of_that_name_is_not_read_when_the_output_is_of_an_older_one() -> None:
    async with playing(pods=[pod(uid="u2")], logs=[answer(ONE_TWO)]) as (client, _):
        items = await follow(client, make_cache())
    assert (join(items), list_causes(items)) == (b"", ["pod deleted"])


async def test_output_begins_anew_when_the_position_is_not_one() -> None:
    async with playing(pods=[pod("terminated")], logs=[answer(ONE_TWO)]) as (client, _):
        assert join(await follow(client, make_cache(), after="4711")) == b"one\ntwo\n"


class PlayedCounts:
    """A Job with a status, and a list of pods."""

    def __init__(self, *uids: str, job_uid: str = "job-uid", **status: int) -> None:
        self.uids, self.job_uid, self.status = uids, job_uid, status
        self.asked: list[str] = []

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        if request.path.endswith("/jobs/run-r1"):
            return await answer({"metadata": {"uid": self.job_uid}, "status": self.status})(request)
        items = [{"metadata": {"name": uid, "uid": uid}} for uid in self.uids]
        return await answer({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items})(request)


async def test_pods_that_nobody_saw_are_gaps_when_the_job_has_counted_them() -> None:
    counts = PlayedCounts("uid-of-pod", failed=2, active=1)
    cache = PlayedCache(make_pod(running()), job=make_job(failed=2, active=1, startTime=NOON))
    async with serve(counts.respond) as server, Client.connect(server.config()) as client:
        logs = RunLogs(client, cache, NAMESPACES)
        sources = await logs.list_log_sources(ANCHOR)
        assert [(one.pod, one.instance) for one in sources] == [
            ("run-r1-unseen", 0),
            ("run-r1-unseen", 1),
            ("pod", 0),
        ]
        assert await logs.list_log_sources(ANCHOR) == sources
        assert len(counts.asked) == 2
        assert "labelSelector=runyard.io%2Frun-uid%3Dr-uid" in counts.asked[1]
        (gap,) = await follow(client, cache, source=sources[1])
        assert isinstance(gap, LogGap)
        assert gap.cause.startswith("pod deleted")
        assert gap.since.isoformat() == "2026-11-16T12:00:00+00:00"
        assert await follow(client, cache, source=sources[1], after=gap.position) == []


async def test_no_pod_is_missing_when_only_the_cache_lags() -> None:
    counts = PlayedCounts("uid-of-pod", "new", failed=1, active=1)
    cache = PlayedCache(make_pod(running()), job=make_job(failed=1, active=1))
    async with serve(counts.respond) as server, Client.connect(server.config()) as client:
        sources = await RunLogs(client, cache, NAMESPACES).list_log_sources(ANCHOR)
    assert [one.pod for one in sources] == ["pod"]


async def test_nothing_is_asked_when_all_counted_pods_are_known() -> None:
    gone = make_pod(ended(), name="gone")
    cache = PlayedCache(make_pod(running()), job=make_job(failed=1, active=1))
    cache.lose(gone)
    async with playing(pods=[refuse(500, "InternalError")], logs=[]) as (client, server):
        assert len(await RunLogs(client, cache, NAMESPACES).list_log_sources(ANCHOR)) == 2
    assert server.requests == []


async def test_count_of_another_anchor_does_not_matter_when_the_run_was_released_anew() -> None:
    cache = PlayedCache(make_pod(running()), job=make_job(failed=7))
    other = Anchor(run_uid=RUN, run_id="r1", project="p", action="job", uid="another")
    async with playing(pods=[refuse(500, "InternalError")], logs=[]) as (client, server):
        assert [one.pod for one in await RunLogs(client, cache, NAMESPACES).list_log_sources(other)] == ["pod"]
    assert server.requests == []


async def test_flood_leaves_time_to_others_when_it_comes_in_large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    body = text(*[(1, "x" * 999)] * 400)
    async with playing(pods=[pod("terminated")], logs=[answer(body)]) as (client, _):
        monkeypatch.setattr("runyard.engines.kubernetes.log_follow.asyncio.sleep", note)
        assert len(join(await follow(client, make_cache()))) == 400_000
        large = [pause for pause in pauses if pause > 0]
        assert large
        assert max(large) <= log_follow.LONGEST_TURN_SECONDS
