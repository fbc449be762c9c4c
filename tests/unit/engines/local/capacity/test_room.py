import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.engines.local.capacity import claim_journal
from runyard.engines.local.capacity.claim_journal import Claim
from runyard.engines.local.capacity.machine import Gpu, Machine
from runyard.engines.local.capacity.room import ORPHANED_SECONDS, Room, Share, Shortage
from runyard.pods.demand import pod_requests

GIB = 1 << 30


class Lab:
    """Rooms of several engines over one folder. A supervision lives as long as its folder has the file `alive`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1000.0
        self.machine = Machine(
            hostname="here", architecture="amd64", cpu_millis=2000, memory_bytes=8 * GIB, folder=folder
        )
        self._rooms: list[Room] = []

    def open(self, **changes: Any) -> Room:
        room = Room(
            self.folder / "room",
            replace(self.machine, **changes),
            is_supervised=is_supervised,
            clock=lambda: self.now,
        ).open()
        self._rooms.append(room)
        return room

    def claim(self, number: int, **demand: int) -> Claim:
        demand = {
            name.replace("gpu", "nvidia.com/gpu").replace("disk", "ephemeral-storage"): n for name, n in demand.items()
        }
        supervision = self.folder / "runs" / f"run-{number}"
        return Claim(run_uid=f"run-{number}", sequence=number, demand=demand | {"pods": 1}, supervision=supervision)

    def start(self, room: Room, claim: Claim) -> Share:
        share = room.take(claim)
        assert isinstance(share, Share), share
        claim.supervision.mkdir(parents=True, exist_ok=True)
        (claim.supervision / "alive").touch()
        room.confirm(claim.run_uid)
        return share

    def end(self, claim: Claim) -> None:
        (claim.supervision / "alive").unlink()

    def close(self) -> None:
        for room in self._rooms:
            room.close()


def is_supervised(folder: Path) -> bool:
    return (folder / "alive").exists()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.close()


def wait(room: Room, claim: Claim) -> Shortage:
    shortage = room.take(claim)
    assert isinstance(shortage, Shortage), shortage
    return shortage


def uids(shares: tuple[Share, ...]) -> list[str]:
    return [share.run_uid for share in shares]


def test_run_waits_with_figures_when_another_has_the_cores(lab: Lab) -> None:
    room = lab.open()
    lab.start(room, lab.claim(1, cpu=1500, memory=GIB))
    shortage = wait(room, lab.claim(2, cpu=1000, memory=GIB))
    assert str(shortage) == "waits for cpu (asks for 1; 500m of 2 free); 0 runs wait before it"
    assert not shortage.is_impossible
    assert room.list_shortages() == {"run-2": shortage}


def test_run_starts_when_the_one_before_has_ended(lab: Lab) -> None:
    room = lab.open()
    first = lab.claim(1, cpu=2000)
    lab.start(room, first)
    wait(room, lab.claim(2, cpu=1000))
    assert room.retry() == ()
    lab.end(first)
    assert uids(room.retry()) == ["run-2"]
    assert room.list_shortages() == {}


def test_room_is_free_when_a_run_ended_while_no_server_lived(lab: Lab) -> None:
    first = lab.claim(1, cpu=2000)
    before = lab.open()
    lab.start(before, first)
    before.close()
    lab.end(first)
    assert lab.start(lab.open(), lab.claim(2, cpu=2000)).run_uid == "run-2"


def test_room_stays_taken_when_the_server_dies_and_the_run_lives(lab: Lab) -> None:
    before = lab.open()
    lab.start(before, lab.claim(1, cpu=2000))
    before.close()
    assert [lack.free for lack in wait(lab.open(), lab.claim(2, cpu=1000)).lacks] == [0]


def test_room_is_free_when_the_engine_dies_before_the_start(lab: Lab) -> None:
    before = lab.open()
    assert isinstance(before.take(lab.claim(1, cpu=2000)), Share)
    after = lab.open()
    wait(after, lab.claim(2, cpu=1000))
    before.close()
    assert uids(after.retry()) == ["run-2"]


def test_room_is_free_when_it_is_given_back(lab: Lab) -> None:
    room = lab.open()
    assert isinstance(room.take(lab.claim(1, cpu=2000)), Share)
    wait(room, lab.claim(2, cpu=1000))
    room.give_back("run-1")
    room.give_back("run-1")
    assert uids(room.retry()) == ["run-2"]


def test_share_is_the_same_when_it_is_taken_twice(lab: Lab) -> None:
    room = lab.open(gpus=(Gpu("GPU-a"), Gpu("GPU-b")))
    claim = lab.claim(1, gpu=1)
    share = lab.start(room, claim)
    assert room.take(claim) == share
    assert len(room.snapshot().pods) == 1


def test_room_is_taken_anew_when_a_service_is_resumed(lab: Lab) -> None:
    room = lab.open()
    claim = lab.claim(1, cpu=2000)
    lab.start(room, claim)
    lab.end(claim)
    lab.start(room, replace(claim, supervision=lab.folder / "runs" / "run-1" / "2"))
    assert [lack.free for lack in wait(room, lab.claim(2, cpu=1000)).lacks] == [0]


def test_large_run_is_not_starved_when_small_ones_follow(lab: Lab) -> None:
    room = lab.open()
    first = lab.claim(1, cpu=1000)
    lab.start(room, first)
    wait(room, lab.claim(2, cpu=2000))
    small = wait(room, lab.claim(3, cpu=500))
    assert str(small) == "waits for its turn; 1 run waits before it"
    lab.end(first)
    assert uids(room.retry()) == ["run-2"]


def test_later_run_starts_when_it_needs_nothing_of_what_earlier_ones_wait_for(lab: Lab) -> None:
    room = lab.open(gpus=(Gpu("GPU-a"),))
    lab.start(room, lab.claim(1, gpu=1))
    wait(room, lab.claim(2, gpu=1, cpu=500))
    lab.start(room, lab.claim(3, cpu=1500))
    assert str(wait(room, lab.claim(4, cpu=500))) == "waits for its turn; 1 run waits before it"


def test_order_is_that_of_the_sequence_when_runs_come_in_another_order(lab: Lab) -> None:
    room = lab.open()
    first = lab.claim(1, cpu=2000)
    lab.start(room, first)
    for number in (4, 2, 3):
        wait(room, lab.claim(number, cpu=1000))
    lab.end(first)
    assert uids(room.retry()) == ["run-2", "run-3"]
    lacks = wait(room, lab.claim(4, cpu=1000)).lacks
    assert room.list_shortages() == {"run-4": Shortage(is_impossible=False, lacks=lacks)}


def test_nobody_is_held_back_when_a_run_is_larger_than_the_machine(lab: Lab) -> None:
    room = lab.open()
    shortage = wait(room, lab.claim(1, cpu=64000, gpu=1))
    assert shortage.is_impossible
    assert str(shortage) == (
        "asks for more than this machine has: cpu (asks for 64; the machine has 2),"
        " nvidia.com/gpu (asks for 1; the machine has 0)"
    )
    lab.start(room, lab.claim(2, cpu=2000))
    assert room.list_shortages() == {}


def test_resources_are_counted_when_a_shortage_has_too_many_to_name(lab: Lab) -> None:
    demand = {f"example.com/r{number}": 1 for number in range(10)}
    shortage = wait(lab.open(), replace(lab.claim(1), demand=demand))
    assert str(shortage).count("example.com") == 8
    assert str(shortage).endswith(" and 2 more")


def test_runs_without_requests_wait_when_the_machine_has_the_most(lab: Lab) -> None:
    room = lab.open(most_runs=2)
    for number in (1, 2):
        lab.start(room, lab.claim(number))
    assert str(wait(room, lab.claim(3))) == "waits for runs (asks for 1; 0 of 2 free); 0 runs wait before it"


def test_disk_is_promised_when_a_run_has_written_nothing_yet(lab: Lab) -> None:
    room = lab.open()
    size, free = lab.machine.measure_disk()
    lab.start(room, lab.claim(1, disk=free * 3 // 4))
    assert [lack.resource for lack in wait(room, lab.claim(2, disk=free // 2)).lacks] == ["ephemeral-storage"]
    assert wait(room, lab.claim(3, disk=size + 1)).is_impossible


def test_gpus_are_given_once_when_runs_share_the_machine(lab: Lab) -> None:
    gpus = (Gpu("GPU-a"), Gpu("GPU-b"), Gpu("GPU-c"))
    one, other = lab.open(gpus=gpus), lab.open(gpus=gpus)
    first = lab.start(one, lab.claim(1, gpu=2))
    second = lab.start(other, lab.claim(2, gpu=1))
    assert set(first.gpus) | set(second.gpus) == set(gpus)
    assert wait(other, lab.claim(3, gpu=1)).lacks[0].free == 0


def test_other_engine_waits_when_an_earlier_run_waits_here(lab: Lab) -> None:
    here, there = lab.open(), lab.open()
    first = lab.claim(1, cpu=1000)
    lab.start(here, first)
    wait(here, lab.claim(2, cpu=2000))
    assert wait(there, lab.claim(3, cpu=1000)).before == 1
    lab.end(first)
    assert there.retry() == ()
    assert uids(here.retry()) == ["run-2"]


def test_turn_is_kept_when_the_engine_of_a_waiting_run_is_restarted(lab: Lab) -> None:
    before, other = lab.open(), lab.open()
    first = lab.claim(1, cpu=2000)
    lab.start(other, first)
    wait(before, lab.claim(2, cpu=2000))
    wait(other, lab.claim(3, cpu=2000))
    before.close()
    assert other.retry() == ()
    lab.now += ORPHANED_SECONDS - 1
    lab.end(first)
    assert other.retry() == ()
    after = lab.open()
    assert isinstance(after.take(lab.claim(2, cpu=2000)), Share)


def test_turn_is_lost_when_the_engine_of_a_waiting_run_does_not_come_back(lab: Lab) -> None:
    before, other = lab.open(), lab.open()
    first = lab.claim(1, cpu=2000)
    lab.start(other, first)
    wait(before, lab.claim(2, cpu=2000))
    wait(other, lab.claim(3, cpu=2000))
    before.close()
    lab.end(first)
    assert other.retry() == ()
    lab.now += ORPHANED_SECONDS + 1
    assert uids(other.retry()) == ["run-3"]


def test_first_of_this_engine_are_explained_when_many_wait(lab: Lab) -> None:
    room, other = lab.open(), lab.open()
    lab.start(room, lab.claim(1, cpu=2000))
    wait(other, lab.claim(2, cpu=1000))
    for number in range(3, 8):
        wait(room, lab.claim(number, cpu=1000))
    found = room.list_shortages(most=3)
    assert [(uid, shortage.before) for uid, shortage in found.items()] == [("run-3", 1), ("run-4", 2), ("run-5", 3)]


def test_snapshot_has_a_node_and_a_pod_per_active_run_when_some_wait(lab: Lab) -> None:
    room = lab.open(gpus=(Gpu("GPU-a"),))
    lab.start(room, lab.claim(1, cpu=1500, memory=GIB, gpu=1))
    wait(room, lab.claim(2, cpu=1000))
    snapshot = room.snapshot()
    (node,), (pod,) = snapshot.nodes, snapshot.pods
    assert (
        node["status"]["allocatable"].items()
        >= {"cpu": "2", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "1"}.items()
    )
    assert node["metadata"]["labels"] == {
        "kubernetes.io/hostname": "here",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    assert pod["spec"]["nodeName"] == "here"
    amounts = {name: amount.text for name, amount in pod_requests(pod).items()}
    assert amounts == {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    "cut", [b'{"run": "run-9", "sta', b"\x00\xff garbage", b"[1]\n", b'{"run": {}, "state": "waiting"}\n']
)
def test_claims_are_read_when_the_journal_has_a_line_that_a_crash_cut(lab: Lab, cut: bytes) -> None:
    room = lab.open()
    lab.start(room, lab.claim(1, cpu=2000))
    with (lab.folder / "room" / "journal").open("ab") as journal:
        journal.write(cut)
    wait(room, lab.claim(2, cpu=1000))
    assert wait(lab.open(), lab.claim(3, cpu=1000)).before == 1
    assert wait(room, lab.claim(4, cpu=1000)).before == 2
    assert len(room.snapshot().pods) == 1


def test_journal_is_written_anew_when_it_has_grown(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_journal, "LARGEST_JOURNAL_BYTES", 4000)
    room, other = lab.open(), lab.open()
    lab.start(other, lab.claim(1, cpu=2000))
    wait(other, lab.claim(2, cpu=1000))
    for _ in range(100):
        wait(room, lab.claim(3, cpu=1000))
        room.give_back("run-3")
    assert (lab.folder / "room" / "journal").stat().st_size < 5000
    assert list(other.list_shortages()) == ["run-2"]
    assert len(other.snapshot().pods) == 1


def test_room_refuses_when_it_is_closed(lab: Lab) -> None:
    room = lab.open()
    room.close()
    room.close()
    with pytest.raises(RuntimeError, match="not open"):
        room.retry()


def _take_in_a_loop(lab_folder: Path, number: int, results: Any, barrier: Any) -> None:
    lab = Lab(lab_folder)
    room = lab.open()
    barrier.wait()
    for attempt in range(50):
        claim = lab.claim(number * 1000 + attempt, cpu=1000)
        outcome = room.take(claim)
        results.put((claim.run_uid, isinstance(outcome, Share)))
        if isinstance(outcome, Share):
            claim.supervision.mkdir(parents=True)
            (claim.supervision / "alive").touch()
            room.confirm(claim.run_uid)
        else:
            room.give_back(claim.run_uid)
    barrier.wait()


def _run_processes(target: Callable[..., None], *args: Any, count: int) -> list[Any]:
    context = multiprocessing.get_context("spawn")
    results, barrier = context.SimpleQueue(), context.Barrier(count)
    processes = [context.Process(target=target, args=(*args, n, results, barrier)) for n in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    got = []
    while not results.empty():
        got.append(results.get())
    return got


def test_each_core_is_given_once_when_engines_take_it_at_the_same_time(lab: Lab) -> None:
    results = _run_processes(_take_in_a_loop, lab.folder, count=3)
    assert len(results) == 150
    assert sum(is_share for _, is_share in results) == 2
    assert len(lab.open().snapshot().pods) == 2


def _take_and_hang(lab_folder: Path, ready: Any) -> None:
    lab = Lab(lab_folder)
    lab.open().take(lab.claim(1, cpu=2000))
    ready.put(os.getpid())
    signal.pause()


def test_room_is_free_when_an_engine_is_killed_before_the_start(lab: Lab) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.SimpleQueue()
    process = context.Process(target=_take_and_hang, args=(lab.folder, ready))
    process.start()
    pid = ready.get()
    room = lab.open()
    wait(room, lab.claim(2, cpu=1000))
    os.kill(pid, signal.SIGKILL)
    process.join(30)
    assert uids(room.retry()) == ["run-2"]
