"""Pods of a control plane without nodes run on a second cluster, and look as if they ran here."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runyard.kube import Client, Reflector
from runyard.kube.config import load_kubeconfig
from runyard.kube.resources import CONFIG_MAPS, EVENTS, PODS, SECRETS
from runyard.node.mirror.statuses import STARTED
from runyard.node.providers.kubernetes.provider import KubernetesProvider
from testbed.cluster import Cluster
from testbed.faults import FaultProxy
from testbed.pytest_plugin import kubernetes_version
from tests.cluster.kube.conditions import wait_until
from tests.cluster.node.mirrored import (
    AGENT_ADDRESS,
    QUICK,
    Mirrored,
    condition,
    ended,
    has_phase,
    is_ready,
    joined,
    shell,
)

IS_1_34 = kubernetes_version() == "1.34"
SLEEP = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
BINARY = bytes(range(256))


@pytest.fixture
async def pair(control_plane: Cluster, cluster: Cluster, namespace: str) -> AsyncIterator[Mirrored]:
    async with (
        Client.connect(load_kubeconfig(control_plane.kubeconfig)) as local,
        Client.connect(load_kubeconfig(cluster.kubeconfig)) as remote,
        joined(local, remote, remote_namespace=namespace) as mirrored,
    ):
        yield mirrored


async def _events(pair: Mirrored, name: str) -> dict[str, dict[str, Any]]:
    found = await pair.local.list(EVENTS, namespace=pair.namespace, field_selector=f"involvedObject.name={name}")
    return {event["reason"]: event for event in found.items}


async def _remote_names(pair: Mirrored) -> list[str]:
    found = await pair.remote.list(PODS, namespace=pair.remote_namespace)
    return sorted(pod["metadata"]["name"] for pod in found.items)


async def _copies(pair: Mirrored) -> dict[str, dict[str, Any]]:
    """The copies at the provider, by the name that the local object has."""
    copies: dict[str, dict[str, Any]] = {}
    for resource in (CONFIG_MAPS, SECRETS):
        found = await pair.remote.list(resource, namespace=pair.remote_namespace, label_selector="k8s.gpu/uid")
        copies |= {copy["metadata"]["annotations"]["k8s.gpu/name"]: copy for copy in found.items}
    return copies


async def test_pods_look_as_at_the_provider_when_they_run_and_end(pair: Mirrored) -> None:
    async with pair.mirror():
        await pair.create("fails", restartPolicy="Never", containers=shell("printf why > /dev/termination-log; exit 7"))
        await pair.create(
            "restarts",
            restartPolicy="OnFailure",
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=shell(
                "test -e /v/x && exit 0; touch /v/x; exit 3", volumeMounts=[{"name": "v", "mountPath": "/v"}]
            ),
        )
        sidecar = shell(SLEEP, name="helper", restartPolicy="Always")[0]
        serving = await pair.create(
            "serves",
            initContainers=[*shell("exit 0", name="first"), sidecar],
            containers=shell(
                f"touch /tmp/up; {SLEEP}", readinessProbe={"exec": {"command": ["cat", "/tmp/up"]}, "periodSeconds": 1}
            ),
        )
        failed = await pair.wait("fails", has_phase("Failed"))
        assert (ended(failed)["exitCode"], ended(failed)["message"]) == (7, "why")
        ready = await pair.wait("serves", is_ready)
        assert ended(ready, "first")["exitCode"] == 0
        assert ready["status"]["initContainerStatuses"][1]["state"].keys() == {"running"}
        assert (ready["status"]["hostIP"], "podIP" in ready["status"]) == (AGENT_ADDRESS, False)
        assert condition(ready, "PodScheduled")["status"] == "True"
        succeeded = await pair.wait("restarts", has_phase("Succeeded"))
        assert succeeded["status"]["containerStatuses"][0]["restartCount"] == 1
        there = await pair.find_remote(succeeded)
        assert there is not None
        assert succeeded["status"]["containerStatuses"] == there["status"]["containerStatuses"]
        # A kubelet of 1.34 forgets how a container ended once the pod has succeeded.
        assert IS_1_34 or ended(succeeded, field="lastState")["exitCode"] == 3
        assert {failed["metadata"]["uid"], succeeded["metadata"]["uid"]} <= set(pair.gone)
        assert serving["metadata"]["uid"] not in pair.gone
        remote = await pair.find_remote(serving)
        assert remote is not None
        assert remote["spec"]["hostname"] == "serves"
        assert remote["metadata"]["labels"]["k8s.gpu/namespace"] == pair.namespace

        async def is_told() -> bool:
            return {"Pulled", "Created", "Started"} <= set(await _events(pair, "serves"))

        await wait_until(is_told)
        assert (await _events(pair, "serves"))["Started"]["source"] == {"component": pair.node}
        for name in ("fails", "restarts", "serves"):
            await pair.local.delete(PODS, name, namespace=pair.namespace)
        for name in ("fails", "restarts", "serves"):
            await pair.wait_gone(name)
        assert await _remote_names(pair) == []


async def test_contents_arrive_byte_for_byte_when_a_pod_refers_to_them(pair: Mirrored) -> None:
    await pair.local.create(
        CONFIG_MAPS,
        {
            "metadata": {"name": "settings"},
            "data": {"COLOUR": "bl'ue $(HOME)\n", "lines": "one\r\ntwo\n\n"},
            "binaryData": {"raw": base64.b64encode(BINARY).decode()},
        },
        namespace=pair.namespace,
    )
    docker = base64.b64encode(json.dumps({"auths": {"r.example": {"auth": "eDp5"}}}).encode()).decode()
    await pair.local.create(
        SECRETS,
        {
            "metadata": {"name": "registry"},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": docker},
        },
        namespace=pair.namespace,
    )
    script = (
        'cp /all/raw /tmp/raw; { cat /all/lines; printf %s "$COLOUR"; printf \'|%s|%s|\' "$TOKEN" "$ME"; '
        "cat /info/labels; cat /tmp/raw | md5sum | cut -c1-32; ls /none; } > /dev/termination-log"
    )
    await pair.create(
        "reads",
        metadata={"labels": {"b": "2", "a": "1"}},
        restartPolicy="Never",
        imagePullSecrets=[{"name": "registry"}],
        volumes=[
            {"name": "all", "projected": {"sources": [{"configMap": {"name": "settings"}}]}},
            {"name": "none", "configMap": {"name": "absent", "optional": True}},
            {
                "name": "info",
                "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
            },
        ],
        containers=shell(
            script,
            envFrom=[{"configMapRef": {"name": "settings"}}],
            env=[
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "late", "key": "t"}}},
                {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            volumeMounts=[{"name": name, "mountPath": f"/{name}"} for name in ("all", "none", "info")],
        ),
    )
    async with pair.mirror():
        waiting = await pair.wait("reads", lambda pod: bool(pod["status"].get("containerStatuses")))
        state = waiting["status"]["containerStatuses"][0]["state"]["waiting"]
        assert state == {"reason": "CreateContainerConfigError", "message": 'secret "late" not found'}
        assert await _remote_names(pair) == []
        token = {"metadata": {"name": "late"}, "stringData": {"t": "s3cr3t"}}
        await pair.local.create(SECRETS, token, namespace=pair.namespace)
        done = await pair.wait("reads", has_phase("Succeeded", "Failed"))
        lines = ended(done)["message"]
        md5 = "e2c865db4162bed963bfaa9ef6ac18f0"
        assert lines == f'one\r\ntwo\n\nbl\'ue $(HOME)\n|s3cr3t|reads|a="1"\nb="2"{md5}\n'
        assert (await _copies(pair))["registry"]["data"] == {".dockerconfigjson": docker}
        assert {"MandatorySecretNotFound", "OptionalConfigMapNotFound"} <= set(await _events(pair, "reads"))
        await pair.local.delete(PODS, "reads", namespace=pair.namespace)
        await pair.wait_gone("reads")

        async def is_clean() -> bool:
            return not await _copies(pair)

        await wait_until(is_clean, seconds=30)


async def test_environment_is_what_the_pod_says_when_it_is_hard_to_quote(pair: Mirrored) -> None:
    hard = "a 'b' \"c\" \\ `d` #e $f ${g} $$ $(NOBODY) ü\t€ "
    await pair.local.create(
        SECRETS, {"metadata": {"name": "quoted"}, "stringData": {"SECRET": hard}}, namespace=pair.namespace
    )
    names = ("PLAIN", "LINES", "ESCAPED", "EXPANDED", "SECRET", "FIELD", "EMPTY")
    printed = " ".join(f'printf "%s\\n.\\n" "${name}";' for name in names)
    script = f"{{ {printed} }} > /dev/termination-log"
    field = {"fieldPath": "metadata.annotations['hard']"}
    await pair.create(
        "quotes",
        metadata={"annotations": {"hard": hard}},
        restartPolicy="Never",
        containers=shell(
            script,
            envFrom=[{"secretRef": {"name": "quoted"}}],
            env=[
                {"name": "PLAIN", "value": "a 'b' \"c\" \\ `d` #e $f ${g} $(NOBODY) ü\t€ "},
                {"name": "LINES", "value": "one\ntwo\n"},
                {"name": "ESCAPED", "value": "$$(PLAIN) $$$$"},
                {"name": "EXPANDED", "value": "<$(PLAIN)>"},
                {"name": "FIELD", "valueFrom": {"fieldRef": field}},
                {"name": "EMPTY", "value": ""},
            ],
        ),
    )
    plain = "a 'b' \"c\" \\ `d` #e $f ${g} $(NOBODY) ü\t€ "
    values = {"PLAIN": plain, "LINES": "one\ntwo\n", "ESCAPED": "$(PLAIN) $$", "EXPANDED": f"<{plain}>", "EMPTY": ""}
    values |= {"SECRET": hard, "FIELD": hard}
    async with pair.mirror():
        done = await pair.wait("quotes", has_phase("Succeeded", "Failed"))
    assert ended(done)["message"] == "".join(f"{values[name]}\n.\n" for name in names)


async def test_pods_fail_as_on_a_local_node_when_their_containers_do(pair: Mirrored) -> None:
    async with pair.mirror():
        await pair.create(
            "memory",
            restartPolicy="Never",
            containers=shell("tail /dev/zero", resources={"limits": {"memory": "24Mi"}}),
        )
        await pair.create("command", restartPolicy="Never", containers=shell("", command=["/no-such-command"]))
        await pair.create(
            "init", restartPolicy="Never", initContainers=shell("exit 4", name="first"), containers=shell("true")
        )
        two = [*shell("exit 0", name="good"), *shell("exit 9", name="bad")]
        await pair.create("one-of-two", restartPolicy="Never", containers=two)
        await pair.create("image", containers=shell("true", image="docker.io/library/no-such-image:1"))
        await pair.create("entrypoint", restartPolicy="Never", containers=shell("", command=None))
        await pair.create(
            "unhealthy",
            containers=shell(
                SLEEP,
                startupProbe={"exec": {"command": ["true"]}, "periodSeconds": 1},
                livenessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1},
            ),
        )
        killed = ended(await pair.wait("memory", has_phase("Failed", "Succeeded")))
        assert (killed["exitCode"], killed["reason"]) == (137, "OOMKilled")
        missing = ended(await pair.wait("command", has_phase("Failed", "Succeeded")))
        assert (missing["exitCode"], missing["reason"]) == (128, "StartError")
        assert "no-such-command" in missing["message"]
        stopped = await pair.wait("init", has_phase("Failed", "Succeeded"))
        assert (stopped["status"]["phase"], ended(stopped, "first")["exitCode"]) == ("Failed", 4)
        assert "waiting" in stopped["status"]["containerStatuses"][0]["state"]
        halved = await pair.wait("one-of-two", has_phase("Failed", "Succeeded"))
        assert halved["status"]["phase"] == "Failed"
        assert (ended(halved, "good")["exitCode"], ended(halved, "bad")["exitCode"]) == (0, 9)
        await pair.wait("image", lambda pod: _waiting(pod) == "ErrImageNeverPull")
        await pair.wait("entrypoint", has_phase("Succeeded"))
        restarted = await pair.wait("unhealthy", lambda pod: _restarts(pod) > 0)
        assert restarted["status"]["containerStatuses"][0]["started"] is not None


def _waiting(pod: dict[str, Any]) -> str:
    statuses = pod["status"].get("containerStatuses") or [{}]
    return str((statuses[0].get("state") or {}).get("waiting", {}).get("reason", ""))


def _restarts(pod: dict[str, Any]) -> int:
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses") or ())


async def test_hooks_and_shared_files_work_when_a_pod_lives_and_is_deleted(pair: Mirrored) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo begun > /shared/hook"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "cat /shared/hook /shared/other > /dev/termination-log"]}},
    }
    other = shell(f"echo beside > /shared/other; {SLEEP}", name="other", volumeMounts=mounts)
    probe = {"exec": {"command": ["cat", "/shared/hook", "/shared/other"]}, "periodSeconds": 1}
    hooked = shell(SLEEP, lifecycle=hooks, volumeMounts=mounts, readinessProbe=probe)
    async with pair.mirror(), Reflector(pair.local, PODS, namespace=pair.namespace) as pods:
        await pair.create(
            "hooked",
            terminationGracePeriodSeconds=20,
            volumes=[{"name": "shared", "emptyDir": {}}],
            containers=[*hooked, *other],
        )
        await pair.wait("hooked", is_ready)
        with pods.subscribe() as subscription:
            await pair.local.delete(PODS, "hooked", namespace=pair.namespace)
            async with asyncio.timeout(40):
                async for keys in subscription:
                    tombstones = [tombstone for key in keys for tombstone in subscription.deleted(key)]
                    if tombstones:
                        break
        assert ended(tombstones[-1].view)["message"] == "begun\nbeside\n"


async def test_updates_arrive_when_a_pod_runs(pair: Mirrored) -> None:
    settings = {"metadata": {"name": "settings"}, "data": {"a": "old"}}
    await pair.local.create(CONFIG_MAPS, settings, namespace=pair.namespace)
    await pair.create(
        "follows",
        metadata={"labels": {"stage": "one"}},
        restartPolicy="Never",
        volumes=[
            {"name": "s", "configMap": {"name": "settings"}},
            {"name": "o", "secret": {"secretName": "later", "optional": True}},
            {
                "name": "i",
                "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels['stage']"}}]},
            },
        ],
        containers=shell(
            'until [ "$(cat /s/a)$(cat /o/k)$(cat /i/l)" = newlatetwo ]; do sleep 0.1; done',
            volumeMounts=[{"name": name, "mountPath": f"/{name}"} for name in ("s", "o", "i")],
        ),
    )
    async with pair.mirror():
        pod = await pair.wait("follows", is_ready)
        await pair.local.patch(CONFIG_MAPS, "settings", {"data": {"a": "new"}}, namespace=pair.namespace)
        later = {"metadata": {"name": "later"}, "stringData": {"k": "late"}}
        await pair.local.create(SECRETS, later, namespace=pair.namespace)
        await pair.local.patch(PODS, "follows", {"metadata": {"labels": {"stage": "two"}}}, namespace=pair.namespace)
        await pair.wait("follows", has_phase("Succeeded"))
        remote = await pair.find_remote(pod)
        assert remote is not None
        assert remote["metadata"]["labels"]["stage"] == "two"


async def test_pod_ends_within_its_grace_when_it_is_deleted(pair: Mirrored) -> None:
    script = "trap 'sleep 1; printf bye > /dev/termination-log; exit 5' TERM; while :; do sleep 0.1; done"
    async with pair.mirror(), Reflector(pair.local, PODS, namespace=pair.namespace) as pods:
        await pair.create("ends", terminationGracePeriodSeconds=20, containers=shell(script))
        pod = await pair.wait("ends", is_ready)
        with pods.subscribe() as subscription:
            await pair.local.delete(PODS, "ends", namespace=pair.namespace)
            async with asyncio.timeout(40):
                async for keys in subscription:
                    tombstones = [tombstone for key in keys for tombstone in subscription.deleted(key)]
                    if tombstones:
                        break
        last = tombstones[-1].view
        assert (ended(last)["exitCode"], ended(last)["message"]) == (5, "bye")
        assert last["status"]["phase"] == "Failed"
        assert await pair.find_remote(pod) is None
        assert pod["metadata"]["uid"] in pair.gone


async def test_pod_fails_when_the_provider_removes_it(pair: Mirrored) -> None:
    async with pair.mirror():
        pod = await pair.create("vanishes", containers=shell(SLEEP))
        await pair.wait("vanishes", is_ready)
    await pair.remote.delete(
        PODS, f"pod-{pod['metadata']['uid']}", namespace=pair.remote_namespace, grace_period_seconds=0
    )
    async with pair.mirror():
        failed = await pair.wait("vanishes", has_phase("Failed"))
        assert failed["status"]["reason"] == "RemotePodGone"
        assert ended(failed)["reason"] == "ContainerStatusUnknown"
        assert not is_ready(failed)
        await pair.local.delete(PODS, "vanishes", namespace=pair.namespace)
        await pair.wait_gone("vanishes")
        assert await _remote_names(pair) == []


async def test_pod_is_refused_or_left_alone_when_it_cannot_or_must_not_run(pair: Mirrored) -> None:
    pair.foreign.add("foreign")
    async with pair.mirror():
        await pair.create("foreign", containers=shell(SLEEP))
        token = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
        await pair.create("token", volumes=[token], containers=shell(SLEEP))
        refused = await pair.wait("token", lambda pod: bool(pod["status"].get("containerStatuses")))
        state = refused["status"]["containerStatuses"][0]["state"]
        assert state["waiting"]["reason"] == "ServiceAccountTokenNotAllowed"
        waits = await pair.wait("foreign", lambda pod: bool(pod["status"].get("containerStatuses")))
        assert waits["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "NotBoundByAgent"
        assert await _remote_names(pair) == []
        await pair.local.delete(PODS, "foreign", namespace=pair.namespace)
        await pair.wait_gone("foreign")


async def test_pod_has_a_token_that_is_bound_to_it_when_tokens_are_allowed(pair: Mirrored) -> None:
    source = {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}}
    async with pair.mirror(allows_tokens=True):
        pod = await pair.create(
            "token",
            restartPolicy="Never",
            volumes=[{"name": "t", "projected": {"sources": [source]}}],
            containers=shell("cat /t/token > /dev/termination-log", volumeMounts=[{"name": "t", "mountPath": "/t"}]),
        )
        done = await pair.wait("token", has_phase("Succeeded", "Failed"))
    payload = ended(done)["message"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["aud"] == ["vault"]
    assert claims["sub"] == f"system:serviceaccount:{pair.namespace}:default"
    assert claims["kubernetes.io"]["pod"] == {"name": "token", "uid": pod["metadata"]["uid"]}


async def test_no_pod_is_lost_or_doubled_when_the_mirror_dies_again_and_again(pair: Mirrored) -> None:
    names = [f"p{number}" for number in range(12)]
    pods = [await pair.create(name, containers=shell(SLEEP)) for name in names]
    for started in (1, 5, 9):
        async with pair.mirror() as provider:
            await wait_until(partial(_has_pods, provider, at_least=started))
    forced = pods[0]
    await pair.local.delete(PODS, "p0", namespace=pair.namespace, grace_period_seconds=0)
    leftover = {"k8s.gpu/node": pair.node, "k8s.gpu/uid": "gone", "k8s.gpu/namespace": pair.namespace}
    for name, labels in (("left", leftover), ("others", {**leftover, "k8s.gpu/node": "another"})):
        metadata = {"name": name, "labels": labels, "annotations": {"k8s.gpu/name": name}}
        await pair.remote.create(CONFIG_MAPS, {"metadata": metadata}, namespace=pair.remote_namespace)
    async with pair.mirror(timing=replace(QUICK, sweep_seconds=0.5)):
        for name in names[1:]:
            found = await pair.wait(name, is_ready)
            assert found["status"]["containerStatuses"][0]["restartCount"] == 0
            assert condition(found, STARTED)["status"] == "True"
        expected = sorted(f"pod-{pod['metadata']['uid']}" for pod in pods[1:])

        async def are_equal() -> bool:
            is_released = forced["metadata"]["uid"] in pair.gone
            return is_released and await _remote_names(pair) == expected and [*await _copies(pair)] == ["others"]

        await wait_until(are_equal)


async def _has_pods(provider: KubernetesProvider, *, at_least: int) -> bool:
    return len(provider.pods) >= at_least


async def test_pods_live_on_when_the_link_is_cut(pair: Mirrored, cluster: Cluster, tmp_path: Path) -> None:
    certificate = cluster.certificate("fault-proxy", hosts=["127.0.0.1"])
    with FaultProxy(cluster.server, certificate=certificate, upstream_ca=cluster.ca_file) as proxy:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig.read_text().replace(cluster.server, proxy.url))
        async with Client.connect(load_kubeconfig(kubeconfig)) as through, pair.mirror(through=through) as provider:
            await pair.create("serves", containers=shell(SLEEP))
            before = await pair.wait("serves", is_ready)
            await asyncio.to_thread(proxy.refuse, 8.0)
            await asyncio.to_thread(proxy.sever)
            await pair.create("waits", containers=shell(SLEEP))
            unready = await pair.wait("serves", lambda pod: not is_ready(pod))
            assert condition(unready, "Ready")["reason"] == "ProviderUnreachable"
            assert unready["status"]["phase"] == "Running"
            assert not provider.link.is_up
            waits = await pair.find("waits")
            assert waits is not None
            assert waits["status"]["phase"] == "Pending"
            after = await pair.wait("serves", is_ready)
            await pair.wait("waits", is_ready)
    containers = [pod["status"]["containerStatuses"][0]["containerID"] for pod in (before, after)]
    assert containers[0] == containers[1]
