"""A watcher of its own, straight at the apiserver: what became of every pod, Job and Deployment of the storm.

Standard library only, one thread per resource. It misses nothing that a complete list or a watch shows.
"""

import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.chaos.audit_log import RUN_LABEL, RUN_UID_LABEL

PATHS = {
    "pods": "/api/v1/namespaces/{}/pods",
    "jobs": "/apis/batch/v1/namespaces/{}/jobs",
    "deployments": "/apis/apps/v1/namespaces/{}/deployments",
}
MAIN = "main"


@dataclass(slots=True)
class ContainerEnd:
    """How an instance of the main container ended."""

    exit_code: int
    reason: str
    finished_at: str


@dataclass(slots=True)
class Sighting:
    """The last that was seen of one object."""

    resource: str
    uid: str
    name: str
    run_id: str
    run_uid: str
    seen_at: float
    """Seconds since the epoch, at the first sight."""
    object: dict[str, Any]
    is_deleted: bool = False
    deleted_at: float | None = None
    ends: dict[int, ContainerEnd] = field(default_factory=dict)
    """Of a pod: by instance of the main container."""
    has_started: bool = False
    """Of a pod: whether the main container ever ran."""
    start_told_at: float | None = None
    """Of a pod: when its status said for the first time that the main container ran."""
    ended_at: float | None = None
    """Of a pod: when its phase was written that is final. A container that its node has lost has no time of its end."""

    @property
    def conditions(self) -> dict[str, dict[str, Any]]:
        """Those that hold."""
        found = self.object.get("status", {}).get("conditions") or []
        return {one["type"]: one for one in found if one["status"] == "True"}

    @property
    def phase(self) -> str:
        """Of a pod."""
        return str(self.object.get("status", {}).get("phase", ""))

    @property
    def is_disrupted(self) -> bool:
        """Of a pod: evicted, preempted or on a lost node, or deleted by anybody."""
        return self.is_replaced or bool(self.object["metadata"].get("deletionTimestamp"))

    @property
    def is_replaced(self) -> bool:
        """Of a pod: whether its failure uses up no retry. That of one which somebody has just deleted does."""
        return "DisruptionTarget" in self.conditions


class Witness:
    """Watches one namespace until the end of the `with` block."""

    def __init__(self, server: str, *, ca_file: Path, token: str, namespace: str) -> None:
        self._server, self._token, self._namespace = server, token, namespace
        context = ssl.create_default_context(cafile=str(ca_file))
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._sightings: dict[tuple[str, str], Sighting] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(resource,), name=f"witness-{resource}", daemon=True)
            for resource in PATHS
        ]

    def __enter__(self) -> "Witness":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()  # the threads end with their watches, or with the process

    def list(self, resource: str) -> list[Sighting]:
        """Everything that was ever seen of a resource, in the order of the first sight."""
        with self._lock:
            return [sighting for (kind, _), sighting in self._sightings.items() if kind == resource]

    def _run(self, resource: str) -> None:
        while not self._done.is_set():
            with suppress(OSError, HTTPException, ValueError, KeyError):
                version = self._list(resource)
                while not self._done.is_set():
                    version = self._watch(resource, version)
            self._done.wait(0.2)

    def _list(self, resource: str) -> str:
        with self._open(PATHS[resource].format(self._namespace), timeout=20) as response:
            listed = json.load(response)
        present = set()
        for item in listed["items"]:
            present.add(item["metadata"]["uid"])
            self._note(resource, item, is_deleted=False)
        with self._lock:
            for (kind, uid), sighting in self._sightings.items():
                if kind == resource and uid not in present and not sighting.is_deleted:
                    sighting.is_deleted, sighting.deleted_at = True, time.time()
        return str(listed["metadata"]["resourceVersion"])

    def _watch(self, resource: str, version: str) -> str:
        """One watch; returns where the next begins, and raises if it has to begin with a list."""
        query = f"?watch=1&allowWatchBookmarks=true&timeoutSeconds=60&resourceVersion={version}"
        with self._open(PATHS[resource].format(self._namespace) + query, timeout=75) as response:
            for event in _iter_events(response):
                if event["type"] == "ERROR":
                    raise ValueError(event["object"].get("message"))
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._note(resource, event["object"], is_deleted=event["type"] == "DELETED")
        return version

    def _open(self, path: str, *, timeout: float) -> Any:
        request = urllib.request.Request(
            self._server + path, headers={"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        )
        return self._opener.open(request, timeout=timeout)

    def _note(self, resource: str, item: dict[str, Any], *, is_deleted: bool) -> None:
        metadata = item["metadata"]
        labels = metadata.get("labels") or {}
        if RUN_LABEL not in labels:
            return
        key = resource, metadata["uid"]
        with self._lock:
            sighting = self._sightings.get(key)
            if sighting is None:
                sighting = self._sightings[key] = Sighting(
                    resource=resource,
                    uid=metadata["uid"],
                    name=metadata["name"],
                    run_id=labels[RUN_LABEL],
                    run_uid=labels.get(RUN_UID_LABEL, ""),
                    seen_at=time.time(),
                    object=item,
                )
            sighting.object = item
            if is_deleted and not sighting.is_deleted:
                sighting.is_deleted, sighting.deleted_at = True, time.time()
            if resource == "pods":
                _note_containers(sighting, item)
                if sighting.has_started and sighting.start_told_at is None:
                    sighting.start_told_at = read_status_time(item)
                if sighting.ended_at is None and sighting.phase in ("Succeeded", "Failed"):
                    sighting.ended_at = read_status_time(item)


def _note_containers(sighting: Sighting, pod: dict[str, Any]) -> None:
    for status in pod.get("status", {}).get("containerStatuses") or []:
        if status["name"] != MAIN:
            continue
        count = status["restartCount"]
        sighting.has_started |= count > 0 or "running" in status.get("state", {})
        for instance, state in ((count, status.get("state", {})), (count - 1, status.get("lastState", {}))):
            if (ended := state.get("terminated")) is not None:
                end = ContainerEnd(ended["exitCode"], ended.get("reason", ""), ended.get("finishedAt") or "")
                sighting.ends[instance] = end
                sighting.has_started |= bool(ended.get("startedAt"))


def read_status_time(item: dict[str, Any]) -> float:
    """When the status of an object was written last, by the apiserver's own record; else now."""
    fields = item["metadata"].get("managedFields") or []
    written = [one["time"] for one in fields if one.get("subresource") == "status" and "time" in one]
    return max((datetime.fromisoformat(text).timestamp() for text in written), default=time.time())


def _iter_events(response: Any) -> Iterator[dict[str, Any]]:
    for line in response:
        yield json.loads(line)
