"""A cluster with an installation of Runyard on it, the fault proxy between both, and the witnesses beside them."""

import asyncio
import json
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml
from click.testing import CliRunner

from runyard.cli.main import root
from testbed.cluster import Cluster
from testbed.faults import FaultPlan, FaultProxy
from testbed.site import Options
from tests.chaos.audit_log import RUN_LABEL, AuditEntry, iter_entries
from tests.chaos.evidence import FINAL, Evidence, StoredLog, Tampering, index_by_run, read_stored_logs
from tests.chaos.faults import persist
from tests.chaos.kept_logs import Instance, KeptLogs, PrintedLine
from tests.chaos.servers import Replica, Servers, Spawner
from tests.chaos.witness import Witness
from tests.chaos.workloads import IMAGE, PROJECT, Workload

ACCOUNT = "runyard-server"
"""`judge.is_engine` knows the server by it."""
BASE = f"/api/v1/-/{PROJECT}"
REMAINS = "jobs,deployments,pods,services,persistentvolumeclaims,secrets,configmaps"
FLAGS = (
    # Sooner than the usual 50 s and 300 s, so that a storm sees pods of a lost node evicted. Kubelets renew their
    # lease every 10 s.
    ("kube-controller-manager", "--node-monitor-grace-period=20s"),
    ("kube-apiserver", "--default-not-ready-toleration-seconds=5"),
    ("kube-apiserver", "--default-unreachable-toleration-seconds=5"),
)
LISTED = 500
"""Runs of one page."""
PATIENT_SECONDS = 120.0
"""How long a test waits for what takes a second on an idle machine."""


@contextmanager
def open_cluster(name: str | None = None, *, kubernetes: str = Options().kubernetes) -> Iterator[Cluster]:
    """A cluster with a node and an audit log, to be broken at will; gone afterwards."""
    options = Options(kubernetes=kubernetes, audit=True, flags=FLAGS)
    cluster = Cluster.up(name or f"chaos-{secrets.token_hex(3)}", options, outlives_us=False)
    try:
        yield cluster
    finally:
        cluster.down()


@dataclass(slots=True, kw_only=True)
class Lab:
    """One installation, and everything that knows what happens to its runs."""

    cluster: Cluster
    namespace: str
    folder: Path
    proxy: FaultProxy
    servers: Servers
    witness: Witness
    kept_logs: KeptLogs
    runs: dict[str, Evidence] = field(default_factory=dict)

    async def prepare(self) -> None:
        """The project, its function and its tasks."""
        function = {"kind": "container", "name": "storm", "id": "f", "spec": {"image": IMAGE}}
        documents = [("/api/v1/projects", {"kind": "project", "name": PROJECT}), (f"{BASE}/functions", function)]
        for action in ("job", "serve"):
            spec = {"function": f"container://{PROJECT}/storm:f"}
            documents.append((f"{BASE}/tasks", {"kind": f"container+{action}", "id": f"t-{action}", "spec": spec}))
        for path, document in documents:
            answer = await self.servers.ask("POST", path, json=document)
            assert answer.status_code in (200, 409), answer.text

    async def submit(self, workload: Workload) -> Evidence:
        """Submit a run until it is acknowledged."""
        evidence = self.runs[workload.run_id] = Evidence(workload=workload, submit_asked_at=time.time())
        answer = await self.servers.ask("POST", f"{BASE}/runs", json=workload.make_document())
        assert answer.status_code in (200, 409), answer.text
        evidence.is_submitted = True
        return evidence

    async def stop(self, run_id: str) -> None:
        """Stop a run until that is acknowledged; one that has ended already cannot be stopped."""
        evidence = self.runs[run_id]
        evidence.stop_asked_at = time.time()
        answer = await self.servers.ask("POST", f"{BASE}/runs/{run_id}/stop")
        assert answer.status_code in (200, 400, 404, 409), answer.text
        evidence.is_stop_acknowledged = answer.status_code == 200

    async def delete(self, run_id: str) -> None:
        """Delete a run until that is acknowledged."""
        evidence = self.runs[run_id]
        evidence.delete_asked_at = time.time()
        answer = await self.servers.ask("DELETE", f"{BASE}/runs/{run_id}")
        assert answer.status_code in (200, 404), answer.text
        evidence.is_delete_acknowledged = True

    async def clear(self) -> None:
        """End all faults, and delete all runs: what follows begins as with a new installation."""
        self.proxy.plan = FaultPlan()
        for replica in self.servers.replicas:
            await replica.start()
        quotas = f"/api/v1/namespaces/{self.namespace}/resourcequotas"
        await persist(lambda: asyncio.to_thread(self.cluster.api.delete, quotas))
        for run_id in self.runs:
            await self.delete(run_id)
        for run_id in self.runs:
            await wait_until(partial(self._is_gone, run_id))
        self.runs.clear()

    async def _is_gone(self, run_id: str) -> bool:
        return await self.find_run(run_id) is None

    async def find_run(self, run_id: str) -> dict[str, Any] | None:
        """A run as the API gives it; None: it is gone."""
        answer = await self.servers.ask("GET", f"{BASE}/runs/{run_id}")
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def get_run(self, run_id: str) -> dict[str, Any]:
        """A run that is there."""
        run = await self.find_run(run_id)
        assert run is not None, f"run {run_id} is gone"
        return run

    async def wait_for(
        self, run_id: str, is_so: Callable[[dict[str, Any]], bool], *, seconds: float = PATIENT_SECONDS
    ) -> dict[str, Any]:
        """The status of a run, once it is so; fails with what it is otherwise."""
        deadline = time.monotonic() + seconds
        while True:
            status: dict[str, Any] = (await self.get_run(run_id))["status"]
            if is_so(status):
                return status
            assert time.monotonic() < deadline, f"{run_id}: {status}\n{self.servers.replicas[0].read_output()[-2000:]}"
            await asyncio.sleep(0.1)

    async def wait_for_state(self, run_id: str, *states: str, seconds: float = PATIENT_SECONDS) -> dict[str, Any]:
        """The status of a run in one of the states; fails early if it has ended in another."""
        status = await self.wait_for(run_id, lambda each: each["state"] in (*states, *FINAL), seconds=seconds)
        assert status["state"] in states, status
        return status

    async def wait_until_all_ended(self, *, seconds: float) -> list[str]:
        """Until every run is final with its log, or gone; returns those that are not in time."""
        deadline = time.monotonic() + seconds
        while True:
            unfinished = await self.list_unfinished()
            if not unfinished or time.monotonic() > deadline:
                return unfinished
            await asyncio.sleep(1.0)

    async def list_unfinished(self) -> list[str]:
        """Ids of the runs that have not ended, or whose log is not stored to its end."""
        found = {run["id"]: run["status"] for run in await self._list_runs()}
        return [
            run_id
            for run_id, evidence in self.runs.items()
            if (run_id in found and (evidence.delete_asked_at or not _is_over(found[run_id])))
        ]

    async def read_logs(self, run_id: str) -> Mapping[str, StoredLog]:
        """What is stored of a run's output, by stream."""
        answer = await self.servers.ask("GET", f"{BASE}/runs/{run_id}/log")
        if answer.status_code != 200:
            return {}
        stream = answer.headers.get("X-Log-Stream")
        marker = answer.headers["X-Log-Marker"]
        return read_stored_logs(answer.text, marker=marker, stream=None if stream is None else unquote(stream))

    async def collect(self, tamperings: Sequence[Tampering] = ()) -> list[Evidence]:
        """Everything that is known of every run."""
        entries = await asyncio.to_thread(self._read_audit_log)
        anchors = index_by_run([*self.witness.list("jobs"), *self.witness.list("deployments")])
        pods = index_by_run(self.witness.list("pods"))
        runs_of_pods = {pod.uid: pod.run_id for pod in self.witness.list("pods")}
        printed: dict[str, dict[Instance, list[PrintedLine]]] = {}
        for instance, lines in (await asyncio.to_thread(self.kept_logs.read)).items():
            if instance.pod_uid in runs_of_pods:
                printed.setdefault(runs_of_pods[instance.pod_uid], {})[instance] = lines
        remains = await asyncio.to_thread(self.list_remains)
        for run_id, evidence in self.runs.items():
            evidence.document = await self.find_run(run_id)
            evidence.logs = await self.read_logs(run_id) if evidence.document is not None else {}
            evidence.anchors, evidence.pods = anchors.get(run_id, []), pods.get(run_id, [])
            evidence.printed = printed.get(run_id, {})
            evidence.entries = entries.get(run_id, [])
            evidence.tamperings = [one for one in tamperings if one.run_id == run_id]
            evidence.remains = [one for one in remains if one["metadata"]["labels"].get(RUN_LABEL) == run_id]
        return list(self.runs.values())

    def list_remains(self) -> list[dict[str, Any]]:
        """The objects of the installation that are there now; values of Secrets are left out."""
        found = self.cluster.kubectl(
            "get", REMAINS, "--namespace", self.namespace, "--selector", "runyard.io/installation", "--output", "json"
        )
        items: list[dict[str, Any]] = json.loads(found)["items"]
        return [{key: value for key, value in item.items() if key != "data"} for item in items]

    def find_strays(self) -> list[str]:
        """Objects of the installation whose run was never submitted here."""
        return [
            f"{item['kind']} {item['metadata']['name']}"
            for item in self.list_remains()
            if item["metadata"]["labels"].get(RUN_LABEL, "") not in self.runs
            and item["metadata"]["labels"].get(RUN_LABEL) is not None
        ]

    def _read_audit_log(self) -> Mapping[str, list[AuditEntry]]:
        """Entries by run: the objects of a run are known by the names under which they were seen or created."""
        entries = list(iter_entries(self.cluster.site.logs, namespace=self.namespace))
        names = {(entry.resource, entry.name): entry.run_id for entry in entries if entry.run_id}
        for resource in ("jobs", "deployments", "pods"):
            names |= {(resource, one.name): one.run_id for one in self.witness.list(resource)}
        found: dict[str, list[AuditEntry]] = {}
        for entry in entries:
            run_id = names.get((entry.resource, entry.name))
            if run_id is not None:
                found.setdefault(run_id, []).append(entry)
        return found

    async def _list_runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            page = len(found) // LISTED
            answer = await self.servers.ask("GET", f"{BASE}/runs", params={"size": LISTED, "page": page})
            assert answer.status_code == 200, answer.text
            content = answer.json()["content"]
            found += content
            if len(content) < LISTED:
                return found


@asynccontextmanager
async def open_lab(
    cluster: Cluster,
    folder: Path,
    *,
    plan: FaultPlan | None = None,
    databases: Sequence[str] = (),
    is_quick: bool = True,
) -> AsyncIterator[Lab]:
    """An installation on the cluster, behind the fault proxy, which begins without faults unless there is a plan.

    One server with SQLite; or one per URL in `databases`, which are the same PostgreSQL.
    """
    namespace = f"storm-{secrets.token_hex(3)}"
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    token = await asyncio.to_thread(make_account, cluster, namespace)
    async with AsyncExitStack() as stack:
        certificate = cluster.certificate("fault-proxy", hosts=["127.0.0.1"])
        proxy = await stack.enter_async_context(
            FaultProxy(
                cluster.server, plan=plan, certificate=certificate, upstream_ca=cluster.ca_file, connection_limit=2048
            )
        )
        proxy.enabled = False  # until all is prepared
        kubeconfig = cluster.write_kubeconfig(folder / "server.kubeconfig", token=token, server=proxy.url)
        witness = stack.enter_context(
            Witness(cluster.server, ca_file=cluster.ca_file, token=_read_admin_token(cluster), namespace=namespace)
        )
        kept = stack.enter_context(
            KeptLogs(cluster.directory / "pod-logs", cluster.directory / f"kept-{namespace}", namespace=namespace)
        )
        spawner = Spawner()
        stack.push_async_callback(asyncio.to_thread, spawner.close)
        flags = {
            "engine": "kubernetes",
            "kubeconfig": str(kubeconfig),
            "namespace": namespace,
            "key_file": str(folder / "key"),
            "files": str(folder / "files"),
            "logs": f"folder:{folder / 'logs'}",
            "log_level": "warning",
        }
        urls = list(databases) or [f"sqlite:///{folder / 'runyard.db'}"]
        replicas = [
            Replica(spawner, {**flags, "database": url}, folder=folder / f"server-{number}", is_quick=is_quick)
            for number, url in enumerate(urls)
        ]
        servers = Servers(replicas)
        stack.push_async_callback(servers.close)
        await servers.start()
        lab = Lab(
            cluster=cluster,
            namespace=namespace,
            folder=folder,
            proxy=proxy,
            servers=servers,
            witness=witness,
            kept_logs=kept,
        )
        await lab.prepare()
        proxy.enabled = True
        yield lab
    shutil.rmtree(cluster.directory / f"kept-{namespace}", ignore_errors=True)


async def wait_until(is_so: Callable[[], Awaitable[bool]], *, seconds: float = PATIENT_SECONDS) -> None:
    """Ask again until it is so; raises `TimeoutError`."""
    async with asyncio.timeout(seconds):
        while not await is_so():  # noqa: ASYNC110 - other processes decide
            await asyncio.sleep(0.1)


async def fill_quota(cluster: Cluster, namespace: str, hard: Mapping[str, str]) -> str:
    """Make a ResourceQuota that is full from the beginning, and wait until it counts; returns its path."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/full"
    metadata = {"name": "full", "namespace": namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": dict(hard)}}
    await asyncio.to_thread(cluster.api.apply, path, quota)

    async def counts() -> bool:
        return "hard" in (await asyncio.to_thread(cluster.api.get, path)).get("status", {})

    await wait_until(counts)
    return path


def make_account(cluster: Cluster, namespace: str) -> str:
    """A service account with the rights that `runyard server rbac` prints, and a namespace for runs; returns a token.

    The account is in a namespace of its own beside that of the runs, so that installations share no rights.
    """
    api, home = cluster.api, f"{namespace}-system"
    for name in (home, namespace):
        api.apply(f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": home}}
    api.apply(f"/api/v1/namespaces/{home}/serviceaccounts/{ACCOUNT}", account)
    for item in print_rights(namespace, f"{home}/{ACCOUNT}"):
        metadata = item["metadata"]
        place = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        api.apply(f"/apis/{item['apiVersion']}{place}/{item['kind'].lower()}s/{metadata['name']}", item)
    return cluster.kubectl("create", "token", ACCOUNT, "--namespace", home, "--duration", "24h").strip()


def print_rights(namespace: str, account: str) -> list[dict[str, Any]]:
    """What `runyard server rbac` prints; within this process, because a new one takes a second."""
    # By the root: click remembers with a command the names of `--help`, which are the root's.
    words = ["server", "rbac", "--namespace", namespace, "--service-account", account]
    result = CliRunner().invoke(root, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.output))


def _read_admin_token(cluster: Cluster) -> str:
    config = json.loads(cluster.kubeconfig.read_text())
    token: str = config["users"][0]["user"]["token"]
    return token


def _is_over(status: Mapping[str, Any]) -> bool:
    return status["state"] in FINAL and (status.get("logs") or {"state": "complete"})["state"] == "complete"
