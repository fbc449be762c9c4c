"""Runs by a raw client: the objects that the server sends for a run, in the same order, without Runyard."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from bench.cluster.raw_api import RawApi

JSON_PATCH = "application/json-patch+json"
SHOWN_SECONDS = 30.0
"""When a measure gives up waiting for a Job at the watch."""
OWN_INSTALLATION = "raw"
"""In place of the server's installation: it must not see these Jobs."""
_SERVER_SET = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")


class _Named(msgspec.Struct):
    name: str = ""


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Job(msgspec.Struct):
    metadata: _Named
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def has_ended(self) -> bool:
        return any(one.type in ("Complete", "Failed") and one.status == "True" for one in self.status.conditions)


class _Event(msgspec.Struct):
    type: str
    object: _Job


_EVENTS = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class RunTemplate:
    """What the server sends for one run; names and the UID of the owner are put in for each run."""

    job: Mapping[str, Any]
    secret: Mapping[str, Any]
    secret_name: str
    """As it was recorded: the Job refers to it."""
    ttl_seconds: int

    def make_job(self, name: str, *, is_suspended: bool = True) -> bytes:
        """The Job of a run."""
        job = {**self.job, "metadata": {**self.job["metadata"], "name": name}}
        if not is_suspended:
            job["spec"] = {**self.job["spec"], "suspend": False}
        text = json.dumps(job, separators=(",", ":"))
        return text.replace(f'"{self.secret_name}"', f'"{name}"').encode()

    def make_secret(self, name: str, uid: str) -> bytes:
        """The Secret of a run, owned by its Job."""
        owner = {**self.secret["metadata"]["ownerReferences"][0], "name": name, "uid": uid}
        metadata = {**self.secret["metadata"], "name": name, "ownerReferences": [owner]}
        return json.dumps({**self.secret, "metadata": metadata}, separators=(",", ":")).encode()


def make_template(job: Mapping[str, Any], secret: Mapping[str, Any]) -> RunTemplate:
    """From a Job and its Secret as the apiserver shows them when the server has just created them."""
    ttl = int(job["metadata"]["annotations"].get("runyard.io/ttl", 0))
    spec = {key: value for key, value in job["spec"].items() if key != "selector"}
    template = spec["template"]
    labels = {key: value for key, value in template["metadata"]["labels"].items() if "controller-uid" not in key}
    spec["template"] = {**template, "metadata": {**_clean(template["metadata"]), "labels": _own(labels)}}
    return RunTemplate(
        job={"apiVersion": "batch/v1", "kind": "Job", "metadata": _clean(job["metadata"]), "spec": spec},
        secret={
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**_clean(secret["metadata"]), "ownerReferences": secret["metadata"]["ownerReferences"]},
            "data": secret["data"],
        },
        secret_name=secret["metadata"]["name"],
        ttl_seconds=ttl,
    )


def _clean(metadata: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if key not in (*_SERVER_SET, "name", "namespace")}
    return {**kept, "labels": _own(kept.get("labels", {}))}


def _own(labels: Mapping[str, str]) -> dict[str, str]:
    skipped = ("batch.kubernetes.io/", "controller-uid", "job-name")
    kept = {key: value for key, value in labels.items() if not key.startswith(skipped)}
    return {**kept, "runyard.io/installation": OWN_INSTALLATION}


class RawRuns:
    """Runs in one namespace. Made by `watch_runs`."""

    def __init__(self, api: RawApi, template: RunTemplate, *, namespace: str) -> None:
        self._api = api
        self._template = template
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self._ends: dict[str, asyncio.Event] = {}
        self._released: dict[str, Callable[[], None]] = {}
        self._shown: dict[str, asyncio.Future[float]] = {}
        self._ended: set[str] = set()
        self._news = asyncio.Event()
        self.opened = asyncio.Event()

    async def live(self, name: str) -> None:
        """One run from the first write to the last."""
        ended = self._ends[name] = asyncio.Event()
        job = json.loads(await self._api.send("POST", self._jobs, self._template.make_job(name)))
        uid = job["metadata"]["uid"]
        await self._api.send("POST", self._secrets, self._template.make_secret(name, uid))
        await self._patch(name, uid, [{"op": "add", "path": "/spec/suspend", "value": False}])
        self._tell_released(name)
        await ended.wait()
        await self._api.send("DELETE", f"{self._secrets}/{name}")
        path = "/spec/ttlSecondsAfterFinished"
        await self._patch(name, uid, [{"op": "add", "path": path, "value": self._template.ttl_seconds}])

    def on_released(self, name: str, call: Callable[[], None]) -> None:
        """Call it when that run is released, and only its end is waited for."""
        self._released[name] = call

    def _tell_released(self, name: str) -> None:
        if (call := self._released.pop(name, None)) is not None:
            call()

    async def create(self, name: str) -> None:
        """Only create its Job, which begins at once."""
        await self._api.send("POST", self._jobs, self._template.make_job(name, is_suspended=False))
        self._tell_released(name)

    async def measure_visible(self, name: str) -> float:
        """Seconds from the create of a suspended Job until a watch shows it."""
        shown: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._shown[name] = shown
        began = time.perf_counter()
        await self._api.send("POST", self._jobs, self._template.make_job(name))
        async with asyncio.timeout(SHOWN_SECONDS):
            return await shown - began

    @property
    def ended(self) -> int:
        """How many Jobs were seen to end."""
        return len(self._ended)

    async def wait_ended(self, count: int) -> None:
        """Wait until so many Jobs were seen to end."""
        while len(self._ended) < count:
            self._news.clear()
            await self._news.wait()

    async def _patch(self, name: str, uid: str, operations: list[dict[str, Any]]) -> None:
        tests = [{"op": "test", "path": "/metadata/uid", "value": uid}]
        body = json.dumps([*tests, *operations]).encode()
        await self._api.send("PATCH", f"{self._jobs}/{name}", body, content_type=JSON_PATCH)

    async def follow(self) -> None:
        """Note what the Jobs do, until cancelled."""
        async for line in self._api.watch(self._jobs, on_open=self.opened.set):
            event = _EVENTS.decode(line)
            name = event.object.metadata.name
            if event.type == "ADDED" and (shown := self._shown.pop(name, None)) is not None:
                shown.set_result(time.perf_counter())
            if event.object.has_ended and name not in self._ended:
                self._ended.add(name)
                self._news.set()
                if (ended := self._ends.pop(name, None)) is not None:
                    ended.set()


@asynccontextmanager
async def watch_runs(api: RawApi, template: RunTemplate, *, namespace: str) -> AsyncIterator[RawRuns]:
    """Raw runs, whose watch is open."""
    runs = RawRuns(api, template, namespace=namespace)
    async with asyncio.TaskGroup() as group:  # a watch that fails ends the measure
        following = group.create_task(runs.follow())
        await runs.opened.wait()
        yield runs
        following.cancel()
