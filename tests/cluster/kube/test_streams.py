"""Logs, exec, attach and port-forward through a real apiserver, kubelet and container runtime."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.errors import DeadlineExceeded, Disconnected, KubeError, NotFound, ServerError, Unavailable
from runyard.kube.resources import PODS
from runyard.kube.streams import (
    CommandNotFound,
    CommandNotStarted,
    ContainerUnspecified,
    ContainerWaiting,
    ExecResult,
    LogGap,
    LogLine,
    LogPosition,
    LogsUnavailable,
    LogsUnconfirmed,
    NotRunning,
    Output,
    OutputTooLarge,
    PortRefused,
    PreviousNotFound,
    UnknownContainer,
    attach_to_pod,
    exec_in_pod,
    follow_logs,
    forward_port,
    listen_and_forward,
    read_logs,
    run_command,
)
from testbed.cluster import Cluster
from testbed.site import Options
from tests.cluster.kube.conditions import wait_until
from tests.cluster.testbed.manifests import container, pod

SLEEP = "trap 'exit 0' TERM; sleep 600 & wait"
LARGE_BYTES = 200_000_000
PIECE_BYTES = 1 << 16


class Yard:
    """One namespace of the cluster, for short sentences."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def create(self, body: dict[str, Any]) -> None:
        await self.client.create(PODS, body, namespace=self.namespace)

    async def start(self, body: dict[str, Any]) -> None:
        """Create a pod and wait until its containers have started."""
        await self.create(body)
        name = body["metadata"]["name"]

        async def has_started() -> bool:
            return (await self.status(name)).get("phase") not in (None, "Pending")

        await wait_until(has_started)

    async def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = (await self.client.get(PODS, name, namespace=self.namespace))["status"]
        return status

    async def phase_is(self, name: str, *phases: str) -> bool:
        return (await self.status(name))["phase"] in phases

    async def run(self, name: str, *command: str, **options: Any) -> ExecResult:
        return await run_command(self.client, name, command, namespace=self.namespace, **options)

    async def read(self, name: str, **options: Any) -> list[LogLine]:
        async with read_logs(self.client, name, namespace=self.namespace, **options) as lines:
            return [line async for line in lines]

    async def texts(self, name: str, **options: Any) -> list[bytes]:
        return [line.text for line in await self.read(name, **options)]

    async def follow(self, name: str, **options: Any) -> list[bytes]:
        async with follow_logs(self.client, name, namespace=self.namespace, **options) as lines:
            return [line.text async for line in lines]


@pytest.fixture
def yard(client: Client, namespace: str) -> Yard:
    return Yard(client, namespace)


async def test_lines_come_while_the_container_runs_when_its_log_is_followed(yard: Yard) -> None:
    await yard.start(pod("p", "echo one; echo two >&2; until [ -e /tmp/go ]; do sleep 0.1; done; printf three"))
    async with follow_logs(yard.client, "p", namespace=yard.namespace) as lines:
        assert {(await anext(lines)).text, (await anext(lines)).text} == {b"one", b"two"}
        assert (await yard.run("p", "touch", "/tmp/go")).exit_code == 0
        assert [(line.text, line.is_complete) async for line in lines] == [(b"three", False)]
    assert sorted(await yard.texts("p")) == [b"one", b"three", b"two"]
    assert sorted(await yard.follow("p")) == [b"one", b"three", b"two"]


async def test_lines_come_once_when_a_log_is_taken_up_in_the_middle(yard: Yard) -> None:
    await yard.start(pod("p", "for i in $(seq 1000); do echo $i; echo $i >&2; done; sleep 1; echo end"))
    whole = await yard.follow("p")
    assert len(whole) == 2001
    position: LogPosition | None = None
    for index, line in enumerate(await yard.read("p"), start=1):
        position = LogPosition.after(line, position)
        if index in (1, 2, 777, 1500, 2000, 2001):
            assert await yard.follow("p", after=position) == whole[index:]


async def test_part_of_a_log_comes_when_only_part_is_asked_for(yard: Yard) -> None:
    await yard.start(pod("p", "for i in 1 2 3; do echo $i; sleep 0.05; done"))
    await wait_until(lambda: yard.phase_is("p", "Succeeded"))
    lines = await yard.read("p")
    assert [line.text for line in lines] == [b"1", b"2", b"3"]
    assert lines[0].written_ns < lines[1].written_ns < lines[2].written_ns
    assert await yard.texts("p", since_ns=lines[1].written_ns) == [b"2", b"3"]
    assert await yard.texts("p", since_ns=lines[1].written_ns + 1) == [b"3"]
    assert await yard.texts("p", tail_lines=1) == [b"3"]
    assert await yard.texts("p", limit_bytes=3) == [b"1", b"2"]


async def start_restarting(yard: Yard) -> None:
    """A pod whose container ends once, when it is told to, and runs again at once; each instance prints a line."""
    script = "until [ -e /shared/go ]; do sleep 0.1; done; cat /proc/uptime; mkdir /shared/again 2>/dev/null && exit 1"
    volume = {"volumes": [{"name": "shared", "emptyDir": {}}], "restartPolicy": "Always"}
    mount = [{"name": "shared", "mountPath": "/shared"}]
    await yard.start(pod("p", f"{script}; {SLEEP}", spec=volume, volumeMounts=mount))


async def test_the_instance_before_has_its_own_log_when_a_container_restarts(yard: Yard) -> None:
    await start_restarting(yard)
    with pytest.raises(PreviousNotFound):
        await yard.read("p", previous=True)
    async with follow_logs(yard.client, "p", namespace=yard.namespace) as log:
        await yard.run("p", "touch", "/shared/go")
        first = [line.text async for line in log]
    assert len(first) == 1

    async def has_restarted() -> bool:
        restarts: int = (await yard.status("p"))["containerStatuses"][0]["restartCount"]
        return restarts == 1

    await wait_until(has_restarted)
    async with follow_logs(yard.client, "p", namespace=yard.namespace, instance=1) as log:
        second = (await anext(log)).text
        assert second not in first
        assert log.position is not None
        assert log.position.restart_count == 1
    assert await yard.texts("p", previous=True) == first
    assert await yard.texts("p") == [second]
    assert await yard.follow("p", instance=0) == first


async def test_an_old_position_stays_with_its_instance_when_a_container_restarts(yard: Yard) -> None:
    await start_restarting(yard)
    async with follow_logs(yard.client, "p", namespace=yard.namespace) as log:
        await yard.run("p", "touch", "/shared/go")
        first = await anext(log)
        position = log.position
    assert position is not None
    assert (position.count, position.restart_count) == (1, 0)
    # All that this instance wrote was read: nothing is missing, nothing of the next one comes, and nothing is rotated.
    assert await yard.follow("p", after=LogPosition.parse(str(position))) == []
    begin = LogPosition(0, 0, position.container_id, position.restart_count)
    assert await yard.follow("p", after=begin) == [first.text]


async def test_every_instance_is_read_once_when_a_container_crashes_at_once(yard: Yard) -> None:
    await yard.create(pod("p", "echo $HOSTNAME $(cat /proc/uptime); exit 3", spec={"restartPolicy": "Always"}))
    read: dict[int, list[bytes]] = {}

    async def read_instance(number: int) -> bool:
        try:
            read[number] = await yard.follow("p", instance=number)
        except ContainerWaiting:
            return False
        return True

    for number in range(3):
        await wait_until(lambda number=number: read_instance(number))  # type: ignore[misc]
    texts = [text for lines in read.values() for text in lines]
    assert [len(lines) for lines in read.values()] == [1, 1, 1]
    assert len(set(texts)) == 3

    with pytest.raises(LogsUnavailable) as caught:
        await yard.follow("p", instance=0)
    assert caught.value.gap is not None
    assert caught.value.gap.cause == "restarted"


async def test_the_gap_is_named_when_the_pod_was_deleted_meanwhile(yard: Yard) -> None:
    await yard.start(pod("p", f"echo words; {SLEEP}"))
    uid = (await yard.client.get(PODS, "p", namespace=yard.namespace))["metadata"]["uid"]
    async with follow_logs(yard.client, "p", namespace=yard.namespace, uid=uid) as log:
        line = await anext(log)
        position = log.position
    await yard.client.delete(PODS, "p", namespace=yard.namespace, grace_period_seconds=0)
    await yard.start(pod("p", f"echo other words; {SLEEP}"))
    with pytest.raises(LogsUnavailable) as caught:
        await yard.follow("p", uid=uid, after=position)
    assert caught.value.gap == LogGap(line.written_ns, None, "pod deleted")


async def test_a_lost_log_is_an_error_and_not_a_log_when_its_pod_was_deleted(yard: Yard) -> None:
    body = pod("p", f"echo words; {SLEEP}")
    body["metadata"]["finalizers"] = ["runyard.test/hold"]
    await yard.start(body)
    await yard.client.delete(PODS, "p", namespace=yard.namespace)

    async def is_lost() -> bool:
        try:
            return await yard.texts("p") != [b"words"]
        except LogsUnavailable as error:
            return error.message.startswith("unable to retrieve container logs for containerd://")

    try:
        await wait_until(is_lost)
        with pytest.raises(LogsUnavailable):
            await yard.follow("p")
    finally:
        await yard.client.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=yard.namespace)


async def test_the_kubelet_s_words_are_a_line_when_a_program_prints_them(yard: Yard) -> None:
    sentence = f"unable to retrieve container logs for containerd://{64 * 'a'}"
    await yard.start(pod("p", f"printf '{sentence}'"))
    assert await yard.follow("p") == [sentence.encode()]


async def test_every_line_was_read_when_the_pod_is_deleted_while_it_is_followed(yard: Yard) -> None:
    await yard.start(pod("p", "trap 'echo last; exit 0' TERM; echo first; sleep 600 & wait"))
    async with follow_logs(yard.client, "p", namespace=yard.namespace) as lines:
        assert (await anext(lines)).text == b"first"
        await yard.client.delete(PODS, "p", namespace=yard.namespace, grace_period_seconds=5)
        assert (await anext(lines)).text == b"last"
        # Whether the kubelet removes the log before it can be read again is a matter of milliseconds.
        with suppress(LogsUnconfirmed):
            assert [line async for line in lines] == []


async def test_the_follow_ends_after_its_container_when_the_log_goes_with_the_pod(yard: Yard) -> None:
    """So its times tell a log that was read to its end from one whose kubelet died before that."""
    body = pod("p", "trap 'echo last; exit 0' TERM; echo first; sleep 600 & wait")
    body["metadata"]["finalizers"] = ["runyard.test/hold"]
    await yard.start(body)
    unconfirmed: LogsUnconfirmed | None = None
    try:
        async with follow_logs(yard.client, "p", namespace=yard.namespace) as lines:
            assert (await anext(lines)).text == b"first"
            await yard.client.delete(PODS, "p", namespace=yard.namespace, grace_period_seconds=5)
            assert (await anext(lines)).text == b"last"
            try:
                await drain(lines)
            except LogsUnconfirmed as error:
                unconfirmed = error
        (status,) = (await yard.status("p"))["containerStatuses"]
        finished_ns = datetime.fromisoformat(status["state"]["terminated"]["finishedAt"]).timestamp() * 1e9
    finally:
        await yard.client.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=yard.namespace)
    # Whether the kubelet removes the log before it can be read again is a matter of milliseconds.
    if unconfirmed is not None:
        assert unconfirmed.late_ns is None
        assert unconfirmed.ended_ns is not None
        assert finished_ns <= unconfirmed.ended_ns


async def test_the_reason_is_typed_when_there_is_no_log_yet(yard: Yard) -> None:
    await yard.create(pod("nowhere", SLEEP, spec={"nodeSelector": {"no": "such"}}))
    await yard.create(pod("imageless", SLEEP, image="docker.io/library/nothing:latest", imagePullPolicy="Never"))
    two = pod("two", SLEEP)
    two["spec"]["containers"].append(container(SLEEP) | {"name": "side"})
    await yard.start(two)
    for name in ("nowhere", "imageless"):
        for read in (yard.read, yard.follow):
            with pytest.raises(ContainerWaiting):
                await read(name)
    for read in (yard.read, yard.follow):
        with pytest.raises(ContainerUnspecified, match=r"main.*side"):
            await read("two")
        with pytest.raises(UnknownContainer):
            await read("two", container="other")
        with pytest.raises(NotFound):
            await read("absent")
    with pytest.raises(PreviousNotFound):
        await yard.read("two", container="side", previous=True)


async def test_the_exit_code_is_the_command_s_when_it_ends(yard: Yard) -> None:
    await yard.start(pod("p", SLEEP))
    assert await yard.run("p", "true") == ExecResult(0, b"", b"")
    assert await yard.run("p", "sh", "-c", "echo out; echo err >&2; exit 3") == ExecResult(3, b"out\n", b"err\n")
    assert (await yard.run("p", "sh", "-c", "kill -9 $$")).exit_code == 137
    assert (await yard.run("p", "sh", "-c", "kill -TERM $$")).exit_code == 143
    assert (await yard.run("p", "sh", "-c", "nope")).exit_code == 127
    hostile = "a;b&c=d+e%20 'f' \"g\" ü\n"
    assert (await yard.run("p", "printf", "%s", hostile)).stdout == hostile.encode()


async def test_the_reason_is_typed_when_a_command_cannot_start(yard: Yard) -> None:
    await yard.start(pod("p", SLEEP))
    with pytest.raises(CommandNotFound, match=r"executable file not found in \$PATH"):
        await yard.run("p", "nope")
    with pytest.raises(CommandNotFound, match="no such file or directory"):
        await yard.run("p", "/no/such/file")
    with pytest.raises(CommandNotStarted, match="permission denied") as caught:
        await yard.run("p", "/tmp")
    assert not isinstance(caught.value, CommandNotFound)
    with pytest.raises(UnknownContainer):
        await yard.run("p", "true", container="other")
    with pytest.raises(NotFound):
        await yard.run("absent", "true")
    with pytest.raises(DeadlineExceeded):
        await yard.run("p", "sleep", "60", deadline_seconds=1)
    with pytest.raises(OutputTooLarge):
        await yard.run("p", "yes", max_output_bytes=1 << 20)


async def test_nothing_can_be_talked_to_when_it_does_not_run(yard: Yard) -> None:
    await yard.create(pod("nowhere", SLEEP, spec={"nodeSelector": {"no": "such"}}))
    await yard.create(pod("ended", "true"))
    await wait_until(lambda: yard.phase_is("ended", "Succeeded"))
    for name in ("nowhere", "ended"):
        with pytest.raises(NotRunning):
            await yard.run(name, "true")
        with pytest.raises(NotRunning):
            async with attach_to_pod(yard.client, name, namespace=yard.namespace) as session:
                await anext(session)
        with pytest.raises(NotRunning):
            async with forward_port(yard.client, name, 8080, namespace=yard.namespace) as connection:
                await connection.read()


async def test_stdin_ends_when_it_was_closed(yard: Yard) -> None:
    await yard.start(pod("p", SLEEP))
    async with exec_in_pod(yard.client, "p", ["cat"], namespace=yard.namespace, stdin=True) as session:
        await session.write(b"one")
        assert await anext(session) == Output("stdout", b"one")
        await session.write(b"two")
        assert await anext(session) == Output("stdout", b"two")
        await session.close_stdin()
        assert await session.wait() == 0
    assert (await yard.run("p", "wc", "-c", stdin=b"")).stdout.strip() == b"0"


async def test_a_terminal_has_the_size_it_was_given_when_there_is_one(yard: Yard) -> None:
    await yard.start(pod("p", SLEEP))
    waiting = "until [ \"$(stty size 2>/dev/null)\" = '37 101' ]; do sleep 0.1; done"
    script = f"{waiting}; stty size; tty; read answer; exit $answer"
    options: dict[str, Any] = {"namespace": yard.namespace, "stdin": True, "tty": True}
    async with exec_in_pod(yard.client, "p", ["sh", "-c", script], **options) as session:
        await session.resize(width=101, height=37)
        shown = b""
        while b"/dev/" not in shown:
            output = await anext(session)
            assert output.stream == "stdout"
            shown += output.data
        await session.write(b"5\n")
        assert await session.wait() == 5
    assert shown.startswith(b"37 101\r\n")


async def test_200_megabytes_arrive_with_checksum_and_exit_code_when_a_command_writes_them(yard: Yard) -> None:
    await yard.start(pod("p", SLEEP))
    script = f"head -c {LARGE_BYTES} /dev/urandom | tee /tmp/x | sha256sum >&2; cat /tmp/x; exit 7"
    digest, taken, complaint, largest = hashlib.sha256(), 0, b"", 0
    before = resident_bytes()
    async with exec_in_pod(yard.client, "p", ["sh", "-c", script], namespace=yard.namespace) as session:
        async for output in session:
            if output.stream == "stderr":
                complaint += output.data
                continue
            digest.update(output.data)
            taken += len(output.data)
            if taken % (1 << 24) < len(output.data):
                # A slow reader: the command has to wait, not our memory to grow.
                await asyncio.sleep(0.1)
                largest = max(largest, resident_bytes())
    assert (taken, session.exit_code) == (LARGE_BYTES, 7)
    assert complaint.split()[0] == digest.hexdigest().encode()
    assert largest - before < LARGE_BYTES // 4


async def test_200_megabytes_arrive_with_checksum_when_they_are_a_command_s_stdin(yard: Yard) -> None:
    await yard.start(pod("p", SLEEP))
    digest = hashlib.sha256()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(LARGE_BYTES // PIECE_BYTES):
            piece = os.urandom(PIECE_BYTES)
            digest.update(piece)
            yield piece

    result = await yard.run("p", "sh", "-c", "sha256sum; exit 7", stdin=pieces(), deadline_seconds=240)
    assert result.exit_code == 7
    assert result.stdout.split()[0] == digest.hexdigest().encode()


async def test_a_container_s_own_process_answers_when_it_is_attached_to(yard: Yard) -> None:
    script = 'while read line; do echo "got $line"; [ "$line" = end ] && exit 4; done'
    await yard.start(pod("p", script, stdin=True))
    async with attach_to_pod(yard.client, "p", namespace=yard.namespace, stdin=True) as session:
        await session.write(b"a\n")
        assert (await anext(session)).data == b"got a\n"
        await session.write(b"end\n")
        assert b"".join([output.data async for output in session]) == b"got end\n"
    await wait_until(lambda: yard.phase_is("p", "Failed"))
    state = (await yard.status("p"))["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 4


SERVER = """
mkdir /tmp/www; head -c 20000000 /dev/urandom > /tmp/www/file; sha256sum /tmp/www/file > /tmp/www/sum
printf '#!/bin/sh\\nhead -c 20000000 | sha256sum\\n' > /tmp/upload; chmod +x /tmp/upload
nc -ll -p 9000 -e /tmp/upload < /dev/null &
exec httpd -f -p 8080 -h /tmp/www
"""


async def start_server(yard: Yard) -> None:
    await yard.start(pod("server", SERVER))

    async def is_ready() -> bool:
        return (await yard.run("server", "wget", "-q", "-O", "-", "http://127.0.0.1:8080/sum")).exit_code == 0

    await wait_until(is_ready)


async def fetch(port: int, path: str) -> bytes:
    """The body of a file, by HTTP/1.0 over a local port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    assert b" 200 " in head.splitlines()[0]
    return body


async def test_bytes_arrive_both_ways_when_a_port_is_forwarded(yard: Yard) -> None:
    await start_server(yard)
    async with forward_port(yard.client, "server", 8080, namespace=yard.namespace) as connection:
        await connection.write(b"GET /sum HTTP/1.0\r\n\r\n")
        answer = b""
        while data := await connection.read():
            answer += data
    assert b"/tmp/www/file" in answer

    upload = os.urandom(20_000_000)
    async with forward_port(yard.client, "server", 9000, namespace=yard.namespace) as connection:
        await connection.write(upload)
        assert (await connection.read()).split()[0] == hashlib.sha256(upload).hexdigest().encode()


async def test_many_clients_are_served_at_once_when_a_local_port_is_forwarded(yard: Yard) -> None:
    await start_server(yard)
    errors: list[KubeError] = []
    async with listen_and_forward(
        yard.client, "server", {8080: 0, 9999: 0}, namespace=yard.namespace, on_error=errors.append
    ) as ports:
        sums = await asyncio.gather(*(fetch(ports[8080], "/sum") for _ in range(20)))
        assert len(set(sums)) == 1
        large = await fetch(ports[8080], "/file")
        assert hashlib.sha256(large).hexdigest().encode() == sums[0].split()[0]
        assert errors == []
        with pytest.raises(ConnectionResetError):
            await fetch(ports[9999], "/sum")
    assert [type(error) for error in errors] == [PortRefused]


async def test_the_reason_is_typed_when_nothing_listens_on_the_port(yard: Yard) -> None:
    await yard.start(pod("p", SLEEP))
    with pytest.raises(PortRefused, match="connection refused"):
        async with forward_port(yard.client, "p", 9999, namespace=yard.namespace) as connection:
            await connection.read()


@pytest.fixture
def own_cluster(cluster: Cluster) -> Iterator[Cluster]:
    """A node of the test's own, which may be killed."""
    options = Options(kubernetes=cluster.site.options.kubernetes, dns=False, storage=False)
    own = Cluster.up(f"streams-{os.getpid()}", options, outlives_us=False)
    yield own
    own.down()


async def drain(lines: AsyncIterator[LogLine]) -> None:
    async for _ in lines:
        pass


async def test_no_end_is_believed_and_no_line_lost_when_the_kubelet_dies(
    own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The apiserver ends the answers of a dead kubelet as if they were complete.
    monkeypatch.setattr("runyard.kube.streams.follow._SETTLE_SECONDS", 2.0)
    position: LogPosition | None = None
    numbers: list[int] = []
    async with Client.connect(load_kubeconfig(own_cluster.kubeconfig)) as client:
        yard = Yard(client, "default")
        script = "i=0; until [ -e /tmp/stop ]; do i=$((i+1)); echo $i; sleep 0.05; done"
        await yard.start(pod("p", script))
        command = ["sh", "-c", "echo begun; sleep 60"]
        async with exec_in_pod(client, "p", command, namespace="default") as session:
            assert await anext(session) == Output("stdout", b"begun\n")
            async with follow_logs(client, "p", namespace="default") as lines:
                for _ in range(20):
                    line = await anext(lines)
                    position = LogPosition.after(line, position)
                    numbers.append(int(line.text))
                await asyncio.to_thread(own_cluster.kill, "kubelet")
                with pytest.raises(Disconnected, match="still runs"):
                    await drain(lines)
            with pytest.raises(Disconnected):
                await session.wait()

        own_cluster.start("kubelet")

        async def has_stopped() -> bool:
            try:
                return (await yard.run("p", "touch", "/tmp/stop")).exit_code == 0
            except (ServerError, Unavailable):
                return False  # The apiserver cannot reach the kubelet yet.

        await wait_until(has_stopped)
        numbers += [int(text) for text in await yard.follow("p", after=position)]
    assert numbers == list(range(1, len(numbers) + 1))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
