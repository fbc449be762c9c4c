# Generated from ../aio/project.py by `make sdk`: do not edit.
"""A project: its functions, runs, secrets, config maps, volumes and files."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Unpack
from uuid import uuid4

from runyard.sdk.arguments import FunctionArguments
from runyard.sdk.calls import Json, delete, get, post, put, select
from runyard.sdk.captured_functions import CapturedFunction
from runyard.sdk.documents import EntityView
from runyard.sdk.errors import AlreadyExists, NotFound
from runyard.sdk.function_specs import DEFAULT_KIND, draft_function, make_function_spec
from runyard.sdk.html_tables import Listing
from runyard.sdk.records import ConfigMap, KeptVolume, Role, Share
from runyard.sdk.sync.function import Function
from runyard.sdk.sync.pages import read_pages
from runyard.sdk.sync.project_files import MOST_LISTED, ProjectFiles, make_metadata
from runyard.sdk.sync.run import Run


class Project(ProjectFiles):
    """A project."""

    _type = "project"

    def refresh(self) -> "Project":
        """Read it again."""
        self._document = self._transport.fetch(get("projects", self.name))
        return self

    def delete(self, *, cascade: bool = False) -> None:
        """Delete it; a project that is not empty only with `cascade`, which stops and deletes its runs."""
        self._transport.fetch(delete("projects", self.name, cascade="true" if cascade else "false"))

    def list_shares(self) -> list[Share]:
        """Its members, without its creator."""
        return [Share(found) for found in self._transport.fetch(get("projects", self.name, "share"))]

    def share(self, user: str, *, role: Role = "editor") -> Share:
        """Add a member, or change their role; `*` is everyone. For owners."""
        call = post("projects", self.name, "share", is_safe_to_repeat=True, user=user, role=role)
        return Share(self._transport.fetch(call))

    def unshare(self, user: str) -> None:
        """End a membership. For owners. Raises `NotFound`."""
        self._transport.fetch(delete("projects", self.name, "share", user=user))

    def new_function(
        self,
        name: str,
        kind: str = DEFAULT_KIND,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
        description: str | None = None,
        labels: list[str] | None = None,
        **arguments: Unpack[FunctionArguments],
    ) -> Function:
        """Create a version of a function.

        Code is given as `code` (text) or `code_src` (a local file, or an address that the server reads), with its
        `handler`. `python_version` is that of this interpreter if it is not given. The other arguments are defaults
        for runs of the function.
        """
        spec = make_function_spec(kind, arguments)
        known = make_metadata(description, labels)
        version = id or uuid4().hex
        try:
            return self.create_function(name, kind, spec, id=version, metadata=known)
        except AlreadyExists:
            if id is not None:
                raise
            return self.get_function(name, id=version)  # a request that was repeated had arrived

    def ensure_function(
        self, name: str, kind: str, arguments: Mapping[str, Any], *, folder: Path | None = None
    ) -> Function:
        """The version of a function with this content; creates it if there is none. Idempotent."""
        document = draft_function(self.name, name, kind, make_function_spec(kind, arguments, folder=folder))
        try:
            return Function(self._create("functions", document), self._transport)
        except AlreadyExists:
            return self.get_function(name, id=document["id"])

    def save_function(self, captured: CapturedFunction[Any, Any]) -> Function:
        """Store a function that `@ry.function` captured; the same source and arguments are the same version."""
        return self.ensure_function(captured.name, DEFAULT_KIND, captured.to_arguments())

    def create_function(
        self,
        name: str,
        kind: str,
        spec: Json,
        *,
        id: str,  # noqa: A002 - the API's name
        metadata: Json,
    ) -> Function:
        """Create a version of a function from a spec as it is, which the server checks."""
        body = {"kind": kind, "name": name, "id": id, "project": self.name, "metadata": metadata, "spec": spec}
        return Function(self._create("functions", body), self._transport)

    def get_function(
        self,
        name: str,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
    ) -> Function:
        """The newest version of a function, or the one with that id. Raises `NotFound` with the nearest name."""
        return Function(self._get_named("function", name, entity_id=id), self._transport)

    def list_functions(self, *, limit: int = MOST_LISTED) -> list[Function]:
        """The newest version of each function, newest first."""
        found = read_pages(self._transport, "-", self.name, "functions", limit=limit)
        return Listing(Function(document, self._transport) for document in found)

    def get_run(self, id: str) -> Run:  # noqa: A002 - the API's name
        """A run by its id."""
        return Run(self._transport.fetch(get("-", self.name, "runs", id)), self._transport)

    def list_runs(
        self,
        *,
        state: str | None = None,
        action: str | None = None,
        function: str | None = None,
        limit: int = MOST_LISTED,
    ) -> list[Run]:
        """Runs, newest first. `function` is a name or the reference of a version."""
        if function is not None and "://" not in function:
            function = (self.get_function(function)).reference
        path = ("-", self.name, "runs")
        found = read_pages(self._transport, *path, state=state, action=action, function=function, limit=limit)
        return Listing(Run(document, self._transport) for document in found)

    def new_secret(self, name: str, secret_value: str) -> None:
        """Store a secret of that name, or change its value."""
        with suppress(AlreadyExists):
            self._create("secrets", {"kind": "secret", "name": name, "id": uuid4().hex})
        self._transport.fetch(put("-", self.name, "secrets", "data", body={name: secret_value}))

    def get_secret(self, name: str) -> str:
        """The value of a secret. Raises `NotFound`."""
        found = self._transport.fetch(get("-", self.name, "secrets", "data", keys=name))
        if name not in found:
            raise NotFound(f"project {self.name} has no secret {name}", status=404)
        return str(found[name])

    def list_secrets(self, *, limit: int = MOST_LISTED) -> list[str]:
        """The names of its secrets."""
        return Listing(secret.name for secret in self.describe_secrets(limit=limit))

    def describe_secrets(self, *, limit: int = MOST_LISTED) -> list[EntityView]:
        """Its secrets by name, with who created them and when, without their values."""
        found = read_pages(self._transport, "-", self.name, "secrets", limit=limit)
        return Listing(EntityView(document) for document in found)

    def delete_secret(self, name: str) -> None:
        """Delete a secret and its value. Raises `NotFound` with the nearest name."""
        document = self._get_named("secret", name, entity_id=None)
        self._transport.fetch(delete("-", self.name, "secrets", str(document["id"])))

    def new_config_map(
        self,
        name: str,
        data: Mapping[str, str],
        *,
        id: str | None = None,  # noqa: A002 - the API's name
        description: str | None = None,
    ) -> ConfigMap:
        """Store files with text as a version of a config map: their texts by name."""
        metadata = {} if description is None else {"description": description}
        body = {"kind": "configmap", "name": name, "id": id or uuid4().hex, "metadata": metadata}
        return ConfigMap(self._create("configmaps", {**body, "spec": {"data": dict(data)}}))

    def get_config_map(
        self,
        name: str,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
    ) -> ConfigMap:
        """The newest version of a config map, or the one with that id. Raises `NotFound` with the nearest name."""
        return ConfigMap(self._get_named("configmap", name, entity_id=id))

    def list_config_maps(self, *, name: str | None = None, limit: int = MOST_LISTED) -> list[ConfigMap]:
        """The newest version of each config map; with a name, every version of that one, newest first."""
        versions = None if name is None else "all"
        path = ("-", self.name, "configmaps")
        found = read_pages(self._transport, *path, name=name, versions=versions, limit=limit)
        return Listing(ConfigMap(document) for document in found)

    def delete_config_map(
        self,
        name: str,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
    ) -> None:
        """Delete a config map with all its versions, or one version. Raises `NotFound` with the nearest name."""
        found = self._get_named("configmap", name, entity_id=id)
        path = ("-", self.name, "configmaps")
        named = delete(*path, name=name) if id is None else delete(*path, str(found["id"]))
        self._transport.fetch(named)

    def new_volume(self, name: str, *, size: str | None = None, storage_class: str | None = None) -> KeptVolume:
        """Create a volume that outlives runs, which mount it as `shared_volume`. Raises `AlreadyExists`."""
        spec = select({"size": size, "storage_class": storage_class})
        body = {"kind": "volume", "name": name, "spec": spec}
        return KeptVolume(self._transport.fetch(post("-", self.name, "volumes", body=body)))

    def list_volumes(self, *, limit: int = MOST_LISTED) -> list[KeptVolume]:
        """Its volumes, and the claims that outlive their runs, by name."""
        found = read_pages(self._transport, "-", self.name, "volumes", limit=limit)
        return Listing(KeptVolume(document) for document in found)

    def get_volume(self, name: str) -> KeptVolume:
        """A volume, with who uses it. Raises `NotFound`."""
        return KeptVolume(self._transport.fetch(get("-", self.name, "volumes", name)))

    def delete_volume(self, name: str) -> None:
        """Delete a volume and its data. Refused while a run uses it."""
        self._transport.fetch(delete("-", self.name, "volumes", name))
