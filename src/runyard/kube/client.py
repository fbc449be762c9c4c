"""The client of one cluster: its verbs (`Verbs`) and the sub-resources that have verbs of their own.

Every call takes `deadline_seconds` for all of it, repeats included; `retry` says what is repeated. Objects come
back without `managedFields`; objects that go in are never changed. Namespaces are always said, never assumed:
a namespaced object needs one, a list without one is of all namespaces.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from runyard.kube.config import ClusterConfig
from runyard.kube.objects import Object, encode
from runyard.kube.rate_limiter import Priority, RateLimit
from runyard.kube.resources import PODS, SERVICE_ACCOUNTS, Resource
from runyard.kube.transport import Transport
from runyard.kube.verbs import DEADLINE_SECONDS, Verbs, delete_options


class Client(Verbs):
    """One cluster. Safe for concurrent use within one event loop."""

    @classmethod
    @asynccontextmanager
    async def connect(cls, config: ClusterConfig, *, rate_limit: RateLimit | None = None) -> AsyncIterator[Self]:
        """A client on its own transport, closed at the end of the block. Nothing is sent yet."""
        async with Transport(config, rate_limit=rate_limit) as transport:
            yield cls(transport)

    async def bind(
        self,
        pod: str,
        *,
        namespace: str,
        node: str,
        uid: str | None = None,
        dry_run: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """Bind a pod to a node, as a scheduler does; with `uid`, only that pod. Conflict when it is bound."""
        identity = {"name": pod, "namespace": namespace} | ({"uid": uid} if uid else {})
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": identity,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(namespace=namespace, name=pod, subresource="binding")
        await self._post(path, binding, dry_run=dry_run, deadline_seconds=deadline_seconds)

    async def evict(
        self,
        pod: str,
        *,
        namespace: str,
        uid: str | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """Evict a pod. Raises Throttled at once, without a retry, while a disruption budget forbids it."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": delete_options(uid=uid, grace_period_seconds=grace_period_seconds, dry_run=dry_run),
        }
        path = PODS.path(namespace=namespace, name=pod, subresource="eviction")
        await self._post(
            path, eviction, dry_run=dry_run, deadline_seconds=deadline_seconds, default_priority=Priority.STOP
        )

    async def scale(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str,
        replicas: int,
        uid: str | None = None,
        dry_run: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Object:
        """Set the number of replicas; with `uid`, only of that object. Returns the Scale."""
        precondition = {"metadata": {"uid": uid}} if uid else {}
        return await self.patch(
            resource,
            name,
            {**precondition, "spec": {"replicas": replicas}},
            namespace=namespace,
            subresource="scale",
            dry_run=dry_run,
            deadline_seconds=deadline_seconds,
        )

    async def create_token(
        self,
        service_account: str,
        *,
        namespace: str,
        audiences: Sequence[str] = (),
        expiration_seconds: int = 3600,
        pod: tuple[str, str] | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Object:
        """A TokenRequest for a service account; `token` and `expirationTimestamp` are in its `status`.

        `pod`: name and uid of the pod that the token ends with.
        """
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod[0], "uid": pod[1]} if pod else None
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [*audiences],
                "expirationSeconds": expiration_seconds,
                **({"boundObjectRef": bound} if bound else {}),
            },
        }
        path = SERVICE_ACCOUNTS.path(namespace=namespace, name=service_account, subresource="token")
        return await self._post(path, request, dry_run=False, deadline_seconds=deadline_seconds)

    async def _post(
        self,
        path: str,
        body: Object,
        *,
        dry_run: bool,
        deadline_seconds: float,
        default_priority: Priority | None = None,
    ) -> Object:
        return await self._send(
            "POST",
            path,
            params={"dryRun": "All"} if dry_run else {},
            body=encode(body),
            is_idempotent=dry_run,
            deadline_seconds=deadline_seconds,
            default_priority=default_priority,
        )
