"""The Node object and its Lease: registered, kept Ready, restored when somebody deletes it.

Other writers' labels, conditions and taints survive: fields are written by server-side apply, which merges conditions
by type; taints are one list for the apiserver, so ours is added to what is there.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from runyard import __version__
from runyard.kube import AlreadyExists, Client, Conflict, Invalid, KubeError, NotFound, Object, Priority
from runyard.kube.resources import LEASES, NODES
from runyard.node.node_settings import NodeSettings
from runyard.node.provider_tie import PROVIDER_ANNOTATION, ProviderTie
from runyard.node.providers.provider import Link
from runyard.node.timestamps import write_now

FIELD_MANAGER = "runyard-node"
LEASE_NAMESPACE = "kube-node-lease"
ELECTION_PREFIX = "runyard-node-"
"""Of the Lease by which the agents of a node elect their leader."""
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
"""As a kubelet does: the node controller waits for 40 s (50 s since Kubernetes 1.32) before it calls a node lost."""
STATUS_SECONDS = 300.0
"""How often the whole status is written if nothing changes."""
GONE_SECONDS = 0.5
"""How long it pauses before it registers a node that is gone."""
REACHABLE = "ProviderReachable"
TAINT_ATTEMPTS = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Figures:
    """What the node publishes."""

    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    link: Link
    is_held: bool = False
    """Whether the default scheduler must place nothing here now."""


class VirtualNode:
    """Keeps the Node and its Lease. `run` it on the leader."""

    def __init__(
        self,
        client: Client,
        settings: NodeSettings,
        *,
        read_port: Callable[[], int],
        read_figures: Callable[[], Figures],
        changed: asyncio.Event,
        tie: ProviderTie,
    ) -> None:
        self._client = client.with_priority(Priority.STOP)  # a heartbeat must not wait behind other work
        self._settings = settings
        self._read_port = read_port
        self._read_figures = read_figures
        self._changed = changed
        self._tie = tie
        self.uid = ""
        """Of the Node, once it is registered."""
        self._since: dict[str, tuple[str, str]] = {}
        """By type of condition: its status, and since when."""
        self.is_cordoned = False
        """Whether somebody ran `kubectl cordon`, as of the last heartbeat."""
        self.registered = asyncio.Event()
        """Set once the node has been written for the first time."""

    async def keep_alive(self) -> None:
        """Renew the Lease of a node that is there already, long before this agent may register it. Never fails."""
        try:
            self.uid = (await self._client.get(NODES, self._settings.name))["metadata"]["uid"]
            await self._renew()
        except NotFound:
            return
        except KubeError as error:
            _log.warning("the node could not be kept alive: %s", error, extra={"node": self._settings.name})

    async def run(self) -> None:
        """Register, then renew the Lease and write the status when it changes; for ever."""
        clock = asyncio.get_running_loop().time
        written: Figures | None = None
        written_at = renewed_at = float("-inf")
        while True:
            now = clock()
            self._changed.clear()
            try:
                if written is None:
                    await self._register()
                await self._name_provider()
                figures = self._read_figures()
                if now - renewed_at >= RENEW_SECONDS or written is None:
                    await self._renew()  # first: whatever else fails, the node lives
                    renewed_at = now
                if written is None or figures.is_held != written.is_held:
                    await self._ensure_taints(is_held=figures.is_held)
                if figures != written or now - written_at >= STATUS_SECONDS:
                    await self._write_status(figures)
                    written, written_at = figures, now
                    self.registered.set()
            except NotFound:
                _log.warning("the node is gone: it is registered again", extra={"node": self._settings.name})
                written = None
                await asyncio.sleep(GONE_SECONDS)
                continue
            except KubeError as error:
                _log.warning("the node could not be written: %s", error, extra={"node": self._settings.name})
                await asyncio.sleep(1.0)
            await self._wait(until=renewed_at + RENEW_SECONDS)

    async def _wait(self, *, until: float) -> None:
        seconds = max(0.05, until - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _register(self) -> None:
        """Create the Node, or take over the one of that name; what others wrote into it stays."""
        name = self._settings.name
        taints = [self._taint(self._settings.taint_key)]
        if self._read_figures().is_held:
            taints.append(self._taint(self._settings.hold_taint_key))
        body = {"metadata": {"name": name, "labels": self.labels}, "spec": {"taints": taints}}
        try:
            node = await self._client.create(NODES, body, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            labels = {"metadata": {"name": name, "labels": self.labels}}
            await self._client.apply(NODES, labels, field_manager=FIELD_MANAGER, force=True)
            node = await self._ensure_taints(is_held=self._read_figures().is_held)
        self.uid = node["metadata"]["uid"]
        self._tie.note_node(node)
        self.is_cordoned = bool(node.get("spec", {}).get("unschedulable"))
        for condition in node.get("status", {}).get("conditions") or ():
            if isinstance(condition, dict):
                changed_at = str(condition.get("lastTransitionTime", ""))
                self._since[str(condition.get("type"))] = (str(condition.get("status")), changed_at)

    async def _ensure_taints(self, *, is_held: bool) -> Object:
        """Bring our taints up to date, beside those that the node controller writes at the same time."""
        ours = {self._settings.taint_key: True, self._settings.hold_taint_key: is_held}
        for _ in range(TAINT_ATTEMPTS):
            node = await self._client.get(NODES, self._settings.name)
            taints = [taint for taint in node.get("spec", {}).get("taints") or () if isinstance(taint, dict)]
            found = {taint.get("key") for taint in taints}
            if all((key in found) == is_wanted for key, is_wanted in ours.items()):
                return node
            kept = [taint for taint in taints if taint.get("key") not in ours]
            wanted = [*kept, *(self._taint(key) for key, is_wanted in ours.items() if is_wanted)]
            patch = {
                "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
                "spec": {"taints": wanted},
            }
            try:
                return await self._client.patch(NODES, self._settings.name, patch)
            except Conflict:
                continue
        raise Conflict(f"the taints of node {self._settings.name} change faster than they can be written")

    async def _name_provider(self) -> None:
        """Write down which provider has the pods, before the first one is bound."""
        annotation = self._tie.find_annotation()
        if annotation is None:
            return
        # No apply: what applies the labels would remove it.
        patch = {"metadata": {"uid": self.uid, "annotations": {PROVIDER_ANNOTATION: annotation}}}
        await self._client.patch(NODES, self._settings.name, patch)
        self._tie.note_written(annotation)

    async def _write_status(self, figures: Figures) -> None:
        status = {
            "capacity": dict(figures.capacity),
            "allocatable": dict(figures.allocatable),
            "conditions": self._make_conditions(figures.link),
            "addresses": [{"type": "InternalIP", "address": self._settings.address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._read_port()}},
            "nodeInfo": _NODE_INFO,
        }
        body = {"metadata": {"name": self._settings.name, "uid": self.uid}, "status": status}
        try:
            await self._client.apply(NODES, body, field_manager=FIELD_MANAGER, subresource="status", force=True)
        except (Conflict, Invalid) as error:  # with a uid, apply creates nothing: there is no node, or another one
            raise NotFound(str(error)) from error

    def _make_conditions(self, link: Link) -> list[dict[str, str]]:
        states = (
            ("Ready", "True", "AgentReady", "the agent runs and reports"),
            ("MemoryPressure", "False", "ProviderDecides", "the provider's machines have their own"),
            ("DiskPressure", "False", "ProviderDecides", "the provider's machines have their own"),
            ("PIDPressure", "False", "ProviderDecides", "the provider's machines have their own"),
            ("NetworkUnavailable", "False", "NoPodNetwork", "pods have the provider's network"),
            (REACHABLE, "True", "LinkUp", "the provider answers")
            if link.is_up
            else (REACHABLE, "False", link.reason, f"{link.message or 'the provider does not answer'}; pods live on"),
        )
        now = write_now()
        conditions = []
        for kind, state, reason, message in states:
            before, since = self._since.get(kind, ("", ""))
            if before != state or not since:
                self._since[kind] = (state, now)
            conditions.append(
                {
                    "type": kind,
                    "status": state,
                    "reason": reason,
                    "message": message,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": self._since[kind][1],
                }
            )
        return conditions

    async def _renew(self) -> None:
        """Renew the Lease by which the node controller sees that the node lives; it is deleted with the Node."""
        name = self._settings.name
        body: dict[str, Any] = {
            "metadata": {
                "name": name,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": self.uid}],
            },
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            },
        }
        await self._client.apply(LEASES, body, namespace=LEASE_NAMESPACE, field_manager=FIELD_MANAGER, force=True)
        node = await self._client.get(NODES, name)  # NotFound: somebody deleted it
        self._tie.note_node(node)
        self.is_cordoned = bool(node.get("spec", {}).get("unschedulable"))

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the node, which node selectors of pods are compared with."""
        return make_labels(self._settings)

    @staticmethod
    def _taint(key: str) -> dict[str, str]:
        return {"key": key, "effect": "NoSchedule"}


def make_labels(settings: NodeSettings) -> Mapping[str, str]:
    """The labels of the node."""
    return {
        "type": "virtual-kubelet",
        "kubernetes.io/hostname": settings.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/role": "agent",
        "node-role.kubernetes.io/agent": "",
        "node.kubernetes.io/exclude-from-external-load-balancers": "true",
    }


_NODE_INFO = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "",
    "osImage": "Runyard virtual node",
    "containerRuntimeVersion": f"runyard://{__version__}",
    "kubeletVersion": f"v{__version__}",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}
