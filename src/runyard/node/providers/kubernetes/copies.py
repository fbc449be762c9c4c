"""Copies of ConfigMaps and Secrets at the provider: written before their pod, removed after it."""

import logging
from collections.abc import Callable

from runyard.kube import Client, Conflict, Invalid, NotFound, Resource
from runyard.kube.resources import CONFIG_MAPS, SECRETS
from runyard.node.providers.kubernetes.remote_objects import NODE_LABEL, RESOURCES, UID_LABEL, copy_name, iter_copies
from runyard.node.providers.provider import Object, Workload
from runyard.pods.references import iter_references

FIELD_MANAGER = "runyard-node"
SWEEP_PAGE = 25
"""How many copies are read at once: each may have a mebibyte."""

_log = logging.getLogger(__name__)


class Copies:
    """The copies of one node in one namespace. Raises `KubeError`."""

    def __init__(self, client: Client, *, namespace: str, node: str) -> None:
        self._client = client
        self._namespace = namespace
        self._node = node
        self._orphans: frozenset[str] = frozenset()

    async def write(self, workload: Workload) -> None:
        """Create or update the copies of a pod. Idempotent."""
        for resource, body in iter_copies(workload, node=self._node):
            try:
                await self._apply(resource, body)
            except Invalid:
                # The type of a Secret cannot be changed, but the local one may have been replaced.
                await self._delete(resource, body["metadata"]["name"])
                await self._apply(resource, body)

    async def remove_absent(self, workload: Workload) -> None:
        """Remove the copies of optional ones that no longer exist."""
        held = {"ConfigMap": workload.config_maps, "Secret": workload.secrets}
        references = {(found.kind, found.name) for found in iter_references(workload.spec)}
        for kind, name in sorted(references):
            if name not in held[kind]:
                await self._delete(RESOURCES[kind], copy_name(workload.uid, kind, name))

    async def remove(self, uid: str) -> None:
        """Remove all copies of a pod. Idempotent."""
        selector = f"{NODE_LABEL}={self._node},{UID_LABEL}={uid}"
        for resource in (CONFIG_MAPS, SECRETS):
            pages = self._client.iter_pages(
                resource, namespace=self._namespace, label_selector=selector, page_size=SWEEP_PAGE
            )
            async for page in pages:
                for item in page.items:
                    await self._delete(resource, item["metadata"]["name"], uid=item["metadata"]["uid"])

    async def sweep(self, is_needed: Callable[[str], bool]) -> None:
        """Remove copies of pods that are not needed, if they were not at the last sweep either.

        Copies are written before their pod: one sweep alone could meet a pod that is being started.
        """
        found: set[str] = set()
        for resource in (CONFIG_MAPS, SECRETS):
            pages = self._client.iter_pages(
                resource,
                namespace=self._namespace,
                label_selector=f"{NODE_LABEL}={self._node},{UID_LABEL}",
                page_size=SWEEP_PAGE,
            )
            async for page in pages:
                found |= {item["metadata"]["labels"][UID_LABEL] for item in page.items}
        orphans = frozenset(uid for uid in found if not is_needed(uid))
        for uid in sorted(orphans & self._orphans):
            _log.info("removes ConfigMaps and Secrets that a pod left at the provider", extra={"uid": uid})
            await self.remove(uid)
        self._orphans = orphans

    async def _apply(self, resource: Resource, body: Object) -> None:
        await self._client.apply(resource, body, namespace=self._namespace, field_manager=FIELD_MANAGER, force=True)

    async def _delete(self, resource: Resource, name: str, *, uid: str | None = None) -> None:
        try:
            await self._client.delete(resource, name, namespace=self._namespace, uid=uid)
        except (NotFound, Conflict):
            return
