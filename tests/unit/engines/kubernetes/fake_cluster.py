"""A cluster in memory: objects with UIDs and resourceVersions, and the preconditions that the engine relies on.

Several servers share one. Each has a client of its own, which can freeze before a request.
"""

import asyncio
import itertools
import json
from typing import Any, Literal, Self

from runyard.kube import AlreadyExists, Conflict, Invalid, Listing, NotFound, Object, Resource

FAILED_TEST = "the server rejected our request due to an error in our request"


class FakeCluster:
    """The objects of all namespaces, by kind and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self._counter = itertools.count(1)

    def find(self, kind: str, name: str | None = None) -> Object | None:
        """The object of that name; without a name, the only one of its kind."""
        found = [item for (known, called), item in self.objects.items() if known == kind and name in (None, called)]
        assert len(found) <= 1
        return found[0] if found else None

    def list_kinds(self) -> list[str]:
        return sorted(kind for kind, _ in self.objects)

    def store(self, body: Object, *, known: Object | None = None) -> Object:
        """Create an object, or replace a known one: its version changes only if its content does."""
        metadata = {**body["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}
        metadata["uid"] = f"uid-{next(self._counter)}" if known is None else known["metadata"]["uid"]
        version = None if known is None else known["metadata"]["resourceVersion"]
        made = {**body, "metadata": {**metadata, "resourceVersion": version}}
        if made != known:
            made["metadata"]["resourceVersion"] = str(next(self._counter))
        self.objects[body["kind"], metadata["name"]] = made
        return made

    def take(self, kind: str, name: str) -> Object:
        if (kind, name) not in self.objects:
            raise NotFound(f"no {kind} {name}", status=404, is_status=True)
        return self.objects[kind, name]

    def remove(self, kind: str, name: str) -> None:
        """Delete an object and what it owns, as the garbage collector does in the end."""
        uid = self.objects.pop((kind, name))["metadata"]["uid"]
        for key, item in list(self.objects.items()):
            if any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", ())):
                del self.objects[key]


class FakeClient:
    """The methods of `kube.Client` that the steps of a run use."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.requests: list[str] = []
        """Method and kind."""
        self.reached = asyncio.Event()
        """Set when the request is reached at which it freezes."""
        self.thawed = asyncio.Event()
        self._frozen_at: str | None = None

    def with_priority(self, _: object) -> Self:
        return self

    def freeze_at(self, request: str) -> None:
        """Freeze before the next request like that, such as `PUT Secret`, until `thawed` is set."""
        self._frozen_at = request
        self.reached.clear()
        self.thawed.clear()

    async def get(self, resource: Resource, name: str, **_: object) -> Object:
        await self._begin(f"GET {resource.kind}")
        return self.cluster.take(resource.kind, name)

    async def list(self, resource: Resource, **_: object) -> Listing:
        await self._begin(f"LIST {resource.kind}")
        return Listing([item for (kind, _), item in self.cluster.objects.items() if kind == resource.kind], "1")

    async def send_encoded(
        self,
        method: Literal["POST", "PUT", "PATCH"],
        resource: Resource,
        body: bytes,
        *,
        name: str | None = None,
        **_: object,
    ) -> Object:
        await self._begin(f"{method} {resource.kind}")
        content = json.loads(body)
        if method == "POST":
            if (resource.kind, content["metadata"]["name"]) in self.cluster.objects:
                raise AlreadyExists("it exists", status=409, is_status=True)
            return self.cluster.store(content)
        assert name is not None
        known = self.cluster.take(resource.kind, name)
        if method == "PUT" and content["metadata"].get("resourceVersion") not in (
            None,
            known["metadata"]["resourceVersion"],
        ):
            raise Conflict("it was changed", status=409, is_status=True)
        return self.cluster.store(content if method == "PUT" else _patch(known, content), known=known)

    async def delete(
        self, resource: Resource, name: str, *, uid: str, resource_version: str | None = None, **_: object
    ) -> Object:
        await self._begin(f"DELETE {resource.kind}")
        metadata = self.cluster.take(resource.kind, name)["metadata"]
        if uid != metadata["uid"] or resource_version not in (None, metadata["resourceVersion"]):
            raise Conflict("a precondition failed", status=409, is_status=True)
        self.cluster.remove(resource.kind, name)
        return {"kind": "Status"}

    async def _begin(self, request: str) -> None:
        self.requests.append(request)
        if request == self._frozen_at:
            self._frozen_at = None
            self.reached.set()
            await self.thawed.wait()


def _patch(known: Object, operations: list[dict[str, Any]]) -> Object:
    """Apply a JSON patch whose paths exist but for their last part."""
    changed: Object = json.loads(json.dumps(known))
    for operation in operations:
        *path, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
        parent: Any = changed
        for part in path:
            parent = parent[part]
        if operation["op"] == "test":
            if parent.get(last) != operation["value"]:
                raise Invalid(FAILED_TEST, status=422, is_status=True)
        else:
            parent[last] = operation["value"]
    return changed
