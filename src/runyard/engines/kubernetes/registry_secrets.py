"""The Secret with the registry credentials of a project, kept in step with the project's own secret.

Runs name it in `imagePullSecrets`. It is written, or deleted if there are no credentials, when they change and before
a run is released. Before a release, a process that did so within `FRESH_SECONDS` sends nothing, unless the project was
prepared meanwhile: it may be another one of that name, whose namespace is empty. The Secret is also deleted with the
project. A Secret of a stranger is left alone.
"""

import hashlib
import json
import time
from collections.abc import Mapping

from runyard.app.engine import EngineRefusal, ReadRegistries
from runyard.app.lru_map import LruMap
from runyard.domain.admission import AdmittedObject, admit_project_objects
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.namespaces import Namespaces, find_project
from runyard.kube import AlreadyExists, Client, NotFound, Object
from runyard.kube.resources import SECRETS
from runyard.manifests.metadata import INSTALLATION_LABEL, to_label_value
from runyard.manifests.names import registry_secret_name
from runyard.manifests.project_objects import ProjectIdentity, render_registry_secret
from runyard.spec.problems import Refused
from runyard.spec.registries import RegistryCredential

MOST_WRITTEN = 10_000
"""How many projects are remembered with what was written for them."""
FRESH_SECONDS = 60.0
"""How long what was written is believed to be there: another replica, or a stranger, may have changed it since."""

_NONE = ""


class RegistrySecrets:
    """The Secrets with registry credentials of one installation. Raises `KubeError`."""

    def __init__(self, client: Client, writes: ClusterWrites, namespaces: Namespaces, *, installation: str) -> None:
        self._client = client
        self._writes = writes
        self._namespaces = namespaces
        self._installation = installation
        self._written: LruMap[str, tuple[str, float]] = LruMap(most=MOST_WRITTEN)
        """A digest of what this process wrote, and when, by project."""

    async def ensure(self, project: str, read: ReadRegistries, *, is_certain: bool = False) -> None:
        """Write the credentials of a project, or delete the Secret if there are none. Idempotent.

        Reads them again after each write, until they are what was written: they may have changed meanwhile, and a
        slower writer would undo a newer one. With `is_certain` something is sent, whatever is remembered. Raises
        `EngineRefusal` if a stranger has the Secret's name.
        """
        if is_certain:
            self.forget(project)
        written: str | None = None
        while True:
            registries = await read()
            digest, now = _hash(registries), time.monotonic()
            before, written_at = self._written.find(project) or (None, 0.0)
            if digest == written or (before == digest and now - written_at < FRESH_SECONDS):
                return
            if registries:
                await self._write(self._admit(project, registries), project)
            else:
                await self._delete(project)
            written = digest
            self._written.put(project, (digest, now))

    async def remove(self, project: str) -> None:
        """Delete the Secret of a project that is being removed. Idempotent."""
        await self._delete(project)
        self.forget(project)

    def forget(self, project: str) -> None:
        """Believe no longer that what was written is there: a project of that name may have been created again."""
        self._written.discard(project)

    async def _write(self, admitted: AdmittedObject, project: str) -> None:
        try:
            await self._writes.create(admitted)
        except AlreadyExists:
            found = await self._find(project)
            if found is not None and not self._is_ours(found, project):
                message = f"Secret {admitted.name} exists, and Runyard did not create it for project {project}"
                raise EngineRefusal(Reason.REGISTRIES_TAKEN, message) from None
            await self._writes.replace(admitted)

    async def _delete(self, project: str) -> None:
        found = await self._find(project)
        if found is not None and self._is_ours(found, project):
            metadata = found["metadata"]
            await self._writes.delete(SECRETS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])

    async def _find(self, project: str) -> Object | None:
        namespace = self._namespaces.get_namespace(project)
        try:
            return await self._client.get(
                SECRETS,
                registry_secret_name(project),
                namespace=namespace,
                deadline_seconds=self._writes.request_seconds,
            )
        except NotFound:
            return None

    def _is_ours(self, secret: Object, project: str) -> bool:
        labels = secret["metadata"].get("labels") or {}
        is_of_installation = labels.get(INSTALLATION_LABEL) == to_label_value(self._installation)
        return is_of_installation and find_project(secret) == project

    def _admit(self, project: str, registries: Mapping[str, RegistryCredential]) -> AdmittedObject:
        namespace = self._namespaces.get_namespace(project)
        identity = ProjectIdentity(project=project, namespace=namespace, installation=self._installation)
        try:
            rendered = render_registry_secret(identity, registries=registries)
            (admitted,) = admit_project_objects([rendered], project=project, installation=self._installation)
        except Refused as refused:
            raise EngineRefusal(Reason.ADMISSION_REFUSED, str(refused)) from refused
        return admitted


def _hash(registries: Mapping[str, RegistryCredential]) -> str:
    """A digest of the credentials: passwords are not kept in memory."""
    if not registries:
        return _NONE
    logins = sorted((host, login.user, login.password) for host, login in registries.items())
    return hashlib.sha256(json.dumps(logins).encode()).hexdigest()
