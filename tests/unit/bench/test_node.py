"""The section `node` of the bench: what is judged, and what a watch says of a pod."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from bench.local.processes import Memory
from bench.node.full_node import FullNode
from bench.node.pod_starts import Side, Starts
from bench.node.pod_watch import PodWatch
from bench.node.section import SMALL, Figures, make_section
from bench.node.throughput import Stream


def test_every_goal_is_judged_when_all_was_measured() -> None:
    starts = Starts(
        direct=Side(bound=[0.01, 0.02, 0.03], running=[1.0, 2.0, 3.0]),
        virtual=Side(bound=[0.06, 0.05, 0.04], running=[1.1, 2.4, 3.5]),
        remote=Side(bound=[0.1, 0.1, 0.1], running=[1.0, 2.3, 3.6]),
    )
    streams = [
        Stream("exec", 10_000_000, direct=[4.0, 1.0, 2.0], virtual=[2.0, 3.0, 2.5]),
        Stream("log", 10_000_000, direct=[1.0], virtual=[1.0]),
    ]
    full = FullNode(1000, Memory(5e7, None), Memory(2.1e8, None), 20.0, 0.01, 0.02)
    section = make_section(Figures(starts, streams, full, [0.9]), SMALL)
    assert [(round(goal.value, 2), goal.text, goal.is_met) for goal in section.goals] == [
        (50.0, "≤ 300", True),
        (400.0, "≤ 300", False),
        (0.8, "≥ 0.9", False),
        (1.0, "≥ 0.9", True),
        (210.0, "≤ 200", False),
    ]
    assert [round(seconds, 2) for seconds in starts.returns] == [0.0, 0.1, 0.1]
    assert [table.title for table in section.tables] == [
        "ms after the create was sent, real containers",
        "bytes of a container to kubectl",
        "a full node, KWOK at the provider",
    ]


class RecordedApi:
    """A watch that shows what was recorded."""

    async def watch(self, path: str, *, on_open: Callable[[], None]) -> AsyncIterator[bytes]:
        on_open()
        spec, running = {"nodeName": "n"}, {"phase": "Running"}
        for kind, pod in (
            ("ADDED", {"metadata": {"name": "a"}, "spec": {}, "status": {"phase": "Pending"}}),
            ("MODIFIED", {"metadata": {"name": "a"}, "spec": spec, "status": {"phase": "Pending"}}),
            ("MODIFIED", {"metadata": {"name": "a"}, "spec": spec, "status": running}),
            ("ADDED", {"metadata": {"name": "b"}, "spec": {}}),
            ("DELETED", {"metadata": {"name": "b"}, "spec": {}}),
        ):
            yield json.dumps({"type": kind, "object": pod}).encode()


async def test_moments_of_each_pod_are_kept_when_a_watch_shows_them() -> None:
    watch = PodWatch(RecordedApi(), namespace="default")  # type: ignore[arg-type] # the part that it uses
    await asyncio.wait_for(watch.follow(), 5)
    a, b = watch.get("a"), watch.get("b")
    assert await a.bound.wait() <= await a.running.wait()
    assert (a.gone.at, b.bound.at, watch.running) == (None, None, 1)
    assert b.gone.at is not None
    await watch.wait_running(1, seconds=5)
