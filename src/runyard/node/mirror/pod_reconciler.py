"""One pod: what is to be done about it now, from the local pod and the pod at the provider. Level-based.

Every step may be repeated, and is by whoever comes after a crash:

- A pod is started if it has not the condition `STARTED`, and the provider shows no pod of its uid in a complete list.
  `Provider.start` adopts what an earlier attempt created. The condition is written once the provider has taken it.
- A pod with the condition whose pod at the provider is gone has failed. It is never started again.
- A pod at the provider whose local pod is gone is stopped, once both sides were listed completely.
- A deleted local pod goes when the pod at the provider is gone.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from runyard.kube import Client, Conflict, NotFound, Reflector
from runyard.kube.resources import PODS
from runyard.kube.store import is_older
from runyard.node.admission.refusal import Refusal
from runyard.node.event_recorder import EventRecorder, ObjectEvent
from runyard.node.mirror.needed_objects import POLL_SECONDS, MissingObject, NeededObjects
from runyard.node.mirror.statuses import (
    StatusSettings,
    end_status,
    is_started,
    is_terminal,
    mirror_status,
    status_patch,
    unready_status,
    wait_status,
)
from runyard.node.mirror.translation import Untranslatable
from runyard.node.mirror.workloads import ShapeMissing, WorkloadBuilder
from runyard.node.offer import Shape
from runyard.node.providers.provider import (
    FinalStatuses,
    Link,
    Object,
    Provider,
    ProviderFull,
    ProviderRefused,
    ProviderUnavailable,
    RemotePod,
)

UID_INDEX = "uid"
_LOOK_AGAIN_SECONDS = 15.0
_REFUSED_SECONDS = 60.0
"""After that long a provider that refused a pod is asked again: its rules may have changed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """How pods are mirrored."""

    status: StatusSettings
    unready_after_seconds: float = 60.0
    """How long the link must be down for pods to stop being ready."""
    leftover_grace_seconds: int = 30
    """The grace of a pod at the provider whose local pod is gone, or has ended."""
    allows_tokens: bool = False
    """Whether service account tokens that pods ask for are handed to the provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What the rest of the agent knows of pods."""

    find_shape: Callable[[Object], Shape | None]
    find_refusal: Callable[[Object], Refusal | None]
    """Why a pod that is bound here must not begin: somebody else put it here, or nothing may begin now."""
    on_gone: Callable[[str], None]
    """Called with the uid when the pod at the provider has ended or is gone, or never will be; repeatedly."""


@dataclass(slots=True)
class _Known:
    """What this process did for a pod."""

    is_started: bool = False
    is_start_unknown: bool = False
    """Whether it was sent to the provider, and no answer came."""
    told_deletion: str = ""
    """The deletion time that the provider was told."""
    pushed: int | None = None
    """The hash of the versions that the provider was told."""
    renew_at: datetime | None = None
    """When its tokens are to be renewed."""


class PodReconciler:
    """Brings one pod at a time into accord. Raises `KubeError` and `ProviderError`: try again.

    `read_link` says less than the provider's own link where the agent does not trust the provider yet.
    """

    def __init__(
        self,
        client: Client,
        provider: Provider,
        pods: Reflector[Object],
        *,
        owner: Owner,
        settings: MirrorSettings,
        needed: NeededObjects,
        recorder: EventRecorder,
        read_link: Callable[[], Link] | None = None,
    ) -> None:
        self._client = client
        self._provider = provider
        self._pods = pods
        self._owner = owner
        self._settings = settings
        self._needed = needed
        self._recorder = recorder
        self._read_link = read_link or (lambda: provider.link)
        self._workloads = WorkloadBuilder(
            client,
            needed,
            find_shape=owner.find_shape,
            host_address=settings.status.host_address,
            allows_tokens=settings.allows_tokens,
        )
        self._known: dict[str, _Known] = {}
        self._latest: dict[str, Object] = {}
        """Local pods as they were after our last write, until the watch shows it."""

    def find_local(self, uid: str) -> Object | None:
        """The local pod as it is now, as far as anybody here knows."""
        found = self._pods.store.find_by_index(UID_INDEX, uid)
        latest = self._latest.get(uid)
        if not found or latest is None:
            self._latest.pop(uid, None)
            return found[0] if found else None
        if is_older(found[0]["metadata"].get("resourceVersion", ""), than=latest["metadata"]["resourceVersion"]):
            return latest
        del self._latest[uid]
        return found[0]

    async def reconcile(self, uid: str) -> float | None:
        """Do what is to be done; returns after how many seconds to look again even if nothing changes."""
        if not self._pods.has_synced:
            return None
        local, remote = self.find_local(uid), self._provider.pods.get(uid)
        if not self._read_link().has_listed:
            return None if local is None else await self._show_unknown(local)
        if local is None:
            return await self._end_leftover(uid, remote)
        known = self._known.setdefault(uid, _Known())
        if "deletionTimestamp" in local["metadata"]:
            return await self._end(local, remote, known)
        if is_terminal(local):
            return await self._settle(local, remote)
        if remote is not None:
            return await self._follow(local, remote, known)
        if is_started(local) or known.is_started:
            if not self._read_link().is_up:
                return None  # Nobody knows: what is seen may be old.
            await self._fail_vanished(local)
            return None
        if (refusal := self._owner.find_refusal(local)) is not None:
            await self._wait(local, refusal.reason, refusal.message)
            return _LOOK_AGAIN_SECONDS
        return await self._start(local, known)

    async def _start(self, local: Object, known: _Known) -> float | None:
        if not self._read_link().is_up:
            return None  # A change of the link makes all pods due.
        try:
            built = await self._workloads.build(local)
            for item in built.absent:
                message = f'optional {item.kind.lower()} "{item.name}" not found'
                self._tell(local, f"Optional{item.kind}NotFound", message)
            known.is_start_unknown = True
            await self._provider.start(built.workload)
        except MissingObject as error:
            await self._wait(local, "CreateContainerConfigError", str(error), f"Mandatory{error.needed.kind}NotFound")
            return _LOOK_AGAIN_SECONDS
        except (ShapeMissing, ProviderFull) as error:
            known.is_start_unknown = False
            await self._wait(local, error.reason, str(error))
            return _LOOK_AGAIN_SECONDS
        except (Untranslatable, ProviderRefused) as error:
            # It waits: a controller would replace a failed pod at once, for ever.
            known.is_start_unknown = False
            await self._wait(local, error.reason, str(error))
            return _REFUSED_SECONDS
        except ProviderUnavailable as error:
            await self._wait(local, "ProviderUnavailable", f"nobody knows yet whether it was started: {error}")
            raise
        known.is_started, known.is_start_unknown = True, False
        known.pushed, known.renew_at = built.signature, built.renew_at
        remote = self._provider.pods.get(local["metadata"]["uid"])
        return None if remote is None else await self._follow(local, remote, known)

    async def _follow(self, local: Object, remote: RemotePod, known: _Known) -> float | None:
        """Show the provider's status, and hand it what changed here."""
        known.is_started = True
        local = await self._mirror(local, remote)
        if is_terminal({"status": remote.status}):
            self._owner.on_gone(remote.uid)
            return None
        if self._read_link().is_up:
            await self._push(local, known)
        return self._look_again_seconds(remote.uid, known.renew_at)

    async def _mirror(self, local: Object, remote: RemotePod) -> Object:
        desired = mirror_status(
            local,
            remote.status,
            remote_name=remote.name,
            settings=self._settings.status,
            now=datetime.now(UTC),
            unreachable=self._unreachable(),
        )
        return await self._write(local, desired)

    async def _push(self, local: Object, known: _Known) -> None:
        """Tell the provider of changed labels, ConfigMaps, Secrets and tokens; after a restart once in any case."""
        is_due = known.renew_at is not None and known.renew_at <= datetime.now(UTC)
        signature = self._workloads.sign(local)
        if not is_due and signature is not None and signature == known.pushed:
            return
        try:
            self._workloads.follow(local)
            signature = self._workloads.sign(local)
            if signature is None and not is_due:
                return  # Not known yet: the watch tells when it is.
            built = await self._workloads.build(local)
            await self._provider.update(built.workload)
            known.renew_at = built.renew_at
        except (Untranslatable, MissingObject, ProviderRefused) as error:
            # The pod goes on with what it has.
            self._tell(local, "NotUpdated", f"ConfigMaps, Secrets and labels stay as they were: {error}")
            known.renew_at = datetime.now(UTC) + timedelta(seconds=POLL_SECONDS) if known.renew_at else None
        known.pushed = signature

    async def _settle(self, local: Object, remote: RemotePod | None) -> float | None:
        """A local pod that has ended keeps its pod at the provider for its logs, but not running."""
        uid = local["metadata"]["uid"]
        if remote is None or is_terminal({"status": remote.status}):
            self._owner.on_gone(uid)
        elif not remote.is_deleting and self._read_link().is_up:
            await self._provider.stop(uid, grace_seconds=self._settings.leftover_grace_seconds)
        return None

    async def _end(self, local: Object, remote: RemotePod | None, known: _Known) -> float | None:
        """End the pod at the provider within the grace, then the local one."""
        uid = local["metadata"]["uid"]
        if remote is None:
            if known.is_start_unknown and not self._read_link().is_up:
                return None  # It may run there: only the provider knows.
            await self._finish(local)
            return None
        local = await self._mirror(local, remote)
        if is_terminal({"status": remote.status}):
            self._owner.on_gone(uid)
        if not self._read_link().is_up:
            return None
        deletion = local["metadata"]["deletionTimestamp"]
        if known.told_deletion != deletion or not remote.is_deleting:
            await self._provider.stop(uid, grace_seconds=_remaining_seconds(local, now=datetime.now(UTC)))
            known.told_deletion = deletion
            return _LOOK_AGAIN_SECONDS
        return None

    async def _finish(self, local: Object) -> None:
        """Remove a deleted local pod whose pod at the provider is gone, or never was."""
        metadata = local["metadata"]
        uid = metadata["uid"]
        if not is_terminal(local):
            local = await self._write_end(local, "Deleted", "the pod was deleted")
        try:
            await self._client.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=uid, grace_period_seconds=0
            )
        except (NotFound, Conflict):
            _log.debug("the pod is gone already", extra={"uid": uid})
        self._owner.on_gone(uid)
        await self._provider.clean_up(uid)
        self._known.pop(uid, None)

    async def _end_leftover(self, uid: str, remote: RemotePod | None) -> float | None:
        """A pod whose local pod is gone."""
        if remote is None:
            self._needed.forget(uid)
            if uid in self._known:
                self._owner.on_gone(uid)
                await self._provider.clean_up(uid)
                self._known.pop(uid, None)
            return None
        self._known.setdefault(uid, _Known())
        if not remote.is_deleting and self._read_link().is_up:
            _log.info("stops a pod at the provider whose local pod is gone", extra={"uid": uid})
            await self._provider.stop(uid, grace_seconds=self._settings.leftover_grace_seconds)
            return _LOOK_AGAIN_SECONDS
        return None

    async def _fail_vanished(self, local: Object) -> None:
        message = "the pod at the provider was removed by somebody else; it is not started again"
        local = await self._write_end(local, "RemotePodGone", message)
        if (local.get("status") or {}).get("reason") == "RemotePodGone":
            self._tell(local, "RemotePodGone", message)
        self._owner.on_gone(local["metadata"]["uid"])
        await self._provider.clean_up(local["metadata"]["uid"])

    async def _write_end(self, local: Object, reason: str, message: str) -> Object:
        """Write the last status of a pod that is gone: how it ended if that was seen, else that it failed."""
        uid, now = local["metadata"]["uid"], datetime.now(UTC)
        final = self._provider.find_final_status(uid) if isinstance(self._provider, FinalStatuses) else None
        desired = end_status(local, final, reason=reason, message=message, settings=self._settings.status, now=now)
        return await self._write(local, desired)

    async def _wait(self, local: Object, reason: str, message: str, event: str | None = None) -> None:
        """The pod cannot run yet: its containers wait, for a reason."""
        desired = wait_status(
            local, reason=reason, message=message, settings=self._settings.status, now=datetime.now(UTC)
        )
        if status_patch(local, desired) is not None:
            self._tell(local, event or reason, message)
        await self._write(local, desired)

    async def _show_unknown(self, local: Object) -> float | None:
        """Nothing was heard of the provider since the agent began: pods are not ready after a while."""
        if message := self._unreachable():
            await self._write(local, unready_status(local, message=message, now=datetime.now(UTC)))
        return self._look_again_seconds(local["metadata"]["uid"])

    async def _write(self, local: Object, desired: Object) -> Object:
        """Write what differs; returns the pod as it is then."""
        patch = status_patch(local, desired)
        if patch is None:
            return local
        metadata = local["metadata"]
        try:
            written = await self._client.patch(
                PODS,
                metadata["name"],
                patch,
                namespace=metadata["namespace"],
                kind="strategic",
                subresource="status",
                field_validation="Ignore",
            )
        except NotFound:
            return local
        self._latest[metadata["uid"]] = written
        return written

    def _tell(self, local: Object, reason: str, message: str) -> None:
        self._recorder.record(local, ObjectEvent(type="Warning", reason=reason, message=message))

    def _unreachable(self) -> str:
        link = self._read_link()
        down_seconds = (datetime.now(UTC) - link.since).total_seconds()
        if link.is_up or down_seconds < self._settings.unready_after_seconds:
            return ""
        if link.reason != "LinkDown":
            return link.message
        return f"the provider cannot be reached since {link.since:%Y-%m-%dT%H:%M:%SZ}"

    def _look_again_seconds(self, uid: str, renew_at: datetime | None = None) -> float | None:
        link = self._read_link()
        if not link.is_up:
            left = self._settings.unready_after_seconds - (datetime.now(UTC) - link.since).total_seconds()
            return left + 0.1 if left > 0 else None
        if renew_at is not None:
            return min(POLL_SECONDS, max(1.0, (renew_at - datetime.now(UTC)).total_seconds()))
        return POLL_SECONDS if self._needed.is_polled(uid) else None


def _remaining_seconds(local: Mapping[str, Any], *, now: datetime) -> int:
    """What is left of the grace, at least a second: none would remove the pod without waiting for its end."""
    metadata = local["metadata"]
    grace_seconds = metadata.get("deletionGracePeriodSeconds")
    grace_seconds = grace_seconds if isinstance(grace_seconds, int) else 30
    ends_at = datetime.fromisoformat(metadata["deletionTimestamp"])
    left_seconds = round((ends_at - now).total_seconds())
    return max(1, min(grace_seconds, left_seconds))
