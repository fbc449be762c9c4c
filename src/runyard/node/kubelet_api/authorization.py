"""Whether a user may: a SubjectAccessReview on `nodes/<node>`, for every request.

As a kubelet since 1.33, the finer subresource is asked for before `nodes/proxy`, which allows everything. One thing is
stricter: whoever opens a stream needs `create`, also with a GET. A kubelet lets those who may `get` run commands over a
WebSocket.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runyard.kube import Client, KubeError
from runyard.kube.objects import encode
from runyard.kube.resources import SUBJECT_ACCESS_REVIEWS
from runyard.node.kubelet_api.authentication import User
from runyard.node.kubelet_api.expiring_cache import ExpiringCache
from runyard.node.kubelet_api.refusal import Refusal

ALLOWED_SECONDS = 300.0
"""How long a decision is believed, as on a kubelet: a right that was taken away may work for so long."""
DENIED_SECONDS = 30.0
MOST_DECISIONS = 4096
_REVIEWS_AT_A_TIME = 16
_REVIEW_SECONDS = 10.0

_VERBS: Mapping[str, str] = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "DELETE": "delete"}
_STREAMS = ("exec", "attach", "portForward", "run")
_SUBRESOURCES: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("checkpoint",),
    "configz": ("configz", "proxy"),
    "healthz": ("healthz", "proxy"),
    "logs": ("log",),
    "metrics": ("metrics",),
    "pods": ("pods", "proxy"),
    "runningpods": ("pods", "proxy"),
    "stats": ("stats",),
}


@dataclass(frozen=True, slots=True)
class Access:
    """What a request does, in the words of RBAC."""

    verb: str
    subresources: tuple[str, ...]
    """Of `nodes`. A right to one of them suffices."""


def access_of_request(method: str, path: str) -> Access:
    """What a request needs. Every path that is not known needs `nodes/proxy`."""
    first = path.strip("/").split("/", 1)[0]
    verb = "create" if first in _STREAMS else _VERBS.get(method.upper(), method.lower())
    return Access(verb, _SUBRESOURCES.get(first, ("proxy",)))


class Authorization:
    """Asks the cluster, and remembers its decisions for a while."""

    def __init__(self, client: Client, *, node: str, clock: Callable[[], float] | None = None) -> None:
        self._client = client
        self._node = node
        options = {} if clock is None else {"clock": clock}
        self._decisions: ExpiringCache[tuple[User, str, str], bool] = ExpiringCache(most=MOST_DECISIONS, **options)
        self._reviews = asyncio.Semaphore(_REVIEWS_AT_A_TIME)

    async def authorize(self, user: User, access: Access) -> None:
        """Refusal 403 when the user may not, 503 when the cluster cannot be asked."""
        for subresource in access.subresources:
            if await self._is_allowed(user, access.verb, subresource):
                return
        needed = " or ".join(f"nodes/{subresource}" for subresource in access.subresources)
        raise Refusal(403, f"Forbidden: {user.name} may not {access.verb} {needed} of the node {self._node}")

    async def _is_allowed(self, user: User, verb: str, subresource: str) -> bool:
        key = (user, verb, subresource)
        decision = self._decisions.find(key)
        if decision is None:
            decision = await self._review(user, verb, subresource)
            self._decisions.put(key, decision, seconds=ALLOWED_SECONDS if decision else DENIED_SECONDS)
        return decision

    async def _review(self, user: User, verb: str, subresource: str) -> bool:
        review = render_review(user, verb=verb, node=self._node, subresource=subresource)
        try:
            async with self._reviews:
                answer = await self._client.send_encoded(
                    "POST", SUBJECT_ACCESS_REVIEWS, encode(review), is_idempotent=True, deadline_seconds=_REVIEW_SECONDS
                )
        except KubeError as error:
            raise Refusal(503, f"the rights of {user.name} cannot be checked: {error}") from error
        status = answer.get("status") or {}
        return status.get("allowed") is True and status.get("denied") is not True


def render_review(user: User, *, verb: str, node: str, subresource: str) -> dict[str, Any]:
    """The SubjectAccessReview that asks whether `user` may."""
    return {
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            "resourceAttributes": {
                "verb": verb,
                "version": "v1",
                "resource": "nodes",
                "subresource": subresource,
                "name": node,
            },
        },
    }
