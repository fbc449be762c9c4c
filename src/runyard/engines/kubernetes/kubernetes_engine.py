"""`app.engine.Engine` and its optional protocols on a cluster. Thin: each method delegates to a module."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from runyard.app.engine import (
    Anchor,
    AnchorList,
    Assignment,
    Channel,
    CreateAnchor,
    EngineUnavailable,
    KeptVolume,
    LogChunk,
    LogGap,
    LogSource,
    Observation,
    Place,
    PlaceDefault,
    ReadRegistries,
    Session,
    Usage,
    VolumeState,
)
from runyard.app.model import Json
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.reasons import Reason
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes import rbac
from runyard.engines.kubernetes.cluster_cache import ClusterCache
from runyard.engines.kubernetes.cluster_defaults import DefaultsReader
from runyard.engines.kubernetes.cluster_snapshot import ClusterSnapshots
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.kept_volumes import KeptVolumes
from runyard.engines.kubernetes.kube_errors import engine_errors
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings, ProjectLimits, Watermark
from runyard.engines.kubernetes.namespaces import Namespaces
from runyard.engines.kubernetes.projects import Projects
from runyard.engines.kubernetes.registry_secrets import RegistrySecrets
from runyard.engines.kubernetes.rendered_runs import RenderedRuns, name_anchor
from runyard.engines.kubernetes.run_description import describe_run
from runyard.engines.kubernetes.run_logs import RunLogs
from runyard.engines.kubernetes.run_sessions import RunSessions
from runyard.engines.kubernetes.run_steps import RunSteps
from runyard.engines.kubernetes.run_usage import RunUsage
from runyard.engines.kubernetes.run_watch import RunWatch
from runyard.engines.kubernetes.service_names import ServiceNames
from runyard.engines.kubernetes.stalled_jobs import StalledJobs
from runyard.kube import Client, ClusterConfig, ConfigError, load_config, load_kubeconfig
from runyard.kube.permissions import find_missing
from runyard.kube.resources import (
    CLUSTER_NAMESPACE,
    NAMESPACES,
)
from runyard.manifests.identity import PlatformInputs
from runyard.pods.snapshot import Snapshot
from runyard.spec.launcher import make_launcher

ENGINE = "kubernetes"
RIGHTS_SECONDS = 10.0
"""How long the start asks again for rights that the cluster denies."""
RIGHTS_RETRY_SECONDS = 1.0
TASK_RESTART_SECONDS = 1.0
"""How long a task of the engine pauses after an unexpected failure."""

_log = logging.getLogger(__name__)


ReadNewestObservation = Callable[[Place], Awaitable[tuple[int, int]]]
"""Reads the largest epoch and version that the database has of a place."""


class KubernetesEngine:
    """`app.engine.Engine` and its optional protocols. Made by `open`, in the event loop that it belongs to."""

    def __init__(
        self,
        settings: KubernetesSettings,
        client: Client,
        cache: ClusterCache,
        *,
        place: Place,
        stack: AsyncExitStack,
    ) -> None:
        self.place = place
        self.platform = PlatformInputs(
            endpoint=settings.endpoint,
            has_token=True,
            launcher=settings.launcher,
            package_index=settings.package_index,
            has_registry_secret=True,
        )
        self._settings = settings
        self._client = client
        self._cache = cache
        self._stack = stack
        self._namespaces = Namespaces(settings.namespace, settings.installation)
        self._usage = RunUsage(client, cache)
        self._watch = RunWatch(client, cache, request_seconds=settings.request_seconds, add_peaks=self._usage.add_peaks)
        writes = ClusterWrites(client, request_seconds=settings.request_seconds)
        self._registries = RegistrySecrets(client, writes, self._namespaces, installation=settings.installation)
        rendered = RenderedRuns(self.platform, installation=settings.installation)
        self._names = ServiceNames(
            client,
            watch=self._watch,
            writes=writes,
            rendered=rendered,
            namespaces=self._namespaces,
            request_seconds=settings.request_seconds,
        )
        self._steps = RunSteps(
            client,
            cache=cache,
            watch=self._watch,
            writes=writes,
            rendered=rendered,
            registries=self._registries,
            names=self._names,
            namespaces=self._namespaces,
            request_seconds=settings.request_seconds,
        )
        self._stalled = StalledJobs(cache, writes)
        self._logs = RunLogs(client, cache, self._namespaces)
        self._sessions = RunSessions(client, cache)
        self._projects = Projects(client, settings)
        self._volumes = KeptVolumes(client, settings, writes)
        self._defaults = DefaultsReader(client)
        self._snapshots = ClusterSnapshots(client, settings)
        stack.push_async_callback(self._snapshots.close)
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls,
        settings: KubernetesSettings,
        cluster: ClusterConfig,
        *,
        read_newest_observation: ReadNewestObservation | None = None,
    ) -> Self:
        """Connect to a cluster. Raises `EngineUnavailable` if it cannot be reached, or the server lacks a right.

        `read_newest_observation` is called once the place is known.
        """
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client.connect(cluster, rate_limit=settings.rate_limit))
            with engine_errors(f"use the cluster {cluster.server}"):
                found = await client.get(NAMESPACES, CLUSTER_NAMESPACE, deadline_seconds=settings.request_seconds)
                place = make_place(found["metadata"]["uid"], namespace=settings.namespace)
                await _check_rights(client, settings)
                if read_newest_observation is not None:
                    newest = Watermark(*await read_newest_observation(place))
                    settings = replace(settings, watermark=newest)
                cache = await stack.enter_async_context(ClusterCache.open(client, settings))
            engine = cls(settings, client, cache, place=place, stack=stack)
            engine._stack = stack.pop_all()
            engine._tasks = [
                asyncio.create_task(engine._keep_running("watch", engine._watch.run)),
                asyncio.create_task(engine._keep_running("stalled jobs", engine._stalled.run)),
                asyncio.create_task(engine._keep_running("usage", engine._measure)),
            ]
            return engine
        raise AssertionError  # the block returns or raises

    async def close(self) -> None:
        """Stop watching. Runs continue. Idempotent."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stack.aclose()

    async def _keep_running(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Without the watch nothing is ever observed: whatever ends it, it begins again."""
        while True:
            try:
                await work()
            except Exception:  # noqa: BLE001 - see above
                _log.exception("a task of the engine failed, and begins again", extra={"task": name})
            await asyncio.sleep(TASK_RESTART_SECONDS)

    async def _measure(self) -> None:
        await self._usage.run(self._cache.list_namespaces)

    async def find_anchor(self, assignment: Assignment) -> str | None:
        """By the cluster itself."""
        return await self._steps.find_anchor(assignment)

    async def ensure_anchor(self, assignment: Assignment) -> str:
        """A suspended Job, or a Deployment without replicas."""
        return await self._steps.ensure_anchor(assignment)

    async def prepare_anchor(self, assignment: Assignment) -> CreateAnchor:
        """Its object, rendered and admitted."""
        return await self._steps.prepare_anchor(assignment)

    async def release(self, assignment: Assignment, uid: str) -> None:
        """Create what it needs, then let the cluster start it."""
        await self._steps.release(assignment, uid)

    async def observe(self, anchor: Anchor) -> Observation:
        """By the cache; by the cluster itself if it is not there."""
        namespace = self._namespaces.get_namespace(anchor.project)
        return await self._watch.observe(anchor, namespace=namespace, name=name_anchor(anchor))

    async def take_service_name(self, assignment: Assignment, uid: str) -> None:
        """The Service that `service_name` names."""
        await self._names.take(assignment, uid)

    async def describe(self, anchor: Anchor) -> Json:
        """The anchor, its pods, Services, claims, ConfigMaps and events, live. Secrets are left out."""
        namespace, name = self._namespaces.get_namespace(anchor.project), name_anchor(anchor)
        with engine_errors(f"describe the anchor {name}"):
            found = await self._watch.read_object(anchor.action, namespace=namespace, name=name)
            if found is None or found["metadata"]["uid"] != anchor.uid:
                return {}
            return await describe_run(self._client, found, run_uid=anchor.run_uid)

    async def stop(self, assignment: Assignment, uid: str) -> None:
        """End its pods in place."""
        await self._steps.stop(assignment, uid)

    async def settle(self, assignment: Assignment, uid: str) -> bool:
        """Delete its Secret; let the cluster delete the rest after the TTL."""
        return await self._steps.settle(assignment, uid)

    async def remove(self, anchor: Anchor) -> None:
        """Delete its anchor, and with it what the anchor owns."""
        await self._steps.remove(anchor)

    async def list_anchors(self) -> AnchorList:
        """By the cache.

        It is complete if every list was taken, every watch is open, and no ended Job waits for its pods.
        """
        was_current = self._cache.is_current
        with engine_errors("list the anchors"):
            observations = await self._watch.list_observations()
        return AnchorList(observations=observations, is_complete=was_current and self._cache.is_current)

    def changes(self) -> AsyncIterator[Sequence[Observation]]:
        """As the watches show them."""
        return self._watch.subscribe()

    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        """The outputs of its pods, those that are gone too."""
        with engine_errors("list the logs of a run"):
            return await self._logs.list_log_sources(anchor)

    def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        """By the kubelet that has it."""
        return self._logs.follow_log(source, after=after)

    async def open_exec(self, anchor: Anchor, session: Session) -> Channel:
        """By the kubelet of its pod."""
        return await self._sessions.open_exec(anchor, session)

    async def open_attach(self, anchor: Anchor, session: Session) -> Channel:
        """By the kubelet of its pod."""
        return await self._sessions.open_attach(anchor, session)

    async def open_port(self, anchor: Anchor, port: int, *, pod: str | None = None) -> Channel:
        """By the kubelet of its pod."""
        return await self._sessions.open_port(anchor, port, pod=pod)

    async def list_usage(self, anchor: Anchor) -> Sequence[Usage]:
        """By metrics.k8s.io, where the cluster has it."""
        return await self._usage.list_usage(anchor)

    async def sum_disk_bytes(self, anchor: Anchor) -> int:
        """The capacities of its claims, by the cache."""
        return self._usage.sum_disk_bytes(anchor)

    async def ensure_project(self, project: str, rules: AdminRules) -> None:
        """Its namespace with its rules, if projects have namespaces of their own."""
        await self._projects.ensure_project(project, rules)
        self._registries.forget(project)

    async def remove_project(self, project: str) -> bool:
        """Its namespace, if we made it."""
        with engine_errors(f"remove project {project}"):
            if not self._namespaces.is_per_project:  # else it goes with the namespace
                await self._registries.remove(project)
            return await self._projects.remove_project(project)

    async def ensure_registries(self, project: str, read: ReadRegistries) -> None:
        """The Secret that its runs name in `imagePullSecrets`."""
        with engine_errors(f"write the registry credentials of project {project}"):
            await self._registries.ensure(project, read, is_certain=True)

    async def ensure_volume(self, volume: KeptVolume) -> VolumeState:
        """A PersistentVolumeClaim."""
        with engine_errors(f"create claim {volume.claim}"):
            return await self._volumes.ensure_volume(volume)

    async def remove_volume(self, volume: KeptVolume) -> bool:
        """The claim of that volume."""
        with engine_errors(f"remove claim {volume.claim}"):
            return await self._volumes.remove_volume(volume)

    async def list_volumes(self) -> Sequence[VolumeState]:
        """By the cluster itself."""
        with engine_errors("list claims"):
            return await self._volumes.list_volumes()

    @property
    def installation(self) -> str:
        """As in the settings."""
        return self._settings.installation

    def get_namespace(self, project: str) -> str:
        """The project's own, or the one of all projects."""
        return self._namespaces.get_namespace(project)

    async def list_defaults(self, project: str, spec: EffectiveSpec) -> Sequence[PlaceDefault]:
        """By LimitRanges and default classes."""
        with engine_errors("read what the cluster adds to runs"):
            return await self._defaults.list_defaults(spec, namespace=self._namespaces.get_namespace(project))

    async def snapshot(self) -> Snapshot:
        """By watches of their own, which the first call opens."""
        with engine_errors("read nodes and pods"):
            return await self._snapshots.take()


async def open_engine(
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    is_per_project: bool,
    installation: str,
    endpoint: str,
    launcher_image: str,
    package_index: str | None,
    read_newest_observation: ReadNewestObservation,
    project_limits: Mapping[str, Any],
) -> KubernetesEngine:
    """The engine that an operator chose. `project_limits` are fields of `ProjectLimits`.

    Raises `EngineUnavailable` if the cluster cannot be used.
    """
    try:
        is_chosen = kubeconfig is not None or context is not None
        cluster = load_kubeconfig(kubeconfig, context=context) if is_chosen else load_config()
    except ConfigError as error:
        raise EngineUnavailable(Reason.ENGINE_FAILED, str(error)) from error
    settings = KubernetesSettings(
        installation=installation,
        endpoint=endpoint,
        namespace=None if is_per_project else namespace or cluster.namespace,
        launcher=make_launcher(launcher_image),
        package_index=package_index,
        project_limits=ProjectLimits(
            **project_limits, server_namespace=cluster.namespace if cluster.is_in_cluster else None
        ),
    )
    return await KubernetesEngine.open(settings, cluster, read_newest_observation=read_newest_observation)


def make_place(cluster_uid: str, *, namespace: str | None) -> Place:
    """The cluster; where all projects share a namespace, that namespace of it: nothing is looked for elsewhere."""
    return Place(ENGINE, cluster_uid if namespace is None else f"{cluster_uid}/{namespace}")


async def _check_rights(client: Client, settings: KubernetesSettings) -> None:
    """Raises `EngineUnavailable` with every right that the server lacks, where it must have it from the beginning.

    With a namespace per project, rights in those namespaces are granted when they are made. An apiserver that has just
    started denies rights that it has not read yet, so a denial is believed after `RIGHTS_SECONDS`.
    """
    clock = asyncio.get_running_loop().time
    believed_at = clock() + RIGHTS_SECONDS
    while missing := await find_missing(client, rbac.iter_required(namespace=settings.namespace)):
        if clock() < believed_at:
            _log.warning("the cluster denies %d rights; asking again", len(missing))
            await asyncio.sleep(RIGHTS_RETRY_SECONDS)
            continue
        where = f"namespace {settings.namespace}" if settings.namespace else "the cluster"
        named = "; ".join(str(access) for access in missing)
        message = f"the server lacks rights in {where}: {named}: grant what `runyard server rbac` prints"
        raise EngineUnavailable(Reason.KUBE_PERMISSIONS, message)
