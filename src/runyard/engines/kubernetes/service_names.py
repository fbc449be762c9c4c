"""The stable name of a service (`service_name`): a Service of its own, the alias, that leads to one run at a time.

The first run of a name creates the alias when it is released, since nobody else is served. Every other run leaves it
alone until its own first pod is ready; so a version that never starts takes nothing away from the one that works. Then
the newest run has it, whatever the order of events. `runyard.io/serves-run-of` says when the run was submitted that the
alias leads to; it is missing as long as that run has not been ready.

The patch tests the state of the alias that was read: of two servers that decide at the same time, the second decides
anew. A call that was interrupted is repeated: it finds what was done.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeGuard

from runyard.app.engine import Assignment, EngineRefusal, EngineUnavailable
from runyard.domain.admission import AdmittedObject
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.kube_errors import engine_errors, is_failed_test
from runyard.engines.kubernetes.namespaces import PROJECT_LABEL, Namespaces
from runyard.engines.kubernetes.rendered_runs import RenderedRuns, name_anchor
from runyard.engines.kubernetes.run_objects import AnchorView, get_generation
from runyard.engines.kubernetes.run_watch import RunWatch
from runyard.kube import AlreadyExists, Client, Invalid, NotFound, Object
from runyard.kube.resources import SERVICES
from runyard.manifests.metadata import INSTALLATION_LABEL, RUN_UID_LABEL, SERVED_ANNOTATION, to_label_value
from runyard.manifests.patches import TakeServiceName, is_served_moment

MOST_ATTEMPTS = 4
"""How often the switch is decided anew because another server changed the alias."""


class ServiceNames:
    """The aliases of one installation. Raises `EngineUnavailable` and `EngineRefusal`."""

    def __init__(
        self,
        client: Client,
        *,
        watch: RunWatch,
        writes: ClusterWrites,
        rendered: RenderedRuns,
        namespaces: Namespaces,
        request_seconds: float,
    ) -> None:
        self._client = client
        self._watch = watch
        self._writes = writes
        self._rendered = rendered
        self._namespaces = namespaces
        self._seconds = request_seconds

    async def take(self, assignment: Assignment, uid: str) -> None:
        """Lead the alias of a run that is ready to it, unless a newer run has it."""
        namespace = self._namespaces.get_namespace(assignment.project)
        alias = await self._rendered.admit_alias(assignment, uid, namespace=namespace)
        if alias is None:
            return
        with engine_errors(f"take over the Service {alias.name}"):
            for _ in range(MOST_ATTEMPTS):
                # Read live, and just before the patch: a server that was frozen must not serve a run that was stopped.
                anchor = await self._watch.read_anchor("serve", namespace=namespace, name=name_anchor(assignment))
                if not _is_wanted(anchor, uid) or get_generation(anchor) != assignment.generation:
                    return
                found = await self._find(alias, namespace=namespace)
                if found is None:
                    found = await self._create(alias)
                if found is not None and await self._take_found(found, alias, assignment, uid=uid):
                    return
        message = f"the Service {alias.name} was changed {MOST_ATTEMPTS} times by others meanwhile"
        raise EngineUnavailable(Reason.ENGINE_FAILED, message)

    async def _take_found(self, found: Object, alias: AdmittedObject, assignment: Assignment, *, uid: str) -> bool:
        """Returns False if the alias was changed meanwhile."""
        metadata = found["metadata"]
        if not self.is_alias(metadata.get("labels") or {}, alias, assignment):
            namespace = self._namespaces.get_namespace(assignment.project)
            message = f"Service {alias.name} in namespace {namespace} was not created by Runyard"
            raise EngineRefusal(Reason.ANCHOR_TAKEN, message)
        served = (metadata.get("annotations") or {}).get(SERVED_ANNOTATION, "")
        is_ours = any(owner.get("uid") == uid for owner in metadata.get("ownerReferences") or ())
        if (is_ours and served) or (not is_ours and await self._is_kept(found, assignment)):
            return True
        patch = TakeServiceName(
            service=alias,
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            served=_format_moment(assignment.created_at),
        )
        try:
            await self._writes.patch(patch)
        except NotFound:
            return False
        except Invalid as error:
            if not is_failed_test(error):
                raise
            return False
        return True

    async def _is_kept(self, found: Object, assignment: Assignment) -> bool:
        """Whether the alias leads to a newer run that has been ready, and is neither stopped nor gone."""
        metadata = found["metadata"]
        served = (metadata.get("annotations") or {}).get(SERVED_ANNOTATION, "")
        holder = (metadata.get("labels") or {}).get(RUN_UID_LABEL, "")
        mine = (_format_moment(assignment.created_at), to_label_value(assignment.run_uid))
        if not is_served_moment(served) or (served, holder) <= mine:
            return False
        for owner in metadata.get("ownerReferences") or ():
            anchor = await self._watch.read_anchor("serve", namespace=metadata["namespace"], name=owner["name"])
            if _is_wanted(anchor, owner["uid"]):
                return True
        return False

    def is_alias(self, labels: Mapping[str, str], item: AdmittedObject, assignment: Assignment) -> bool:
        """Whether an object of that name is the alias of a run of the project: this one or another."""
        is_of_project = labels.get(PROJECT_LABEL) == to_label_value(assignment.project)
        is_of_us = labels.get(INSTALLATION_LABEL) == to_label_value(self._namespaces.installation)
        return is_of_us and is_of_project and item.kind == SERVICES.kind and item.name != name_anchor(assignment)

    async def _find(self, alias: AdmittedObject, *, namespace: str) -> Object | None:
        try:
            return await self._client.get(SERVICES, alias.name, namespace=namespace, deadline_seconds=self._seconds)
        except NotFound:
            return None

    async def _create(self, alias: AdmittedObject) -> Object | None:
        """None if somebody else was faster."""
        try:
            return await self._writes.create(alias)
        except AlreadyExists:
            return None


def _format_moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _is_wanted(anchor: AnchorView | None, uid: str) -> TypeGuard[AnchorView]:
    """Whether it is the anchor of that UID, released and neither stopped nor being deleted."""
    if anchor is None or anchor.metadata.uid != uid or anchor.metadata.deleted_at:
        return False
    return anchor.metadata.annotations.wish == "run"
