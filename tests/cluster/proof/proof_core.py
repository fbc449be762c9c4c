"""A server whose projects have namespaces of their own on the session's cluster, and a project to prove things in."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx2

from testbed.cluster import Cluster
from tests.core_process import CoreProcess, run_core

Json = dict[str, Any]

SECONDS = 90.0
"""How long a proof waits for one thing."""
IMAGE = "busybox:1.36"
DEFAULT_USER = 4321
"""User and group of runs that name none, by the policy: the image would run as root, which is refused."""
POLICY = f"""
run_as_user: {{default: {DEFAULT_USER}}}
run_as_group: {{default: {DEFAULT_USER}}}
grace_period: {{default: 1s}}
"""
FAILED = ("ERROR", "STOPPED")
MOST_RUNS = 200
"""How many runs a page has."""
PATHS = {"pods": "/api/v1", "persistentvolumeclaims": "/api/v1", "jobs": "/apis/batch/v1"}


class ProofProject:
    """A project of a server, and its namespace."""

    def __init__(self, cluster: Cluster, client: httpx2.AsyncClient, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.namespace = f"runyard-{name}"
        self._client = client
        self._base = f"/api/v1/-/{name}"
        self._tasks: dict[str, str] = {}

    async def call(self, method: str, path: str, **options: Any) -> Any:
        """The answer of the API to a request that it must accept."""
        answer = await self._client.request(method, path, **options)
        assert answer.status_code == 200, f"{method} {path}: {answer.status_code} {answer.text[:3000]}"
        is_json = answer.headers["content-type"].startswith("application/json")
        return answer.json() if is_json else answer.text

    async def create(self, collection: str, body: Json) -> Json:
        """Store an entity."""
        created: Json = await self.call("POST", f"{self._base}/{collection}", json=body)
        return created

    async def prepare(self) -> None:
        """The project itself, and a task of a container function for each action."""
        await self.call("POST", "/api/v1/projects", json={"kind": "project", "name": self.name})
        made = await self.create("functions", {"kind": "container", "name": "func", "spec": {"image": IMAGE}})
        function = f"container://{self.name}/func:{made['id']}"
        for action in ("job", "serve", "deploy"):
            task = await self.create("tasks", {"kind": f"container+{action}", "spec": {"function": function}})
            self._tasks[action] = f"container+{action}://{self.name}/{task['id']}"

    async def set_secrets(self, values: dict[str, str]) -> None:
        """Store secrets with their values."""
        for name in values:
            await self.create("secrets", {"kind": "secret", "name": name})
        await self.call("PUT", f"{self._base}/secrets/data", json=values)

    def make_run(self, run_id: str, *, action: str = "job", **spec: Any) -> Json:
        """A run as it is submitted."""
        return {"kind": f"container+{action}:run", "id": run_id, "spec": {"task": self._tasks[action], **spec}}

    async def submit(self, document: Json) -> Json:
        """Submit a run; returns it."""
        return await self.create("runs", document)

    async def post_yaml(self, run_id: str, snippet: str, **spec: Any) -> httpx2.Response:
        """Submit a run in whose spec a snippet is pasted byte for byte, indented as a whole."""
        head = [f"{name}: {json.dumps(value)}" for name, value in {"task": self._tasks["job"], **spec}.items()]
        lines = [*head, *snippet.splitlines()]
        body = "\n".join(["kind: container+job:run", f"id: {run_id}", "spec:", *(f"  {line}" for line in lines), ""])
        headers = {"Content-Type": "application/x-yaml"}
        return await self._client.post(f"{self._base}/runs", content=body.encode(), headers=headers)

    async def get_run(self, run_id: str) -> Json:
        """The run as it is now."""
        run: Json = await self.call("GET", f"{self._base}/runs/{run_id}")
        return run

    async def get_effective(self, run_id: str) -> Json:
        """What was decided when the run was submitted."""
        effective: Json = (await self.call("GET", f"{self._base}/runs/{run_id}/effective"))["effective"]
        return effective

    async def wait_for_all(self, run_ids: Sequence[str], is_so: Callable[[Json], bool]) -> dict[str, Json]:
        """The runs, once the status of each is as it should be; fails at once if one ends otherwise."""
        found: dict[str, Json] = {}
        deadline = time.monotonic() + SECONDS
        while True:
            for run in await self._list_runs():
                if run["id"] in run_ids and run["id"] not in found and is_so(run["status"]):
                    found[run["id"]] = run
                is_wrong = run["id"] in run_ids and run["id"] not in found and run["status"]["state"] in FAILED
                assert not is_wrong, f"{run['id']} has ended: {run['status']}"
            missing = [run_id for run_id in run_ids if run_id not in found]
            if not missing:
                return found
            if time.monotonic() > deadline:
                run = await self.get_run(missing[0])
                raise AssertionError(f"{missing} after {SECONDS} s; the first one: {run['status']}")
            await asyncio.sleep(0.3)

    async def _list_runs(self) -> list[Json]:
        listed: list[Json] = (await self.call("GET", f"{self._base}/runs?size={MOST_RUNS}"))["content"]
        assert len(listed) < MOST_RUNS, "more runs than a page has"
        return listed

    async def wait_until(self, run_id: str, is_so: Callable[[Json], bool]) -> Json:
        """The run, once its status is as it should be; fails at once if it ends otherwise."""
        return (await self.wait_for_all([run_id], is_so))[run_id]

    async def wait_for(self, run_id: str, state: str) -> Json:
        """The run, once it is in this state."""
        return await self.wait_until(run_id, lambda status: bool(status["state"] == state))

    async def finish(self, run_ids: Sequence[str]) -> dict[str, Json]:
        """The runs, which must complete, once their logs are stored to the end."""
        return await self.wait_for_all(run_ids, is_complete)

    async def read_log(self, run_id: str) -> str:
        """The log of a run, without the lines that the server adds."""
        text = str(await self.call("GET", f"{self._base}/runs/{run_id}/log"))
        return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#runyard-"))

    async def wait_for_output(self, run_id: str) -> str:
        """The log of a run that goes on, once it has a whole line."""
        await self.wait_for(run_id, "RUNNING")
        async with asyncio.timeout(SECONDS):
            while True:
                log = await self.read_log(run_id)
                if log.endswith("\n"):
                    return log
                await asyncio.sleep(0.2)

    async def run_to_end(self, document: Json) -> str:
        """Submit a run, which must complete; returns its log."""
        run_id = str((await self.submit(document))["id"])
        await self.finish([run_id])
        return await self.read_log(run_id)

    async def stop(self, run_id: str) -> None:
        """Ask for a stop, and wait for it."""
        await self.call("POST", f"{self._base}/runs/{run_id}/stop")
        await self.wait_for(run_id, "STOPPED")

    async def delete(self, run_ids: Sequence[str]) -> None:
        """Delete runs, and wait until they are gone."""
        for run_id in run_ids:
            await self.call("DELETE", f"{self._base}/runs/{run_id}")
        async with asyncio.timeout(SECONDS):
            for run_id in run_ids:
                while True:
                    if (await self._client.get(f"{self._base}/runs/{run_id}")).status_code == 404:
                        break
                    await asyncio.sleep(0.2)

    async def list_objects(self, kind: str) -> list[Json]:
        """Objects of the project's namespace, from the apiserver."""
        path = f"{PATHS[kind]}/namespaces/{self.namespace}/{kind}"
        items: list[Json] = (await asyncio.to_thread(self.cluster.api.get, path))["items"]
        return items

    async def list_pods(self, run_id: str) -> list[Json]:
        """The pods of a run."""
        return [pod for pod in await self.list_objects("pods") if get_run_id(pod) == run_id]

    async def wait_for_pods(self, run_ids: Collection[str]) -> dict[str, Json]:
        """A pod of each run, once they all have one."""
        deadline = time.monotonic() + SECONDS
        while True:
            pods = {get_run_id(pod): pod for pod in await self.list_objects("pods")}
            missing = [run_id for run_id in run_ids if run_id not in pods]
            if not missing:
                return pods
            if time.monotonic() > deadline:
                run = await self.get_run(missing[0])
                raise AssertionError(f"no pods of {missing} after {SECONDS} s; the first one: {run['status']}")
            await asyncio.sleep(0.3)


def is_complete(status: Json) -> bool:
    """Whether a run has succeeded, and its log is stored to its end."""
    return bool(status["state"] == "COMPLETED" and status.get("logs") == {"state": "complete"})


def get_run_id(item: Json) -> str:
    """The run that an object belongs to."""
    return str(item["metadata"]["labels"].get("runyard.io/run", ""))


@contextmanager
def run_proof_core(
    cluster: Cluster,
    folder: Path,
    *settings: str,
    policy: str = POLICY,
    profiles: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[CoreProcess]:
    """A server with the admin's rules and more settings, on the cluster."""
    engine = ("--engine", "kubernetes", "--kubeconfig", str(cluster.kubeconfig), "--namespace-per-project")
    rules = _write_rules(folder, policy, profiles)
    with run_core(*engine, "--max-requests", "100000", *rules, *settings, folder=folder) as core:
        yield core


@asynccontextmanager
async def open_project(cluster: Cluster, core: CoreProcess) -> AsyncIterator[ProofProject]:
    """A new project. Its namespace is deleted afterwards; nothing waits for that."""
    async with core.client() as client:
        project = ProofProject(cluster, client, f"proof-{secrets.token_hex(4)}")
        await project.prepare()
        try:
            yield project
        finally:
            cluster.api.delete(f"/api/v1/namespaces/{project.namespace}")


def _write_rules(folder: Path, policy: str, profiles: Mapping[str, str]) -> list[str]:
    """The admin's files, as arguments of the server; profiles are texts by the name of their file."""
    (folder / "policy.yaml").write_text(policy)
    arguments = ["--policy", str(folder / "policy.yaml")]
    if not profiles:
        return arguments
    (folder / "profiles").mkdir()
    for name, text in profiles.items():
        (folder / "profiles" / name).write_text(text)
    return [*arguments, "--profiles", str(folder / "profiles")]
