"""Listeners hear of changes and of the death of supervisors."""

import asyncio
import os
import signal
import socket
from pathlib import Path

from runyard.procs import Listener, Plan, is_supervised, read_state
from runyard.procs.listener import MOST_PENDING
from tests.unit.procs.lab import Lab, shell


async def next_ended(listener: Listener, folder: Path) -> None:
    async with asyncio.timeout(60):
        async for each in listener:
            state = read_state(folder)
            if each == folder and state is not None and state.is_ended:
                return


async def test_end_is_heard_when_somebody_listens(lab: Lab) -> None:
    listener = Listener(lab.listeners)
    folder = lab.start(Plan(main=shell("sleep 0.2")))
    await next_ended(listener, folder)
    listener.close()
    listener.close()
    assert list(lab.listeners.iterdir()) == []


async def test_change_is_heard_by_all_when_several_listen(lab: Lab) -> None:
    listeners = [Listener(lab.listeners) for _ in range(3)]
    folder = lab.start(Plan(main=shell("true")))
    await asyncio.gather(*(next_ended(listener, folder) for listener in listeners))
    for listener in listeners:
        listener.close()


async def test_end_is_heard_when_the_listener_came_later(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 0.5")))
    lab.wait(folder, lambda state: state.phase == "running")
    listener = Listener(lab.listeners)
    await next_ended(listener, folder)
    listener.close()


async def test_path_may_be_long_when_sockets_have_short_addresses(lab: Lab) -> None:
    lab.listeners = lab.folder / ("x" * 100) / ("y" * 100)
    listener = Listener(lab.listeners)
    folder = lab.start(Plan(main=shell("true")))
    await next_ended(listener, folder)
    listener.close()


async def test_death_is_heard_when_a_supervisor_is_killed(lab: Lab) -> None:
    listener = Listener(lab.listeners)
    folder = lab.start(Plan(main=shell("sleep 61")))
    assert listener.watch(folder, pid=lab.pid(folder))
    assert listener.watch(folder)
    lab.wait(folder, lambda state: state.phase == "running")
    os.kill(lab.pid(folder), signal.SIGKILL)
    async with asyncio.timeout(60):
        while is_supervised(folder):
            assert await anext(listener) == folder
    listener.close()


async def test_death_is_heard_when_the_state_names_the_supervisor(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 61")))
    lab.wait(folder, lambda state: state.phase == "running")
    listener = Listener(lab.listeners)
    assert listener.watch(folder)
    os.kill(lab.pid(folder), signal.SIGKILL)
    async with asyncio.timeout(60):
        assert await anext(listener) == folder
    listener.close()


async def test_there_is_nothing_to_watch_when_the_supervisor_is_gone(lab: Lab) -> None:
    folder, _ = lab.run(Plan(main=shell("true")))
    lab.reap(folder)
    listener = Listener(lab.listeners)
    assert not listener.watch(folder)
    assert not listener.watch(lab.folder / "missing")
    listener.close()


async def test_socket_is_removed_when_its_listener_was_killed(lab: Lab) -> None:
    lab.listeners.mkdir()
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    descriptor = os.open(lab.listeners, os.O_PATH)
    dead.bind(f"/proc/self/fd/{descriptor}/dead.sock")
    os.close(descriptor)
    dead.close()
    lab.run(Plan(main=shell("true")))
    assert list(lab.listeners.iterdir()) == []


async def test_news_arrive_when_the_queue_was_full(lab: Lab) -> None:
    listener = Listener(lab.listeners)
    folders = [lab.start(Plan(main=shell("true")), name=f"run-{number}") for number in range(8)]
    (path,) = lab.listeners.iterdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        descriptor = os.open(lab.listeners, os.O_PATH)
        try:
            while True:
                sender.sendto(b"/noise", f"/proc/self/fd/{descriptor}/{path.name}")
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)
    for folder in folders:
        lab.wait(folder)
    heard: set[Path | None] = set()
    async with asyncio.timeout(60):
        while not heard >= set(folders):
            heard.add(await anext(listener))
    listener.close()


async def test_everything_is_to_be_looked_at_when_too_much_has_changed(lab: Lab) -> None:
    listener = Listener(lab.listeners)
    for number in range(MOST_PENDING + 5):
        listener._add(Path(f"/{number}"))
    heard = [await anext(listener) for _ in range(MOST_PENDING + 1)]
    assert heard[-1] is None
    assert heard[:2] == [Path("/0"), Path("/1")]
    listener.close()
