"""The verbs of the Kubernetes API over plain dictionaries, on any resource. `Client` inherits them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Self

from runyard.kube.errors import Gone
from runyard.kube.objects import (
    Listing,
    Object,
    complete_object,
    decode_object,
    encode,
    has_precondition,
    listing_from_answer,
)
from runyard.kube.rate_limiter import Priority
from runyard.kube.resources import Resource
from runyard.kube.retry import send_with_retry
from runyard.kube.transport import Transport
from runyard.kube.transport_errors import typed_errors

PatchKind = Literal["merge", "json", "strategic"]
FieldValidation = Literal["Strict", "Warn", "Ignore"]
Propagation = Literal["Background", "Foreground", "Orphan"]

DEADLINE_SECONDS = 30.0
PAGE_SIZE = 500
_LIST_RESTARTS = 2
_PATCH_TYPES: Mapping[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_PRIORITIES: Mapping[str, Priority] = {
    "DELETE": Priority.STOP,
    "GET": Priority.STATUS,
    "PATCH": Priority.CREATE,
    "POST": Priority.CREATE,
    "PUT": Priority.CREATE,
}
_APPLY_TYPE = "application/apply-patch+yaml"  # JSON is YAML


class Verbs:
    """get, list, create, apply, patch, replace, delete.

    A request's priority (see `rate_limiter`) follows from its verb: STOP for deletions and evictions, STATUS for
    reads, CREATE for the rest. `with_priority` chooses another.
    """

    def __init__(self, transport: Transport, *, priority: Priority | None = None) -> None:
        self.transport = transport
        self.priority = priority
        """The priority of everything that is sent through this object; None: by the verb."""

    def with_priority(self, priority: Priority) -> Self:
        """The same client, whose requests and streams all have this priority; shares connections and limits."""
        return type(self)(self.transport, priority=priority)

    async def get(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Object:
        """Read an object, live: the result reflects every write that was acknowledged before."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._send("GET", path, is_idempotent=True, deadline_seconds=deadline_seconds)

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = PAGE_SIZE,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Listing:
        """Everything that matched at one moment, however many pages it takes.

        Where that moment is forgotten between two pages (410) it begins again, and at last asks for a single
        page, which cannot expire.
        """
        clock = asyncio.get_running_loop().time
        ends_at = clock() + deadline_seconds
        path, params = resource.path(namespace=namespace), _selectors(label_selector, field_selector)
        restarts = 0
        while True:
            limit = page_size if restarts < _LIST_RESTARTS else 0
            pages = self._iter_pages(resource, path, params, limit, seconds_left=lambda: ends_at - clock())
            try:
                listings = [page async for page in pages]
            except Gone:
                if not limit:
                    raise
                restarts += 1
            else:
                items = [item for listing in listings for item in listing.items]
                return Listing(items, listings[0].resource_version)

    def iter_pages(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = PAGE_SIZE,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> AsyncIterator[Listing]:
        """The pages of one consistent list as they come; `deadline_seconds` is for each of them.

        Raises Gone where the moment of the list is forgotten before its end: what was yielded stays yielded.
        """
        path, params = resource.path(namespace=namespace), _selectors(label_selector, field_selector)
        return self._iter_pages(resource, path, params, page_size, seconds_left=lambda: deadline_seconds)

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation = "Strict",
        dry_run: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Object:
        """Create an object. Not retried after a lost connection: the caller must check whether it exists."""
        target = complete_object(resource, body, namespace=namespace, is_new=True)
        return await self._send(
            "POST",
            resource.path(namespace=target.namespace),
            params=_write_params(field_manager, field_validation, dry_run=dry_run),
            body=encode(target.body),
            is_idempotent=dry_run,
            deadline_seconds=deadline_seconds,
        )

    async def apply(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        namespace: str | None = None,
        subresource: str | None = None,
        force: bool = False,
        field_validation: FieldValidation = "Strict",
        dry_run: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Object:
        """Server-side apply: the fields in `body` become `field_manager`'s. Idempotent.

        Where another manager owns one of them with another value: Conflict, whose `causes` name field and
        manager, unless `force`. With `metadata.uid` nothing new is created: Conflict if there is no object,
        Invalid if there is another one.
        """
        target = complete_object(resource, body, namespace=namespace, subresource=subresource)
        params = _write_params(field_manager, field_validation, dry_run=dry_run)
        return await self._send(
            "PATCH",
            resource.path(namespace=target.namespace, name=target.name, subresource=subresource),
            params=params | ({"force": "true"} if force else {}),
            body=encode(target.body),
            content_type=_APPLY_TYPE,
            is_idempotent=True,
            deadline_seconds=deadline_seconds,
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        kind: PatchKind = "merge",
        subresource: str | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation = "Strict",
        dry_run: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Object:
        """Patch an object.

        `metadata` in a merge patch carries preconditions: another `uid` is Invalid, another `resourceVersion`
        Conflict.
        """
        return await self._send(
            "PATCH",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            params=_write_params(field_manager, field_validation, dry_run=dry_run),
            body=encode(patch),
            content_type=_PATCH_TYPES[kind],
            is_idempotent=dry_run or (kind != "json" and has_precondition(patch)),
            deadline_seconds=deadline_seconds,
        )

    async def replace(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation = "Strict",
        dry_run: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Object:
        """Replace an object; raises Conflict if its `resourceVersion` is no longer the latest."""
        target = complete_object(resource, body, namespace=namespace, subresource=subresource)
        return await self._send(
            "PUT",
            resource.path(namespace=target.namespace, name=target.name, subresource=subresource),
            params=_write_params(field_manager, field_validation, dry_run=dry_run),
            body=encode(target.body),
            is_idempotent=dry_run or has_precondition(target.body),
            deadline_seconds=deadline_seconds,
        )

    async def send_encoded(
        self,
        method: Literal["POST", "PUT", "PATCH"],
        resource: Resource,
        body: bytes,
        *,
        namespace: str | None = None,
        name: str | None = None,
        content_type: str = "application/json",
        is_idempotent: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Object:
        """Send a body byte for byte, validated strictly: for a caller that has checked exactly these bytes.

        Without a name, to the collection (POST). `is_idempotent`: the body carries preconditions that make a repeat
        harmless.
        """
        return await self._send(
            method,
            resource.path(namespace=namespace, name=name),
            params=_write_params(None, "Strict", dry_run=False),
            body=body,
            content_type=content_type,
            is_idempotent=is_idempotent,
            deadline_seconds=deadline_seconds,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Object:
        """Delete an object; Conflict when it is not the one that `uid` and `resource_version` say.

        Returns what the server says: the object while something still holds it, a Status once it is gone.
        """
        options = delete_options(
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_period_seconds=grace_period_seconds,
            dry_run=dry_run,
        )
        return await self._send(
            "DELETE",
            resource.path(namespace=namespace, name=name),
            body=encode(options),
            is_idempotent=dry_run or "preconditions" in options,
            deadline_seconds=deadline_seconds,
        )

    async def _iter_pages(
        self,
        resource: Resource,
        path: str,
        params: Mapping[str, str],
        limit: int,
        *,
        seconds_left: Callable[[], float],
    ) -> AsyncIterator[Listing]:
        params = {**params, "limit": str(limit)} if limit else params
        token = ""
        while True:
            answer = await self._send(
                "GET",
                path,
                params={**params, "continue": token} if token else params,
                is_idempotent=True,
                deadline_seconds=seconds_left(),
            )
            with typed_errors(f"GET {path}"):
                page = listing_from_answer(answer, resource=resource)
            yield page
            token = page.continue_token
            if not token:
                return

    async def _send(
        self,
        method: str,
        path: str,
        *,
        is_idempotent: bool,
        deadline_seconds: float,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        default_priority: Priority | None = None,
    ) -> Object:
        """Send one request, retried as `retry` allows; returns the object in the answer."""
        default = _PRIORITIES[method] if default_priority is None else default_priority
        priority = default if self.priority is None else self.priority

        async def attempt(seconds_left: float) -> Object:
            answer = await self.transport.request(
                method,
                path,
                params=params,
                body=body,
                content_type=content_type,
                priority=priority,
                deadline_seconds=seconds_left,
            )
            with typed_errors(f"{method} {path}"):
                return decode_object(answer)

        return await send_with_retry(attempt, is_idempotent=is_idempotent, deadline_seconds=deadline_seconds)


def delete_options(
    *,
    uid: str | None = None,
    resource_version: str | None = None,
    propagation: Propagation | None = None,
    grace_period_seconds: int | None = None,
    dry_run: bool = False,
) -> Object:
    """The DeleteOptions that deletions and evictions carry; what is not said is left to the server.

    A dry run is said here and nowhere else: the server ignores `?dryRun=` once there is a body, and deletes.
    """
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {key: value for key, value in preconditions.items() if value is not None} or None,
        "propagationPolicy": propagation,
        "gracePeriodSeconds": grace_period_seconds,
        "dryRun": ["All"] if dry_run else None,
    }
    return {key: value for key, value in options.items() if value is not None}


def _write_params(field_manager: str | None, field_validation: FieldValidation, *, dry_run: bool) -> dict[str, str]:
    params: dict[str, str] = {"fieldValidation": field_validation}
    if field_manager is not None:
        params["fieldManager"] = field_manager
    if dry_run:
        params["dryRun"] = "All"
    return params


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in selectors.items() if value}
