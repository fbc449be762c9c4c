"""The routes of the stub: what each does to what the stub remembers."""

import base64
import re
import uuid
from collections.abc import Callable
from typing import Any

from tests.e2e.sdk.stub_state import PROFILES, Entity, Memory, Project, RefusalError, page_of

CLIENT_ID = "stub"
LOG_TEXT = "what the run said\n"

_ENTITIES = r"/api/v1/-/(?P<project>[^/]+)/(?P<kind_of>[a-z]+)s"
Answer = Any


class Call:
    """One request, understood."""

    def __init__(
        self, memory: Memory, *, user: str, query: list[tuple[str, str]], body: Any, match: re.Match[str]
    ) -> None:
        self.memory, self.user, self.body = memory, user, body
        self.query = dict(query)
        self.filters = [value for key, value in query if key == "fq"]
        self.words = match.groupdict()

    @property
    def project(self) -> Project:
        """The project that the path names."""
        return self.memory.project(self.words["project"], self.user)

    @property
    def is_cascading(self) -> bool:
        """Whether what hangs on the entity goes too."""
        return self.query.get("cascade") == "true"


def _list_projects(call: Call) -> Answer:
    visible = [one for one in call.memory.projects.values() if call.user in {one.owner, *one.shares.values()}]
    return page_of([one.described() for one in visible], call.query)


def _create_project(call: Call) -> Answer:
    name = call.body["name"]
    if name in call.memory.projects:
        raise RefusalError(400, f"Duplicated entity project:{name}.")
    entity = {**call.body, "id": name, "project": name, "key": f"store://{name}", "user": call.user}
    call.memory.projects[name] = Project(entity, call.user)
    return call.memory.projects[name].described()


def _update_project(call: Call) -> Answer:
    project = call.project
    project.entity = {**project.entity, **{key: call.body[key] for key in ("metadata", "spec", "status")}}
    return project.described()


def _delete_project(call: Call) -> Answer:
    if any(call.project.entities.values()) and not call.is_cascading:
        raise RefusalError(400, "the project is not empty: delete it with cascade")
    del call.memory.projects[call.words["project"]]


def _share(call: Call) -> Answer:
    call.project.shares[uuid.uuid4().hex] = call.query["user"]


def _unshare(call: Call) -> Answer:
    call.project.shares.pop(call.query["id"], None)


def _delete_all_versions(call: Call) -> Answer:
    for entity in call.project.find(call.words["kind_of"], {"name": call.query["name"], "versions": "all"}):
        call.project.delete(call.words["kind_of"], entity["id"], cascade=call.is_cascading)


def _delete(call: Call) -> Answer:
    call.project.delete(call.words["kind_of"], call.words["id"], cascade=call.is_cascading)


def _get(call: Call) -> Entity:
    return call.project.get(call.words["kind_of"], call.words["id"])


def _set_secrets(call: Call) -> Answer:
    call.project.secrets.update(call.body)


def _get_secrets(call: Call) -> Answer:
    return {key: call.project.secrets[key] for key in call.query["keys"].split(",") if key in call.project.secrets}


def _stop(call: Call) -> Answer:
    _get(call)["status"]["state"] = "STOPPED"


def _resume(call: Call) -> Answer:
    if "+serve" not in _get(call)["spec"]["task"]:
        raise RefusalError(400, "only a run that serves can be resumed")
    _get(call)["status"]["state"] = "READY"


def _logs(call: Call) -> Answer:
    run = _get(call)
    name = f"{run['id']}-main"
    metadata = {"project": run["project"], "name": name, "created": run["metadata"]["created"]}
    return [
        {
            "id": name, "kind": "log", "name": name, "project": run["project"], "run": run["id"], "user": run["user"],
            "metadata": {**metadata, "updated": run["metadata"]["updated"]},
            "spec": {"run": run["id"], "timestamp": 1794726783348},
            "status": {"container": "main", "pod": f"run-{run['id']}", "namespace": run["project"]},
            "content": base64.b64encode(LOG_TEXT.encode()).decode(),
        }
    ]  # fmt: skip


def _metrics(call: Call) -> Answer:
    found = call.project.metrics.get(_get(call)["id"], {})
    return found if call.words.get("name") is None else {call.words["name"]: found.get(call.words["name"], [])}


def _set_metric(call: Call) -> Answer:
    call.project.metrics.setdefault(_get(call)["id"], {})[call.words["name"]] = call.body


def _files(call: Call) -> Answer:
    files = _get(call)["status"].get("files", [])
    return page_of(files, call.query) if "page" in call.query else files


def _configuration(call: Call) -> Answer:
    return {"dhcore_endpoint": call.memory.endpoint, "dhcore_name": "stub", "k8s_resource_profiles": list(PROFILES)}


def _openid(call: Call) -> Answer:
    return {"issuer": call.memory.endpoint, "token_endpoint": f"{call.memory.endpoint}/auth/token"}


def _token(call: Call) -> Answer:
    user = call.memory.tokens.get(call.body.get("subject_token") or call.body.get("refresh_token"))
    if user is None:
        raise RefusalError(401, "this token is not known")
    access, refresh = uuid.uuid4().hex, uuid.uuid4().hex
    call.memory.tokens |= {access: user, refresh: user}
    tokens = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600}
    return {**tokens, "client_id": CLIENT_ID, "issuer": call.memory.endpoint}


def _missing_schema(call: Call) -> Answer:
    raise RefusalError(400, f"missing spec: no {call.words['kind_of']} of kind {call.words['kind']}")


OPEN_ROUTES: list[tuple[str, str, Callable[[Call], Answer]]] = [
    ("GET", r"/\.well-known/configuration", _configuration),
    ("GET", r"/\.well-known/openid-configuration", _openid),
    ("POST", r"/auth/token", _token),
]
ROUTES: list[tuple[str, str, Callable[[Call], Answer]]] = [
    ("GET", r"/api/auth", lambda call: {"username": call.user, "permissions": []}),
    ("GET", r"/api/v1/schemas/(?P<kind_of>[a-z]+)/(?P<kind>[^/]+)", _missing_schema),
    ("GET", r"/api/v1/projects", _list_projects),
    ("POST", r"/api/v1/projects", _create_project),
    ("GET", r"/api/v1/projects/(?P<project>[^/]+)", lambda call: call.project.described()),
    ("PUT", r"/api/v1/projects/(?P<project>[^/]+)", _update_project),
    ("DELETE", r"/api/v1/projects/(?P<project>[^/]+)", _delete_project),
    ("POST", r"/api/v1/projects/(?P<project>[^/]+)/share", _share),
    ("DELETE", r"/api/v1/projects/(?P<project>[^/]+)/share", _unshare),
    ("GET", r"/api/v1/projects/(?P<project>[^/]+)/share",
     lambda call: [{"id": key, "user": user} for key, user in call.project.shares.items()]),
    ("GET", r"/api/v1/-/(?P<project>[^/]+)/solr/search/item",
     lambda call: page_of(call.project.search(call.filters, call.query.get("q")), call.query)),
    ("PUT", r"/api/v1/-/(?P<project>[^/]+)/secrets/data", _set_secrets),
    ("GET", r"/api/v1/-/(?P<project>[^/]+)/secrets/data", _get_secrets),
    ("GET", _ENTITIES, lambda call: page_of(call.project.find(call.words["kind_of"], call.query), call.query)),
    ("POST", _ENTITIES, lambda call: call.project.create(call.words["kind_of"], call.body, user=call.user)),
    ("DELETE", _ENTITIES, _delete_all_versions),
    ("GET", _ENTITIES + r"/(?P<id>[^/]+)", _get),
    ("PUT", _ENTITIES + r"/(?P<id>[^/]+)",
     lambda call: call.project.update(call.words["kind_of"], call.words["id"], call.body)),
    ("DELETE", _ENTITIES + r"/(?P<id>[^/]+)", _delete),
    ("GET", _ENTITIES + r"/(?P<id>[^/]+)/logs", _logs),
    ("POST", _ENTITIES + r"/(?P<id>[^/]+)/stop", _stop),
    ("POST", _ENTITIES + r"/(?P<id>[^/]+)/resume", _resume),
    ("GET", _ENTITIES + r"/(?P<id>[^/]+)/metrics(/(?P<name>[^/]+))?", _metrics),
    ("PUT", _ENTITIES + r"/(?P<id>[^/]+)/metrics/(?P<name>[^/]+)", _set_metric),
    ("GET", _ENTITIES + r"/(?P<id>[^/]+)/files/info", _files),
]  # fmt: skip
