"""The one way to write to the cluster: objects that were admitted, and patches of `manifests`. Nothing else is sent."""

import json

from runyard.domain.admission import AdmittedObject
from runyard.kube import Client, Conflict, NotFound, Object, Priority, Resource
from runyard.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
)
from runyard.kube.verbs import Propagation
from runyard.manifests.patches import EndPod, Patch, Stop

RESOURCES = {
    resource.kind: resource
    for resource in (CONFIG_MAPS, DEPLOYMENTS, JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS, SERVICES)
}
"""Every kind of object that a run has."""


class ClusterWrites:
    """Writes to one cluster. Raises `KubeError`."""

    def __init__(self, client: Client, *, request_seconds: float) -> None:
        self._client = client
        self._stopping = client.with_priority(Priority.STOP)
        self.request_seconds = request_seconds
        """The deadline of one request, retries included."""

    async def create(self, admitted: AdmittedObject) -> Object:
        """Create an object. Not repeated if the answer gets lost: the caller finds it by its name."""
        resource = _get_resource(admitted.kind, admitted.api_version)
        return await self._client.send_encoded(
            "POST", resource, admitted.body, namespace=admitted.namespace, deadline_seconds=self.request_seconds
        )

    async def replace(self, admitted: AdmittedObject, *, resource_version: str | None = None) -> Object:
        """Replace the object of that name: in that state, or whatever it holds. `Conflict` if it is in another one."""
        resource = _get_resource(admitted.kind, admitted.api_version)
        body = admitted.body
        if resource_version is not None:
            # A precondition of the request. What the object says stays as it was admitted.
            content = json.loads(body)
            content["metadata"]["resourceVersion"] = resource_version
            body = json.dumps(content, separators=(",", ":")).encode()
        return await self._client.send_encoded(
            "PUT",
            resource,
            body,
            namespace=admitted.namespace,
            name=admitted.name,
            is_idempotent=True,
            deadline_seconds=self.request_seconds,
        )

    async def patch(self, patch: Patch) -> Object:
        """Change one object of one UID. `Invalid` if one of its tests failed.

        Repeated if the answer gets lost: a repeat changes nothing more, or its test of the generation fails.
        """
        client = self._stopping if isinstance(patch, Stop | EndPod) else self._client
        return await client.send_encoded(
            "PATCH",
            _get_resource(patch.kind, patch.api_version),
            patch.body,
            namespace=patch.namespace,
            name=patch.name,
            content_type=patch.content_type,
            is_idempotent=True,
            deadline_seconds=self.request_seconds,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str,
        uid: str,
        resource_version: str | None = None,
        propagation: Propagation | None = "Background",
    ) -> bool:
        """Delete the object of that UID; returns False if another state of it or another object has the name.

        True if it is gone already.
        """
        try:
            await self._client.delete(
                resource,
                name,
                namespace=namespace,
                uid=uid,
                resource_version=resource_version,
                propagation=propagation,
                deadline_seconds=self.request_seconds,
            )
        except NotFound:
            return True
        except Conflict:
            return False
        return True


def _get_resource(kind: str, api_version: str) -> Resource:
    resource = RESOURCES.get(kind)
    if resource is None or resource.api_version != api_version:
        raise ValueError(f"the engine sends no {api_version} {kind}")
    return resource
