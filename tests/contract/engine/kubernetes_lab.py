"""The labs of the Kubernetes engine: the session's cluster of the testbed, with a namespace per project or one for all.

The engine has exactly the rights that `runyard server rbac` prints (`server_account.py`); the lab itself is an admin.

Between the engine and the apiserver is a gate, a TCP relay that can be closed. What the engine sends is recorded.
"""

import asyncio
import base64
import json
import os
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from runyard.app.engine import Assignment, Engine, Place
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes.kubernetes_engine import KubernetesEngine
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.engines.kubernetes.log_follow import EARLY_SECONDS
from runyard.engines.kubernetes.namespaces import project_namespace
from runyard.engines.kubernetes.rendered_runs import name_anchor
from runyard.kube import Client, NotFound, Object, load_kubeconfig
from runyard.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    SERVICES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from runyard.kube.streams import run_command
from runyard.manifests.metadata import INSTALLATION_LABEL, RUN_UID_LABEL, to_label_value
from testbed.cluster import Cluster
from tests.api_gate import ApiGate
from tests.contract.engine.lab import Capability
from tests.contract.engine.server_account import connect_server, grant_rights, revoke_rights

IMAGE = "busybox:1.36"
LISTEN = 'httpd -p 8080 -h /tmp; exec "$@"'
"""Opens the port of a service, and becomes the command that follows."""
WORDS = "/tmp"
"""Where `Lab.send` leaves words, in the container."""
FLOOD = 120
"""Events of a flood, with a message of a kilobyte each."""
FORGOTTEN = 500
"""How many changes a restore undoes: many more than the cluster makes by itself before the engine looks again."""
_LONG: tuple[Capability, ...] = ("many restarts",) if os.environ.get("RUNYARD_CONTRACT_LONG") == "1" else ()
"""Two minutes of real restarts: only in the long form, `make test-versions`."""
_KINDS = (JOBS, DEPLOYMENTS, PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS, CONFIG_MAPS, SECRETS)

CAPABILITIES: frozenset[Capability] = frozenset(
    [
        "cut",
        "hide",
        "epochs",
        "rotation",
        "floods",
        "strangers",
        "mounts",
        "stored secrets",
        "hard limits",
        "sessions",
        *_LONG,
    ]
)
"""Not `judged memory`: a container whose first process ends with 0 has succeeded, whatever its children met."""


class KubernetesLab:
    """`tests.contract.engine.lab.Lab`."""

    patience = 900
    capabilities = CAPABILITIES
    engine: Engine

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        gate: ApiGate,
        stack: AsyncExitStack,
        *,
        namespace: str | None = None,
        account: str | None = None,
        has_view: bool = True,
    ) -> None:
        """`namespace`: the one of all projects; without it, each has its own. `account`: of this lab alone.

        `has_view`: whether the account has the optional view of the cluster.
        """
        self.cluster = cluster
        self.client = client
        self.gate = gate
        unique = secrets.token_hex(4)
        self.project, self.other_project = f"p-{unique}", f"q-{unique}"
        self.installation = f"lab-{unique}"
        self._stack = stack
        self._namespace = namespace
        self._account = account
        self._has_view = has_view
        self._sent: dict[str, list[bytes]] = {}
        self._foreign: list[tuple[Any, str]] = []

    async def open(self) -> None:
        self.engine = await self.reopen()
        self.platform = self.engine.platform
        projects = (self.project, self.other_project)
        await asyncio.gather(*(self.engine.ensure_project(project, AdminRules()) for project in projects))

    def get_namespace(self, project: str) -> str:
        """The namespace of a project."""
        return self._namespace or project_namespace(project)

    def make_settings(self) -> KubernetesSettings:
        return KubernetesSettings(
            installation=self.installation,
            namespace=self._namespace,
            endpoint="http://server.test:8080",
            request_seconds=5.0,
        )

    async def reopen(self) -> Engine:
        config = await connect_server(
            self.cluster, self.client, namespace=self._namespace, account=self._account, has_view=self._has_view
        )
        engine = await KubernetesEngine.open(
            self.make_settings(), self.gate.configure(config), read_newest_observation=self._read_newest
        )
        self._stack.push_async_callback(engine.close)
        self._record(engine)
        return engine

    async def _read_newest(self, _: Place) -> tuple[int, int]:
        """What the database has: all that the first engine has told."""
        engine = getattr(self, "engine", None)
        return (engine._cache.epoch, engine._cache.version) if isinstance(engine, KubernetesEngine) else (0, 0)

    def _record(self, engine: KubernetesEngine) -> None:
        """Keep the objects that an engine sends, by run."""
        transport = engine._client.transport
        request = transport.request

        async def record(method: str, path: str, *, body: bytes | None = None, **options: Any) -> bytes:
            if method in ("POST", "PUT") and body is not None:
                labels = json.loads(body).get("metadata", {}).get("labels") or {}
                self._sent.setdefault(labels.get(RUN_UID_LABEL, ""), []).append(body)
            return await request(method, path, body=body, **options)

        transport.request = record  # type: ignore[method-assign]

    def adapt(self, spec: EffectiveSpec) -> EffectiveSpec:
        command = spec.command if spec.action == "job" else ("sh", "-c", LISTEN, "sh", *spec.command)
        return replace(spec, image=IMAGE, run_as_user=1000, command=command, envs={**spec.envs, "LAB": WORDS})

    async def rest(self) -> None:
        await asyncio.sleep(0.1)

    async def pass_time(self) -> None:
        await asyncio.sleep(1.5)

    async def send(self, assignment: Assignment, word: str) -> None:
        pod = await self._get_pod(assignment)
        done = await run_command(
            self.client, pod["metadata"]["name"], ["touch", f"{WORDS}/{word}"], namespace=pod["metadata"]["namespace"]
        )
        assert done.exit_code == 0, done.stderr

    async def kill(self, assignment: Assignment, signal: int) -> None:
        pod = await self._get_pod(assignment)
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        os.kill(await asyncio.to_thread(find_first_process, container), signal)

    async def lose(self, assignment: Assignment) -> None:
        resource = _get_anchor_resource(assignment)
        namespace = self.get_namespace(assignment.project)
        await self.client.delete(
            resource, name_anchor(assignment), namespace=namespace, propagation="Background", grace_period_seconds=0
        )
        for pod in await self._list(PODS, assignment.run_uid):
            with suppress(NotFound):
                await self.client.delete(PODS, pod["metadata"]["name"], namespace=namespace, grace_period_seconds=0)

    async def list_sent(self, run_uid: str) -> Sequence[bytes]:
        return self._sent.get(to_label_value(run_uid), [])

    async def count_secret_values(self, text: str) -> int:
        listed = await self.client.list(SECRETS, label_selector=f"{INSTALLATION_LABEL}={self.installation}")
        values = [base64.b64decode(value) for item in listed.items for value in (item.get("data") or {}).values()]
        # Without the status: the end of its output, which is the run's own, is in the message of a failed container.
        others = [
            json.dumps(item | {"status": None}) for kind in (JOBS, DEPLOYMENTS, PODS) for item in await self._list(kind)
        ]
        return sum(text.encode() in value for value in values) + sum(text in other for other in others)

    async def count_objects(self, run_uid: str) -> int:
        return sum([len(await self._list(kind, run_uid)) for kind in _KINDS])

    async def count_kinds(self, run_uid: str) -> dict[str, int]:
        """How many objects of each kind belong to a run."""
        counted = {kind.kind: len(await self._list(kind, run_uid)) for kind in _KINDS}
        return {name: count for name, count in counted.items() if count}

    async def cut(self) -> None:
        await self.gate.close()

    async def mend(self) -> None:
        await self.gate.open()

    async def hide(self, project: str) -> None:
        """Every project: the rights to read are in the whole cluster, or in the namespace of all."""
        await revoke_rights(self.client, namespace=self._namespace, account=self._get_own_account())
        self.gate.drop()

    async def show(self, project: str) -> None:
        await grant_rights(self.client, namespace=self._namespace, account=self._get_own_account())

    def _get_own_account(self) -> str:
        """The account whose rights may be revoked, because no other lab uses it."""
        assert self._account is not None
        return self._account

    async def begin_epoch(self) -> None:
        """The cluster, which is this lab's alone, is restored from a backup that is older than what the engine saw."""
        with tempfile.TemporaryDirectory() as folder:
            await asyncio.to_thread(self.cluster.back_up_etcd, Path(folder) / "etcd")
            await self._change_anchors(FORGOTTEN)
            await asyncio.to_thread(self.cluster.restore_etcd, Path(folder) / "etcd")

    async def _change_anchors(self, times: int) -> None:
        """Change the annotations of Jobs, until the engine has seen it."""
        (job, *_) = await self._list(JOBS)
        metadata = job["metadata"]
        for number in range(times):
            patch = {"metadata": {"annotations": {"lab": str(number)}}}
            job = await self.client.patch(JOBS, metadata["name"], patch, namespace=metadata["namespace"])
        version = int(job["metadata"]["resourceVersion"])
        assert isinstance(self.engine, KubernetesEngine)
        while self.engine._cache.version < version:
            await self.rest()

    async def rotate_log(self, assignment: Assignment) -> None:
        """As logrotate does with `copytruncate`; a kubelet rotates only what is larger than 10 MiB.

        Not at once: nobody rotates a log in the first seconds of its container, so the engine does not think of it.
        """
        await asyncio.sleep(EARLY_SECONDS)
        pod = await self._get_pod(assignment)
        metadata, container = pod["metadata"], pod["spec"]["containers"][0]["name"]
        pods = self.cluster.directory / "pod-logs"
        os.truncate(pods / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}" / container / "0.log", 0)

    async def restart_often(self, assignment: Assignment, times: int) -> None:
        """By other names of its image: a kubelet restarts a container whose image was changed without a back-off."""
        pod = (await self._get_pod(assignment))["metadata"]
        known = f"docker.io/library/{IMAGE}"
        images = [f"{known}-{number}" for number in range(times)]
        await asyncio.to_thread(self.cluster.tag_image, known, images)
        for count, image in enumerate(images, start=1):
            patch = [{"op": "replace", "path": "/spec/containers/0/image", "value": image}]
            await self.client.patch(PODS, pod["name"], patch, namespace=pod["namespace"], kind="json")
            while not _runs_as(count, await self.client.get(PODS, pod["name"], namespace=pod["namespace"])):
                await self.rest()

    async def flood(self, assignment: Assignment) -> None:
        pod = (await self._get_pod(assignment))["metadata"]
        about = {"kind": "Pod", "name": pod["name"], "namespace": pod["namespace"], "uid": pod["uid"]}

        async def warn(number: int) -> None:
            body = {
                "metadata": {"name": f"flood-{number}-{secrets.token_hex(4)}"},
                "involvedObject": about,
                "type": "Warning",
                "reason": "Flood",
                "message": "x" * 1000,
                "count": number + 1,
                "lastTimestamp": "2026-01-01T00:00:00Z",
            }
            await self.client.create(EVENTS, body, namespace=pod["namespace"])

        await asyncio.gather(*(warn(number) for number in range(FLOOD)))

    async def make_foreign_anchor(self, project: str) -> str:
        run_uid = uuid4().hex
        labels = {INSTALLATION_LABEL: "another", RUN_UID_LABEL: run_uid}
        await self._create_job(f"run-r1-{run_uid[:8]}", self.get_namespace(project), labels)
        return run_uid

    async def take_name(self, assignment: Assignment) -> None:
        await self._create_job(name_anchor(assignment), self.get_namespace(assignment.project), {"by": "a-stranger"})

    async def is_name_taken(self, assignment: Assignment) -> bool:
        namespace = self.get_namespace(assignment.project)
        found = await self.client.get(JOBS, name_anchor(assignment), namespace=namespace)
        return bool(found["metadata"]["labels"]["by"] == "a-stranger" and found["metadata"]["generation"] == 1)

    async def make_foreign_project(self) -> str:
        project = f"theirs-{secrets.token_hex(4)}"
        await self.client.create(NAMESPACES, {"metadata": {"name": self.get_namespace(project)}})
        self._foreign.append((NAMESPACES, self.get_namespace(project)))
        return project

    async def has_project(self, project: str) -> bool:
        try:
            await self.client.get(NAMESPACES, self.get_namespace(project))
        except NotFound:
            return False
        return True

    async def make_foreign_claim(self, project: str) -> str:
        claim, namespace = f"theirs-{secrets.token_hex(4)}", self.get_namespace(project)
        size = {"storage": "16Mi"}
        volume = {
            "metadata": {"name": claim},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/nowhere"},
                "claimRef": {"namespace": namespace, "name": claim},
            },
        }
        await self.client.create(PERSISTENT_VOLUMES, volume)
        self._foreign.append((PERSISTENT_VOLUMES, claim))
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "storageClassName": ""}
        body = {"metadata": {"name": claim}, "spec": {**spec, "volumeName": claim}}
        await self.client.create(PERSISTENT_VOLUME_CLAIMS, body, namespace=namespace)
        while True:
            found = await self.client.get(PERSISTENT_VOLUME_CLAIMS, claim, namespace=namespace)
            if found["status"]["phase"] == "Bound":
                return claim
            await self.rest()

    async def remove_all(self) -> None:
        """Delete what the lab made; does not wait until it is gone."""
        listed = await self.client.list(NAMESPACES, label_selector=f"{INSTALLATION_LABEL}={self.installation}")
        named = [(NAMESPACES, item["metadata"]["name"]) for item in listed.items]
        for resource in (VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_ADMISSION_POLICIES):
            listed = await self.client.list(resource, label_selector=f"{INSTALLATION_LABEL}={self.installation}")
            named += [(resource, item["metadata"]["name"]) for item in listed.items]
        shared = [(NAMESPACES, self._namespace)] if self._namespace else []
        for resource, name in [*named, *self._foreign, *shared]:
            with suppress(NotFound):
                await self.client.delete(resource, name)

    async def _create_job(self, name: str, namespace: str, labels: dict[str, str]) -> None:
        container = {"name": "main", "image": IMAGE, "command": ["true"]}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"suspend": True, "template": template}}
        await self.client.create(JOBS, body, namespace=namespace)

    async def _list(self, kind: Any, run_uid: str | None = None) -> list[Object]:
        selector = f"{INSTALLATION_LABEL}={self.installation}"
        selector += "" if run_uid is None else f",{RUN_UID_LABEL}={to_label_value(run_uid)}"
        return (await self.client.list(kind, label_selector=selector)).items

    async def _get_pod(self, assignment: Assignment) -> Object:
        """The newest pod of a run."""
        pods = await self._list(PODS, assignment.run_uid)
        return max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def find_first_process(container: str) -> int:
    """The pid, as this machine counts, of the first process of a container."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if container in (path / "cgroup").read_text():
                inner = re.search(r"^NSpid:.*\t(\d+)$", (path / "status").read_text(), flags=re.MULTILINE)
                if inner is not None and inner[1] == "1":
                    return int(path.name)
    raise AssertionError(f"no process of container {container}")


def _runs_as(instance: int, pod: Object) -> bool:
    """Whether the first container runs, after so many restarts."""
    status = pod["status"]["containerStatuses"][0]
    return status["restartCount"] >= instance and "running" in status["state"]


def _get_anchor_resource(assignment: Assignment) -> Any:
    return JOBS if assignment.effective.action == "job" else DEPLOYMENTS


@asynccontextmanager
async def open_kubernetes_lab(
    cluster: Cluster, *, is_shared: bool = False, account: str | None = None, has_view: bool = True
) -> AsyncIterator[KubernetesLab]:
    """An engine of a new installation on the cluster; with `is_shared`, in one namespace for all projects.

    `account`: a name for an account of its own, whose rights can be revoked. Without `has_view` it has no view of the
    cluster.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client.connect(load_kubeconfig(cluster.kubeconfig)))
        gate = ApiGate(cluster.server)
        await gate.open()
        stack.push_async_callback(gate.close)
        namespace = f"shared-{secrets.token_hex(4)}" if is_shared else None
        if namespace is not None:
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        lab = KubernetesLab(cluster, client, gate, stack, namespace=namespace, account=account, has_view=has_view)
        stack.push_async_callback(lab.remove_all)
        await lab.open()
        yield lab
