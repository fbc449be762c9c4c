"""What the stub remembers, and the rules of the facts by which it answers. In memory; no engine: runs stay READY."""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

PROFILES = ("cpu-small", "gpu-one")
PAGE = 25
ENTITY_TYPES = (
    "artifact", "containerimage", "dataitem", "extension", "function", "model", "run", "secret", "task", "trigger",
    "workflow",
)  # fmt: skip
LISTED_IN_PROJECTS = ("functions", "artifacts", "workflows", "dataitems", "models")
UNVERSIONED = ("task", "run")
STATUS_FROM_CLIENT = ("outputs", "results", "message", "metrics")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")

Entity = dict[str, Any]


class RefusalError(Exception):
    """An answer that is not 2xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(slots=True)
class Project:
    """A project and all that is in it; the newest last."""

    entity: Entity
    owner: str
    shares: dict[str, str] = field(default_factory=dict)
    entities: dict[str, dict[str, Entity]] = field(default_factory=lambda: {name: {} for name in ENTITY_TYPES})
    secrets: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)

    def get(self, kind_of: str, entity_id: str) -> Entity:
        """One entity; 404 in the words that the SDK looks for."""
        if entity_id not in self.entities[kind_of]:
            raise RefusalError(404, f"No such EntityName: {kind_of} {entity_id}")
        return self.entities[kind_of][entity_id]

    def create(self, kind_of: str, body: Entity, *, user: str) -> Entity:
        """Store a new entity under the client's id."""
        if not body.get("kind") or "spec" not in body:
            raise RefusalError(400, f"missing spec: a {kind_of} needs a kind and a spec")
        entity_id = str(body.get("id") or uuid.uuid4().hex)
        if entity_id in self.entities[kind_of]:
            raise RefusalError(400, f"Duplicated entity {kind_of}:{entity_id}.")
        if kind_of == "task":
            self._refuse_second_task(body)
        if kind_of == "run":
            self._check_run(body["spec"])
        name = str(body.get("name") or entity_id)
        entity = {**body, "id": entity_id, "name": name, "project": self.entity["name"], "user": user}
        entity |= {part: _without_nulls(body.get(part) or {}) for part in ("metadata", "spec", "status")}
        suffix = entity_id if kind_of in UNVERSIONED else f"{name}:{entity_id}"
        entity["key"] = f"store://{self.entity['name']}/{kind_of}/{body['kind']}/{suffix}"
        entity["metadata"] = {"version": entity_id, **entity["metadata"], "created_by": user}
        entity["status"].setdefault("state", "CREATED")
        if kind_of == "task":
            entity["spec"] = _readable_by_every_line(entity["spec"])
        if kind_of == "run" and not body["spec"].get("local_execution"):
            entity["status"]["state"] = "READY"
        self.entities[kind_of][entity_id] = entity
        return entity

    def _refuse_second_task(self, body: Entity) -> None:
        for task in self.entities["task"].values():
            if task["kind"] == body["kind"] and task["spec"].get("function") == body["spec"].get("function"):
                raise RefusalError(400, f"Duplicated entity task:{task['id']}.")

    def _check_run(self, spec: Entity) -> None:
        task_id = str(spec.get("task", "")).rpartition("/")[2]
        self.get("task", task_id)
        if spec.get("profile") and spec["profile"] not in PROFILES:
            raise RefusalError(400, f"spec.profile: no profile {spec['profile']!r}; there are {', '.join(PROFILES)}")
        known = {secret["name"] for secret in self.entities["secret"].values()}
        for name in spec.get("secrets", []):
            if name not in known:
                raise RefusalError(400, f"spec.secrets: no secret {name!r} in this project")
        for path, value in _leaves(spec.get("resources") or {}, "spec.resources"):
            if not _QUANTITY.fullmatch(str(value)):
                raise RefusalError(400, f"{path}: {value!r} is not a quantity")

    def update(self, kind_of: str, entity_id: str, body: Entity) -> Entity:
        """Take what a client may change. A run's state and spec are its own only where it executes the run."""
        entity = self.get(kind_of, entity_id)
        status = _without_nulls(body.get("status", {}))
        if kind_of == "run" and not entity["spec"].get("local_execution"):
            status = {key: value for key, value in status.items() if key in STATUS_FROM_CLIENT}
        elif kind_of in {"run", "task", "trigger"}:
            entity["spec"] = _without_nulls(body.get("spec", {}))
            if kind_of == "task":
                entity["spec"] = _readable_by_every_line(entity["spec"])
        entity["status"] = {**entity["status"], **status}
        entity["metadata"] = {**entity["metadata"], **_without_nulls(body.get("metadata", {}))}
        return entity

    def delete(self, kind_of: str, entity_id: str, *, cascade: bool) -> None:
        """Forget an entity, and with `cascade` what hangs on it."""
        entity = self.get(kind_of, entity_id)
        del self.entities[kind_of][entity_id]
        self.metrics.pop(entity_id, None)
        if kind_of == "secret":
            self.secrets.pop(entity["name"], None)
        if not cascade or kind_of not in {"function", "task"}:
            return
        below, reference = ("task", f"{entity['kind']}://{entity['project']}/{entity['name']}:{entity_id}")
        if kind_of == "task":
            below, reference = ("run", f"{entity['kind']}://{entity['project']}/{entity_id}")
        for found in [one for one in self.entities[below].values() if one["spec"].get(kind_of) == reference]:
            self.delete(below, found["id"], cascade=True)

    def find(self, kind_of: str, query: dict[str, str]) -> list[Entity]:
        """What a list answers, newest first: one version per name unless all are asked for."""
        found = [entity for entity in reversed(self.entities[kind_of].values()) if _fits(entity, query)]
        if kind_of in UNVERSIONED or query.get("versions") == "all":
            return found
        newest: dict[str, Entity] = {}
        for entity in found:
            newest.setdefault(entity["name"], entity)
        return list(newest.values())

    def search(self, filters: list[str], text: str | None) -> list[Entity]:
        """Every version of everything that fits all filters."""
        everything = [
            {**entity, "type": kind_of}
            for kind_of in ENTITY_TYPES
            for entity in reversed(self.entities[kind_of].values())
        ]
        return [item for item in everything if all(_fits_filter(item, one) for one in filters) and _has(item, text)]

    def described(self) -> Entity:
        """The project as a GET answers it: with the newest version of each entity, in short unless embedded."""
        lists = {
            plural: [_in_short(entity) for entity in self.find(plural.removesuffix("s"), {})]
            for plural in LISTED_IN_PROJECTS
        }
        return {**self.entity, "spec": {**self.entity["spec"], **lists}}


@dataclass(slots=True)
class Memory:
    """All that the stub remembers."""

    endpoint: str
    projects: dict[str, Project] = field(default_factory=dict)
    # Whose token it is.
    tokens: dict[str, str] = field(default_factory=dict)

    def project(self, name: str, user: str) -> Project:
        """A project that this user may see."""
        if name not in self.projects:
            raise RefusalError(404, f"No such EntityName: project {name}")
        project = self.projects[name]
        if user != project.owner and user not in project.shares.values():
            raise RefusalError(403, f"{user} has no role in project {name}")
        return project


def page_of(found: list[Entity], query: dict[str, str]) -> Entity:
    """The envelope; a page past the end is empty, which SDK 0.13 relies on."""
    number, size = int(query.get("page", 0)), int(query.get("size", PAGE))
    content = found[number * size : (number + 1) * size]
    pages = -(-len(found) // size)
    return {
        "content": content, "totalElements": len(found), "totalPages": pages, "number": number, "size": size,
        "numberOfElements": len(content), "first": number == 0, "last": number >= pages - 1, "empty": not content,
    }  # fmt: skip


def _fits(entity: Entity, query: dict[str, str]) -> bool:
    spec = entity["spec"]
    is_exact = all(query[key] == entity[key] for key in ("name", "kind", "user") if key in query)
    is_exact = is_exact and all(query[key] == spec.get(key) for key in ("function", "workflow", "task") if key in query)
    has_labels = set(query.get("labels", "").split(",")) - {""} <= set(entity["metadata"].get("labels", []))
    return (
        is_exact
        and has_labels
        and query.get("state", entity["status"]["state"]) == entity["status"]["state"]
        and query.get("action", "") in str(spec.get("task", ""))
        and (query.get("q", "").lower() in f"{entity['id']} {entity['name']}".lower())
    )


def _fits_filter(item: Entity, filter_: str) -> bool:
    path, _, wanted = filter_.partition(":")
    wanted = wanted.strip('()"')
    value: Any = item
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    if path == "metadata.updated":
        return True
    if path == "metadata.labels":
        return set(wanted.split(" AND ")) <= set(value)
    if path == "type":
        return value in wanted.split(" OR ")
    return bool(wanted in value) if path == "metadata.description" else bool(wanted == value)


def _has(item: Entity, text: str | None) -> bool:
    return text is None or text in f"{item['name']} {item['metadata'].get('description', '')}"


def _in_short(entity: Entity) -> Entity:
    if entity["metadata"].get("embedded"):
        return entity
    return {key: entity[key] for key in ("id", "name", "kind", "project", "key", "metadata")}


def _readable_by_every_line(spec: Entity) -> Entity:
    """A task's spec without what breaks the list of a line.

    A task has one kind in all lines, unlike a run: amounts that 0.13 reads the others cannot, and the other way
    round; and 0.13 knows no shared volumes. A server keeps them for itself.
    """
    volumes = [volume for volume in spec.get("volumes", []) if volume["volume_type"] != "shared_volume"]
    return {key: value for key, value in spec.items() if key not in {"resources", "volumes"}} | (
        {"volumes": volumes} if volumes else {}
    )


def _without_nulls(fields: Entity) -> Entity:
    """Without the fields that are null, which the SDKs cannot read. What is deeper is the user's, and stays."""
    return {key: inner for key, inner in fields.items() if inner is not None}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}")
    else:
        yield path, value
