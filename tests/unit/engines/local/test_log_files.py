"""Output of processes, read from the files of their supervisors."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runyard.app.engine import LogChunk, LogGap, LogSource
from runyard.engines.local.folders.run_folders import AnchorRecord, RunFolder
from runyard.engines.local.log_files import LARGEST_CHUNK_BYTES, STATE_SECONDS, follow, has_ended, list_sources
from runyard.procs.state import Instance, State
from runyard.procs.supervision import write_state

NOW = datetime(2026, 11, 16, tzinfo=UTC)
SOURCE = LogSource(run_uid="r", pod="run-r1-1", container="main")
ANCHOR = AnchorRecord(
    place="a", uid="u", run_uid="r", run_id="r1", project="p", action="job", name="run-r1", sequence=1
)


class Supervision:
    """The files of a supervision, as a supervisor writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "log").mkdir(parents=True)
        self.news = object()
        self.waits: list[float] = []
        self.at_wait: Callable[[], None] = lambda: None

    def write_state(self, *instances: dict[str, Any], phase: str = "running") -> None:
        known = [{"pid": 1, "started_at": 0.0, "instance": 0, **one} for one in instances]
        write_state(self.folder, {"version": 1, "phase": phase, "mark": "m", "instances": known})
        self.news = object()

    def write(self, content: bytes, name: str = "main.0") -> None:
        with (self.folder / "log" / name).open("ab") as file:
            file.write(content)

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at_wait()
        await asyncio.sleep(0)

    async def read(self, after: str | None = None) -> list[LogChunk | LogGap]:
        wait: Callable[[float], Awaitable[None]] = self.wait
        async with asyncio.timeout(60):
            items = follow(self.folder, SOURCE, after=after, wait=wait, get_news=lambda: self.news)
            return [item async for item in items]


@pytest.fixture
def supervision(tmp_path: Path) -> Supervision:
    made = Supervision(tmp_path / "releases" / "1" / "supervision")
    made.write_state({"command": "main"})
    return made


def join(items: list[LogChunk | LogGap]) -> bytes:
    return b"".join(item.content for item in items if isinstance(item, LogChunk))


async def test_output_is_read_to_its_end_when_it_ends_while_it_is_followed(supervision: Supervision) -> None:
    def end() -> None:
        supervision.write(b"last")
        supervision.write_state({"command": "main", "ended_at": 1.0, "exit_code": 0})

    supervision.write(b"first ")
    supervision.at_wait = end
    assert join(await supervision.read()) == b"first last"


async def test_end_is_noticed_in_time_when_its_news_got_lost(supervision: Supervision) -> None:
    def end_in_silence() -> None:
        news = supervision.news
        supervision.write_state({"command": "main", "ended_at": 1.0, "exit_code": 0})
        supervision.news = news

    supervision.write(b"all")
    supervision.at_wait = end_in_silence
    assert join(await supervision.read()) == b"all"
    assert sum(supervision.waits) <= STATE_SECONDS + max(supervision.waits)


async def test_chunks_are_bounded_and_positions_continue_when_output_is_large(supervision: Supervision) -> None:
    content = bytes(range(256)) * 2000
    supervision.write(content)
    supervision.write_state({"command": "main", "ended_at": 1.0})
    items = await supervision.read()
    assert join(items) == content
    assert all(isinstance(item, LogChunk) and len(item.content) <= LARGEST_CHUNK_BYTES for item in items)
    assert join(await supervision.read(after=items[0].position)) == content[LARGEST_CHUNK_BYTES:]


async def test_gap_says_how_much_is_missing_when_output_was_dropped(supervision: Supervision) -> None:
    supervision.write(b"kept")
    supervision.write_state({"command": "main", "ended_at": 1.0, "dropped_bytes": 4711})
    *chunks, gap = await supervision.read()
    assert join(chunks) == b"kept"
    assert isinstance(gap, LogGap)
    assert "4711 bytes" in gap.cause


async def test_gap_says_so_when_the_file_was_cut_or_is_gone(supervision: Supervision) -> None:
    supervision.write(b"short")
    supervision.write_state({"command": "main", "ended_at": 1.0})
    (gap,) = await supervision.read(after="100")
    assert isinstance(gap, LogGap)
    assert (gap.cause, gap.position) == ("the file of the log was cut", "5")
    (supervision.folder / "log" / "main.0").unlink()
    (gone,) = await supervision.read()
    assert isinstance(gone, LogGap)
    assert gone.cause == "the files of the run are gone"


async def test_nothing_is_read_when_the_log_is_a_link(supervision: Supervision, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (supervision.folder / "log" / "main.0").symlink_to(tmp_path / "secret")
    (gap,) = await supervision.read()
    assert isinstance(gap, LogGap)


def test_sources_are_steps_first_and_restarts_in_order_when_they_are_listed(supervision: Supervision) -> None:
    supervision.write_state({"command": "environment", "ended_at": 1.0}, {"command": "main"})
    for name in ("main.10", "main.9", "environment.0", "main.0", ".hidden", "odd", "x.y"):
        supervision.write(b"", name)
    folder = RunFolder(supervision.folder.parents[2])
    sources = list_sources(folder, ANCHOR, 2)
    assert [(one.pod, one.container, one.instance) for one in sources] == [
        ("run-r1-1", "environment", 0),
        ("run-r1-1", "main", 0),
        ("run-r1-1", "main", 9),
        ("run-r1-1", "main", 10),
    ]


@pytest.mark.parametrize(
    ("phase", "instances", "expected"),
    [
        ("running", [{"instance": 0}], False),
        ("running", [{"instance": 0, "ended_at": NOW}], True),
        ("running", [{"instance": 5}], True),
        ("starting", [], False),
        ("ended", [], True),
    ],
)
def test_output_has_ended_when_its_instance_has(phase: Any, instances: list[dict[str, Any]], expected: bool) -> None:
    made = tuple(Instance(command="main", pid=1, started_at=NOW, **one) for one in instances)
    state = State(version=1, phase=phase, mark="m", instances=made)
    assert has_ended(state, SOURCE) is expected
