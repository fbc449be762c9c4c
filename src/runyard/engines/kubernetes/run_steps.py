"""What the engine does for a run: anchor, release, stop, settle, remove. Each step may be repeated, by several servers.

| step    | requests in the usual case            | after a crash in between, the next call …                         |
|---------|---------------------------------------|-------------------------------------------------------------------|
| anchor  | POST anchor                           | finds it by its name (409, then GET)                              |
| release | POST each dependent, PATCH anchor     | finds the dependents (409), replaces the Secret, sends the patch  |
| stop    | LIST pods, PATCH anchor, PATCH pods   | ends the pods that were not told yet                              |
| settle  | DELETE Secret, PATCH anchor¹          | finds no Secret (404) and sends the patch                         |
| remove  | DELETE anchor                         | finds it gone, or being deleted                                   |

¹ Of a Job that has failed or was stopped, and whose controller does not say so yet: LIST pods before.

Every change of an anchor tests its UID and the generation that was read; so a call that comes late, from a server that
was frozen, changes nothing. Nothing is ever created in place of an anchor that is absent. A Secret states the
generation of the release that wrote it: a settle of an older one leaves it alone, although the anchor may not have
been patched yet.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from runyard.app.engine import Anchor, Assignment, CreateAnchor, EngineRefusal, EngineUnavailable
from runyard.domain.admission import AdmittedObject
from runyard.domain.outcomes import ENDED, Seen
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.cluster_cache import ClusterCache
from runyard.engines.kubernetes.cluster_writes import RESOURCES, ClusterWrites
from runyard.engines.kubernetes.kube_errors import engine_errors, is_failed_test
from runyard.engines.kubernetes.namespaces import Namespaces
from runyard.engines.kubernetes.observations import has_started, is_disrupted, is_finished, observe_run
from runyard.engines.kubernetes.registry_secrets import RegistrySecrets
from runyard.engines.kubernetes.rendered_runs import RenderedRuns, name_anchor
from runyard.engines.kubernetes.run_objects import MOST_GENERATION_DIGITS, AnchorView, RunObjects, get_generation
from runyard.engines.kubernetes.run_watch import RunWatch, view_anchor
from runyard.engines.kubernetes.service_names import ServiceNames
from runyard.engines.kubernetes.views import DeploymentView, JobView, PodView, read_view
from runyard.kube import AlreadyExists, Client, Invalid, NotFound, Object, Priority
from runyard.kube.resources import PODS, SECRETS
from runyard.manifests.metadata import GENERATION_ANNOTATION, INSTALLATION_LABEL, RUN_UID_LABEL, to_label_value
from runyard.manifests.names import secret_name
from runyard.manifests.patches import END_SECONDS, EndPod, Release, Settle, Stop
from runyard.manifests.workloads import get_replicas

MOST_ATTEMPTS = 4
"""How often a patch is decided anew because another server changed the anchor."""
MOST_KNOWN_SECRETS = 20_000
"""How many Secrets that this process created are known by UID; of others it asks the cluster."""


@dataclass(frozen=True, slots=True)
class _SecretState:
    """One state of a run's Secret. It is deleted in this state only: a newer release may have replaced it."""

    uid: str
    resource_version: str
    generation: int
    """Of the release that wrote it; 0 if it states none: an earlier version of the server wrote it."""


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the anchor of a run is."""

    kind: Literal["Job", "Deployment"]
    action: str
    namespace: str
    name: str
    uid: str


class RunSteps:
    """The steps of runs. Raises `EngineUnavailable` and `EngineRefusal`."""

    def __init__(
        self,
        client: Client,
        *,
        cache: ClusterCache,
        watch: RunWatch,
        writes: ClusterWrites,
        rendered: RenderedRuns,
        registries: RegistrySecrets,
        names: ServiceNames,
        namespaces: Namespaces,
        request_seconds: float,
    ) -> None:
        self._client = client
        self._stopping = client.with_priority(Priority.STOP)
        self._cache = cache
        self._watch = watch
        self._writes = writes
        self._rendered = rendered
        self._registries = registries
        self._names = names
        self._namespaces = namespaces
        self._seconds = request_seconds
        self._secrets: OrderedDict[str, _SecretState] = OrderedDict()

    async def find_anchor(self, assignment: Assignment) -> str | None:
        """The UID of the run's anchor, live; None if there is none or a stranger has its name."""
        target = self._locate(assignment)
        with engine_errors(f"look for the anchor {target.name}"):
            found = await self._watch.read_object(target.action, namespace=target.namespace, name=target.name)
        return None if found is None or not self._is_of(found, assignment) else view_anchor(found).metadata.uid

    async def ensure_anchor(self, assignment: Assignment) -> str:
        """Create the anchor at once; only if its name is taken, look whose it is."""
        create = await self.prepare_anchor(assignment)
        return await create()

    async def prepare_anchor(self, assignment: Assignment) -> CreateAnchor:
        """Render the anchor and let it be admitted; nothing is sent before the returned call."""
        target = self._locate(assignment)
        admitted = await self._rendered.admit_anchor(assignment, namespace=target.namespace)
        return partial(self._create_anchor, assignment, target, admitted)

    async def _create_anchor(self, assignment: Assignment, target: _Target, admitted: AdmittedObject) -> str:
        with engine_errors(f"create the anchor {target.name}"):
            try:
                created = view_anchor(await self._writes.create(admitted))
            except AlreadyExists:
                return await self._take_existing(assignment, target)
        self._cache.note_written(created)
        return created.metadata.uid

    async def _take_existing(self, assignment: Assignment, target: _Target) -> str:
        found = await self._watch.read_object(target.action, namespace=target.namespace, name=target.name)
        if found is None:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"the anchor {target.name} was deleted a moment ago")
        if not self._is_of(found, assignment):
            message = f"{target.kind} {target.name} in namespace {target.namespace} was not created by Runyard"
            raise EngineRefusal(Reason.ANCHOR_TAKEN, message)
        anchor = view_anchor(found)
        if anchor.metadata.deleted_at:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"the anchor {target.name} is being deleted")
        self._cache.note_written(anchor)
        return anchor.metadata.uid

    async def release(self, assignment: Assignment, uid: str) -> None:
        """Create what the anchor owns, then start it."""
        target = self._locate(assignment, uid)
        with engine_errors(f"release the anchor {target.name}"):
            anchor = await self._find(target, assignment.run_uid)
            if anchor is None or not _is_releasable(anchor, assignment.generation):
                return
            is_over = self._is_over(anchor)
            if is_over and anchor.metadata.annotations.wish == "stop":
                return
            created = [] if is_over else await self._create_dependents(assignment, target)
            for _ in range(MOST_ATTEMPTS):
                replicas = get_replicas(assignment.effective) if target.kind == "Deployment" else None
                patch = Release(**self._address(target, anchor, assignment), replicas=replicas)
                if await self._patch(patch):
                    if _has_ended(self._cache.find_anchor(to_label_value(assignment.run_uid))):
                        # Another server released it long ago, and its Secret is deleted: nobody would do it again.
                        await self._undo(created, target, is_anchor_gone=False)
                    return
                anchor = await self._read_live(target)
                if anchor is None or get_generation(anchor) > assignment.generation:
                    await self._undo(created, target, is_anchor_gone=anchor is None)
                    return
                if not _is_releasable(anchor, assignment.generation):
                    return
        raise _give_up(target)

    async def stop(self, assignment: Assignment, uid: str) -> None:
        """Tell the anchor to stop, and end its pods in place. Pods that have not started are deleted."""
        target = self._locate(assignment, uid)
        with engine_errors(f"stop the anchor {target.name}"):
            anchor = await self._find(target, assignment.run_uid)
            for _ in range(MOST_ATTEMPTS):
                if anchor is None or get_generation(anchor) > assignment.generation:
                    return
                is_stopped = (
                    await self._stop_job(assignment, target, anchor)
                    if isinstance(anchor, JobView)
                    else await self._stop_deployment(assignment, target, anchor)
                )
                if is_stopped:
                    return
                anchor = await self._read_live(target)
        raise _give_up(target)

    async def settle(self, assignment: Assignment, uid: str) -> bool:
        """Remove the values of secrets, ask for the deletion after the TTL.

        Remove an anchor that never ran, and that of a service which cannot be resumed: no TTL deletes a Deployment.
        """
        target = self._locate(assignment, uid)
        with engine_errors(f"settle the anchor {target.name}"):
            anchor = await self._find(target, assignment.run_uid)
            if anchor is None:
                return await self._settle_absent(assignment, target)
            if get_generation(anchor) > assignment.generation or anchor.metadata.deleted_at:
                return False
            objects = self._cache.collect(anchor)
            seen = observe_run(objects)
            if seen.seen in (Seen.PENDING, Seen.RUNNING):
                return False
            if any(not is_finished(pod) for pod in objects.pods):
                await self.stop(assignment, uid)  # a pod that can never start still waits
                return False
            is_service = target.kind == "Deployment"
            is_kept = seen.seen is Seen.STOPPED and assignment.can_be_resumed if is_service else _has_run(objects)
            if not is_kept:
                return await self._delete_anchor(assignment, target)
            if not await self._delete_secret(assignment, target):
                return False
            return await self._finish_job(
                assignment,
                target,
                anchor,
                has_succeeded=seen.seen is Seen.SUCCEEDED,
                was_disrupted=any(is_disrupted(gone.pod) for gone in objects.gone_pods),
            )

    async def remove(self, anchor: Anchor) -> None:
        """Delete the anchor of that UID. It stays, being deleted, until its pods are gone."""
        name, namespace = name_anchor(anchor), self._namespaces.get_namespace(anchor.project)
        kind = "Job" if anchor.action == "job" else "Deployment"
        with engine_errors(f"remove the anchor {name}"):
            await self._writes.delete(
                RESOURCES[kind], name, namespace=namespace, uid=anchor.uid, propagation="Foreground"
            )

    async def _create_dependents(self, assignment: Assignment, target: _Target) -> list[Object]:
        """Create what the anchor owns, or find it; returns what was created."""
        admitted = await self._rendered.admit_dependents(assignment, target.uid, namespace=target.namespace)
        await self._registries.ensure(assignment.project, assignment.access.read_registries)
        created = []
        for item in admitted:
            try:
                made = await self._writes.create(item)
            except AlreadyExists:
                made = await self._take_dependent(item, assignment, target)
            else:
                created.append(made)
            if item.kind == SECRETS.kind:
                self._note_secret(assignment.run_uid, made)
        return created

    async def _take_dependent(self, item: AdmittedObject, assignment: Assignment, target: _Target) -> Object:
        """An object of that name exists: of this anchor, of an earlier one that is being collected, or a stranger's."""
        resource = RESOURCES[item.kind]
        try:
            found = await self._client.get(
                resource, item.name, namespace=target.namespace, deadline_seconds=self._seconds
            )
        except NotFound:
            message = f"{item.kind} {item.name} was deleted a moment ago"
            raise EngineUnavailable(Reason.ENGINE_FAILED, message) from None
        if any(owner.get("uid") == target.uid for owner in found["metadata"].get("ownerReferences") or ()):
            # The values of a Secret may be those of an earlier release; those of a newer one stay.
            state = _get_secret_state(found)
            if item.kind != SECRETS.kind or state.generation > assignment.generation:
                return found
            return await self._writes.replace(item, resource_version=state.resource_version)
        labels = found["metadata"].get("labels") or {}
        if self._names.is_alias(labels, item, assignment):
            return found  # it leads to another run, until this one is ready
        if labels.get(RUN_UID_LABEL) == to_label_value(assignment.run_uid) and self._is_ours(labels):
            message = f"{item.kind} {item.name} of an earlier anchor is being deleted"
            raise EngineUnavailable(Reason.ENGINE_FAILED, message)
        message = f"{item.kind} {item.name} in namespace {target.namespace} was not created by Runyard"
        raise EngineRefusal(Reason.ANCHOR_TAKEN, message)

    async def _undo(self, created: list[Object], target: _Target, *, is_anchor_gone: bool) -> None:
        """This release came too late: remove the Secret that it created, and everything if the anchor is gone.

        Each object only in the state in which it was created. Others may use it by now: a newer release that found it,
        or another run that took over the stable name. What stays is owned by the anchor, and goes with it.
        """
        for item in created:
            if is_anchor_gone or item["kind"] == SECRETS.kind:
                metadata = item["metadata"]
                await self._writes.delete(
                    RESOURCES[item["kind"]],
                    metadata["name"],
                    namespace=target.namespace,
                    uid=metadata["uid"],
                    resource_version=metadata["resourceVersion"],
                )

    async def _stop_job(self, assignment: Assignment, target: _Target, job: JobView) -> bool:
        """Returns False if the Job was changed meanwhile."""
        pods = await self._list_pods(self._stopping, assignment, target)
        has_output = any(has_started(read_view(PodView, pod)) for pod in pods)
        is_told = job.metadata.annotations.wish == "stop" and get_generation(job) == assignment.generation
        if not is_told or not (has_output or job.spec.suspend):
            patch = Stop(**self._address(target, job, assignment), is_suspended=not has_output)
            if not await self._patch(patch):
                return False
        if has_output:
            for pod in pods:
                await self._end_pod(pod)
        return True

    async def _end_pod(self, pod: Object) -> None:
        """End a pod in place, for its output; one without a node has none and is deleted."""
        if _is_ending(pod):
            return
        name, namespace, uid = (pod["metadata"][field] for field in ("name", "namespace", "uid"))
        if not pod["spec"].get("nodeName"):
            await self._writes.delete(PODS, name, namespace=namespace, uid=uid)
            return
        try:
            await self._writes.patch(EndPod(name=name, namespace=namespace, uid=uid))
        except NotFound:
            return
        except Invalid as error:
            if not is_failed_test(error):
                raise

    async def _stop_deployment(self, assignment: Assignment, target: _Target, deployment: DeploymentView) -> bool:
        is_told = deployment.metadata.annotations.wish == "stop" and get_generation(deployment) == assignment.generation
        if is_told and deployment.spec.replicas == 0:
            return True
        return await self._patch(Stop(**self._address(target, deployment, assignment)))

    async def _settle_absent(self, assignment: Assignment, target: _Target) -> bool:
        """What an absent anchor owned is collected by the cluster; its Secret is not left to that."""
        is_gone = await self._delete_secret(assignment, target)
        return is_gone and not await self._list_pods(self._client, assignment, target)

    async def _delete_anchor(self, assignment: Assignment, target: _Target) -> bool:
        """Delete an anchor of no more use, in the state that was read live: one that is released meanwhile stays."""
        live = await self._read_live(target)
        if live is None:
            return await self._settle_absent(assignment, target)
        if get_generation(live) > assignment.generation or live.metadata.deleted_at:
            return False
        is_deleted = await self._writes.delete(
            RESOURCES[target.kind],
            target.name,
            namespace=target.namespace,
            uid=target.uid,
            resource_version=live.metadata.resource_version,
            propagation="Foreground",
        )
        return is_deleted and await self._delete_secret(assignment, target)

    async def _finish_job(
        self,
        assignment: Assignment,
        target: _Target,
        anchor: AnchorView | None,
        *,
        has_succeeded: bool,
        was_disrupted: bool,
    ) -> bool:
        """Set the TTL of a Job, and let it start no further pod: its pods tell its end before its controller does.

        Returns False if a pod may have taken the place of another meanwhile: then there is output to read first.
        """
        seconds = assignment.effective.ttl_seconds
        for _ in range(MOST_ATTEMPTS):
            if not isinstance(anchor, JobView):
                return True
            # A Job that is suspended never ends, not even one whose pod has succeeded.
            ends_job = not anchor.has_ended and (anchor.spec.suspend or not has_succeeded)
            if seconds is None and not ends_job:
                return True
            if get_generation(anchor) > assignment.generation:
                return False
            listed = await self._list_pods(self._client, assignment, target) if ends_job else []
            pods = [read_view(PodView, pod) for pod in listed]
            if any(not is_finished(pod) for pod in pods):
                return False
            patch = Settle(**self._address(target, anchor, assignment), ttl_seconds=seconds, ends_job=ends_job)
            if await self._patch(patch):
                # The controller replaces only a pod that was disrupted, until it has seen the patch.
                return not (ends_job and (was_disrupted or any(is_disrupted(pod) for pod in pods)))
            anchor = await self._read_live(target)
        raise _give_up(target)

    async def _delete_secret(self, assignment: Assignment, target: _Target) -> bool:
        """Delete the run's Secret; returns False if a newer release wrote it.

        That release may not have patched the anchor yet, so the anchor alone cannot tell.
        """
        identity = self._rendered.identify(assignment, namespace=target.namespace)
        name = secret_name(identity)
        state = self._take_known_secret(assignment)
        if state is None:
            state = await self._read_secret(name, target)
            if state is None:
                return True
            if state.generation > assignment.generation:
                return False
            live = await self._read_live(target)
            # Read after the Secret: a newer release replaces it first, and then it cannot be deleted in this state.
            if live is not None and get_generation(live) > assignment.generation:
                return False
        return await self._writes.delete(
            SECRETS,
            name,
            namespace=target.namespace,
            uid=state.uid,
            resource_version=state.resource_version,
        )

    async def _read_secret(self, name: str, target: _Target) -> _SecretState | None:
        """The Secret that this anchor owns; one of another owner is not touched."""
        try:
            found = await self._client.get(SECRETS, name, namespace=target.namespace, deadline_seconds=self._seconds)
        except NotFound:
            return None
        is_owned = any(owner.get("uid") == target.uid for owner in found["metadata"].get("ownerReferences") or ())
        return _get_secret_state(found) if is_owned else None

    def _take_known_secret(self, assignment: Assignment) -> _SecretState | None:
        """The state that this process wrote, which is then forgotten; a newer release's is left to its own settle."""
        known = self._secrets.get(assignment.run_uid)
        if known is None or known.generation > assignment.generation:
            return None
        return self._secrets.pop(assignment.run_uid)

    def _note_secret(self, run_uid: str, secret: Object) -> None:
        self._secrets[run_uid] = _get_secret_state(secret)
        while len(self._secrets) > MOST_KNOWN_SECRETS:
            self._secrets.popitem(last=False)

    async def _list_pods(self, client: Client, assignment: Assignment, target: _Target) -> list[Object]:
        """The pods of the run, live: those that another server's view of the cluster may not show yet."""
        uid, installation = to_label_value(assignment.run_uid), to_label_value(self._namespaces.installation)
        listed = await client.list(
            PODS,
            namespace=target.namespace,
            label_selector=f"{RUN_UID_LABEL}={uid},{INSTALLATION_LABEL}={installation}",
            deadline_seconds=self._seconds,
        )
        return listed.items

    async def _find(self, target: _Target, run_uid: str) -> AnchorView | None:
        """The anchor of that UID, from the cache or live; None if it is absent."""
        known = self._cache.find_anchor(to_label_value(run_uid))
        if known is not None and known.metadata.uid == target.uid:
            return known
        return await self._read_live(target)

    async def _read_live(self, target: _Target) -> AnchorView | None:
        found = await self._watch.read_anchor(target.action, namespace=target.namespace, name=target.name)
        if found is None or found.metadata.uid != target.uid:
            return None
        self._cache.note_written(found)
        return found

    async def _patch(self, patch: Release | Stop | Settle) -> bool:
        """Send a patch; returns False if the anchor is not as it was read: it was changed, replaced or deleted."""
        try:
            answer = await self._writes.patch(patch)
        except NotFound:
            return False
        except Invalid as error:
            if not is_failed_test(error):
                raise
            return False
        self._cache.note_written(view_anchor(answer))
        return True

    def _address(self, target: _Target, anchor: AnchorView, assignment: Assignment) -> dict[str, Any]:
        return {
            "kind": target.kind,
            "name": target.name,
            "namespace": target.namespace,
            "uid": target.uid,
            "seen_generation": get_generation(anchor),
            "generation": assignment.generation,
        }

    def _locate(self, assignment: Assignment, uid: str = "") -> _Target:
        action = assignment.effective.action
        return _Target(
            kind="Job" if action == "job" else "Deployment",
            action=action,
            namespace=self._namespaces.get_namespace(assignment.project),
            name=name_anchor(assignment),
            uid=uid,
        )

    def _is_over(self, anchor: AnchorView) -> bool:
        """Whether it is a Job that has run and ended: it cannot be started again."""
        if not isinstance(anchor, JobView) or anchor.metadata.annotations.wish == "hold":
            return False
        objects = self._cache.collect(anchor)
        return _has_run(objects) and observe_run(objects).seen in ENDED

    def _is_of(self, found: Object, assignment: Assignment) -> bool:
        """Whether an object is of that run of this installation, and not a stranger's."""
        labels = found["metadata"].get("labels") or {}
        return self._is_ours(labels) and labels.get(RUN_UID_LABEL) == to_label_value(assignment.run_uid)

    def _is_ours(self, labels: Mapping[str, str]) -> bool:
        return labels.get(INSTALLATION_LABEL) == to_label_value(self._namespaces.installation)


def _get_secret_state(secret: Object) -> _SecretState:
    metadata = secret["metadata"]
    text = (metadata.get("annotations") or {}).get(GENERATION_ANNOTATION, "")
    is_number = text.isascii() and text.isdecimal() and len(text) <= MOST_GENERATION_DIGITS
    return _SecretState(metadata["uid"], metadata["resourceVersion"], int(text) if is_number else 0)


def _is_releasable(anchor: AnchorView, generation: int) -> bool:
    """Whether a release of that generation has anything to do."""
    seen = get_generation(anchor)
    if seen > generation or anchor.metadata.deleted_at:
        return False
    return not (anchor.metadata.annotations.wish == "run" and seen == generation)


def _has_ended(anchor: AnchorView | None) -> bool:
    return isinstance(anchor, JobView) and anchor.has_ended


def _has_run(objects: RunObjects) -> bool:
    """Whether a container of the run has ever started, as far as its objects show."""
    pods = (*objects.pods, *(gone.pod for gone in objects.gone_pods))
    if any(has_started(pod) for pod in pods):
        return True
    anchor = objects.anchor
    return isinstance(anchor, JobView) and bool(anchor.status.succeeded or anchor.status.failed)


def _is_ending(pod: Object) -> bool:
    """Whether a pod has ended, or was told to."""
    is_finished_phase = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    is_told = (pod.get("spec") or {}).get("activeDeadlineSeconds") == END_SECONDS
    return is_finished_phase or is_told or "deletionTimestamp" in pod["metadata"]


def _give_up(target: _Target) -> EngineUnavailable:
    message = f"the anchor {target.name} was changed {MOST_ATTEMPTS} times by others meanwhile"
    return EngineUnavailable(Reason.ENGINE_FAILED, message)
