"""The local provider with real processes."""

import asyncio
import base64
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from runyard.node.offer import Shape
from runyard.node.providers.local.local_provider import LocalProvider
from runyard.node.providers.local.pod_folder import PodFolder, PodRecord
from runyard.node.providers.provider import (
    LogOptions,
    Logs,
    Object,
    Provider,
    ProviderRefused,
    RemotePod,
    RemotePodMissing,
    Workload,
)
from runyard.procs import read_state

UID = "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76"


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[LocalProvider]:
    """Nothing of a test runs on after it."""
    async with LocalProvider(tmp_path / "node", removal_seconds=0.2) as provider:
        yield provider
        for uid in list(provider.pods):
            await provider.stop(uid, grace_seconds=0)
        async with asyncio.timeout(20):
            while provider.pods:  # noqa: ASYNC110 - the event is in other processes
                await asyncio.sleep(0.05)


def workload(*scripts: str, restart: str = "Never", container: Any = None, **more: Any) -> Workload:
    containers = [
        {"name": f"c{number}", "image": "none", "command": ["sh", "-c", script], **(container or {})}
        for number, script in enumerate(scripts)
    ]
    spec = {"restartPolicy": restart, "containers": containers, **more.pop("spec", {})}
    return Workload(
        uid=UID,
        namespace="default",
        name="trial",
        shape=Shape(name="small", handler="small", limits={}),
        labels={},
        annotations={},
        spec=spec,
        **more,
    )


async def wait_pod(provider: LocalProvider, condition: Callable[[RemotePod], bool]) -> RemotePod:
    async with asyncio.timeout(30):
        async for _ in provider.changes():
            pod = provider.pods.get(UID)
            if pod is not None and condition(pod):
                return pod
    raise AssertionError


def phase(name: str) -> Callable[[RemotePod], bool]:
    return lambda pod: pod.status["phase"] == name


async def read_log(provider: LocalProvider, container: str = "c0", **options: Any) -> bytes:
    async with provider.read_log(UID, container, LogOptions(**options)) as chunks:
        return b"".join([chunk async for chunk in chunks])


def state_of(pod: RemotePod, number: int = 0) -> Object:
    state: Object = pod.status["containerStatuses"][number]["state"]
    return state


def test_provider_fits_the_protocols_when_type_checked(tmp_path: Path) -> None:
    provider: Provider = LocalProvider(tmp_path)
    assert isinstance(provider, Logs)


async def test_pod_succeeds_with_its_output_when_all_commands_end_well(provider: LocalProvider) -> None:
    await provider.start(workload("echo one; echo two", "exit 0"))
    pod = await wait_pod(provider, phase("Succeeded"))
    assert [state_of(pod, number)["terminated"]["exitCode"] for number in (0, 1)] == [0, 0]
    assert await read_log(provider) == b"one\ntwo\n"
    assert await read_log(provider, tail_lines=1) == b"two\n"
    assert await read_log(provider, tail_lines=0) == b""
    assert await read_log(provider, limit_bytes=5) == b"one\nt"


async def test_pod_fails_with_the_exit_code_when_a_command_fails(provider: LocalProvider) -> None:
    await provider.start(workload("exit 0", "exit 7"))
    pod = await wait_pod(provider, phase("Failed"))
    ended = state_of(pod, 1)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (7, "Error")


def with_inits(*scripts: str, main: str, restart: str = "Never") -> Workload:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/shared"}]}
    inits = [
        {"name": f"i{number}", "image": "none", "command": ["sh", "-c", script], **mounts}
        for number, script in enumerate(scripts)
    ]
    spec = {"initContainers": inits, "volumes": [{"name": "v", "emptyDir": {}}]}
    return workload(main, restart=restart, container=mounts, spec=spec)


def inits_of(pod: RemotePod) -> list[Object]:
    statuses: list[Object] = pod.status["initContainerStatuses"]
    return statuses


async def test_init_containers_run_one_after_the_other_when_a_pod_has_them(provider: LocalProvider) -> None:
    first = "sleep 0.5; echo first >> /shared/order"
    second = "echo second >> /shared/order; echo said"
    await provider.start(with_inits(first, second, main="cat /shared/order"))
    early = provider.pods[UID].status
    assert early["phase"] == "Pending"
    assert early["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    pod = await wait_pod(provider, phase("Succeeded"))
    assert await read_log(provider) == b"first\nsecond\n"
    assert await read_log(provider, "i1") == b"said\n"
    assert [each["ready"] for each in inits_of(pod)] == [True, True]
    assert pod.status["conditions"][0] == {**pod.status["conditions"][0], "type": "Initialized", "status": "True"}


async def test_pod_fails_and_its_command_never_runs_when_an_init_container_fails(provider: LocalProvider) -> None:
    await provider.start(with_inits("exit 3", "touch /shared/second", main="touch /shared/main"))
    pod = await wait_pod(provider, phase("Failed"))
    assert inits_of(pod)[0]["state"]["terminated"]["exitCode"] == 3
    folder = PodFolder(provider._root / "pods" / UID)
    await wait_pod(provider, lambda _: all(is_ended(folder, name) for name in ("i0", "i1", "c0")))
    assert list(folder.volume("v").iterdir()) == []


def is_ended(folder: PodFolder, name: str) -> bool:
    state = read_state(folder.container(name))
    return state is not None and state.is_ended


async def test_init_container_is_tried_again_when_the_policy_is_on_failure(provider: LocalProvider) -> None:
    script = "test -e /shared/again && exit 0; touch /shared/again; exit 3"
    await provider.start(with_inits(script, main="echo done", restart="OnFailure"))
    pod = await wait_pod(provider, phase("Succeeded"))
    assert inits_of(pod)[0]["restartCount"] == 1
    assert await read_log(provider) == b"done\n"


async def test_pod_goes_on_after_its_init_containers_when_the_agent_is_restarted(tmp_path: Path) -> None:
    async with LocalProvider(tmp_path / "node", removal_seconds=0.2) as before:
        await before.start(with_inits("while ! test -e /shared/go; do sleep 0.05; done", main="echo main"))
    (PodFolder(tmp_path / "node/pods" / UID).volume("v") / "go").touch()
    async with LocalProvider(tmp_path / "node", removal_seconds=0.2) as after:
        await wait_pod(after, phase("Succeeded"))
        assert await read_log(after) == b"main\n"


async def test_pod_that_waits_for_its_init_container_is_gone_when_it_is_stopped(provider: LocalProvider) -> None:
    await provider.start(with_inits("exec sleep 600", main="echo main"))
    await wait_pod(provider, lambda pod: "running" in inits_of(pod)[0]["state"])
    await provider.stop(UID, grace_seconds=1)
    async with asyncio.timeout(30):
        while provider.pods:  # noqa: ASYNC110 - the event is in other processes
            await asyncio.sleep(0.05)


async def test_pod_fails_in_words_when_the_program_does_not_exist(provider: LocalProvider) -> None:
    await provider.start(workload("", container={"command": ["/no/such/program"]}))
    pod = await wait_pod(provider, phase("Failed"))
    assert "/no/such/program" in state_of(pod)["terminated"]["message"]


async def test_command_is_restarted_when_the_policy_is_on_failure(provider: LocalProvider) -> None:
    script = "echo attempt; test -e again && exit 0; touch again; exit 3"
    await provider.start(workload(script, restart="OnFailure"))
    pod = await wait_pod(provider, phase("Succeeded"))
    container = pod.status["containerStatuses"][0]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 3
    assert await read_log(provider, previous=True) == b"attempt\n"


async def test_environment_and_files_arrive_when_they_come_from_maps_and_secrets(
    provider: LocalProvider, tmp_path: Path
) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": str(tmp_path / "mounted")}]}
    env = {"env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "t"}}}]}
    script = 'echo "$TOKEN"; cat mounted/a; until grep -q new mounted/a; do sleep 0.1; done; cat mounted/a'
    secret = {"s": {"data": {"t": base64.b64encode(b"top").decode()}}}
    volumes = {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}

    def made(text: str) -> Workload:
        return workload(
            script,
            container={**mount, **env, "workingDir": str(tmp_path)},
            spec=volumes,
            config_maps={"c": {"data": {"a": text}}},
            secrets=secret,
        )

    await provider.start(made("old\n"))
    await wait_pod(provider, phase("Running"))
    await provider.update(made("new\n"))
    await wait_pod(provider, phase("Succeeded"))
    assert (await read_log(provider)).endswith(b"new\n")
    assert (await read_log(provider)).startswith(b"top\n")


async def test_pod_lives_on_when_the_agent_starts_again(tmp_path: Path) -> None:
    root = tmp_path / "node"
    async with LocalProvider(root) as first:
        await first.start(workload("echo before; until test -e go; do sleep 0.1; done; echo after; exit 5"))
        await wait_pod(first, phase("Running"))
    async with LocalProvider(root) as second:
        assert second.link.has_listed
        assert second.pods[UID].status["phase"] == "Running"
        await second.start(workload("echo this must not run"))
        (root / "pods" / UID / "work/go").touch()
        pod = await wait_pod(second, phase("Failed"))
        assert state_of(pod)["terminated"]["exitCode"] == 5
        assert await read_log(second) == b"before\nafter\n"
        await second.stop(UID, grace_seconds=0)
        await _wait_gone(second)
    assert not (root / "pods" / UID).exists()


async def test_pod_gets_its_grace_and_goes_when_it_is_stopped(provider: LocalProvider, tmp_path: Path) -> None:
    script = f"trap 'echo ending > {tmp_path}/said; exit 4' TERM; echo ready; while :; do sleep 0.1; done"
    await provider.start(workload(script))
    await wait_pod(provider, phase("Running"))
    async with provider.read_log(UID, "c0", LogOptions(follow=True)) as chunks:
        assert await anext(aiter(chunks)) == b"ready\n"
    await provider.stop(UID, grace_seconds=20)
    pod = await wait_pod(provider, lambda pod: "terminated" in state_of(pod))
    assert pod.is_deleting
    assert state_of(pod)["terminated"]["exitCode"] == 4
    assert (tmp_path / "said").read_text() == "ending\n"
    await _wait_gone(provider)
    await provider.clean_up(UID)
    with pytest.raises(RemotePodMissing):
        await read_log(provider)


async def test_pod_fails_in_words_when_its_supervisor_is_killed(provider: LocalProvider, tmp_path: Path) -> None:
    await provider.start(workload("exec sleep 600", restart="Always"))
    await wait_pod(provider, phase("Running"))
    state = read_state(tmp_path / "node/pods" / UID / "containers/c0")
    assert state is not None
    assert state.supervisor_pid is not None
    os.kill(state.supervisor_pid, signal.SIGKILL)
    pod = await wait_pod(provider, phase("Failed"))
    ended = state_of(pod)["terminated"]
    assert ended["exitCode"] == 137
    assert "the supervisor was killed" in ended["message"]


async def test_container_is_never_started_later_when_the_agent_ended_before_it(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path / "pods" / UID)
    folder.path.mkdir(parents=True)
    folder.write_record(PodRecord(UID, "default", "trial", "2026-01-01T00:00:00Z", "Always", {"c0": "i"}, {"cpu": "1"}))
    (tmp_path / "pods/unfinished").mkdir()
    async with LocalProvider(tmp_path, removal_seconds=0) as provider:
        assert list(provider.pods) == [UID]
        assert state_of(provider.pods[UID])["terminated"]["reason"] == "StartInterrupted"
        assert provider.pods[UID].requests["cpu"].text == "1"
        await provider.stop(UID, grace_seconds=0)
        await _wait_gone(provider)
    assert list((tmp_path / "pods").iterdir()) == []


async def test_follower_gets_everything_when_the_command_writes_on(provider: LocalProvider) -> None:
    await provider.start(workload("for i in 1 2 3; do echo $i; sleep 0.2; done"))
    await wait_pod(provider, lambda pod: "waiting" not in state_of(pod))
    async with asyncio.timeout(20):
        assert await read_log(provider, follow=True) == b"1\n2\n3\n"


async def test_log_is_refused_in_words_when_times_are_asked_for(provider: LocalProvider) -> None:
    await provider.start(workload("echo x"))
    await wait_pod(provider, phase("Succeeded"))
    with pytest.raises(ProviderRefused, match="keeps no times of log lines"):
        await read_log(provider, since_seconds=10)
    with pytest.raises(ProviderRefused, match="has no container"):
        await read_log(provider, container="other")
    with pytest.raises(ProviderRefused, match="has no previous instance"):
        await read_log(provider, previous=True)


async def _wait_gone(provider: LocalProvider) -> None:
    async with asyncio.timeout(30):
        async for _ in provider.changes():
            if UID not in provider.pods:
                return
