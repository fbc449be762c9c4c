"""The patches that an engine sends after an anchor exists: release, stop, settle, and a few that decide nothing.

Each type holds only its own fields.

They are JSON patches (RFC 6902). The apiserver applies all operations of one or none, and `test` operations are their
preconditions; a failed one is answered with 422:
- the UID: an anchor that was deleted and created again by somebody else is not touched.
- the generation annotation, as the engine read it (optimistic concurrency). A call of an older generation that comes
  late finds another value than it read, and does nothing. A call that reads a newer generation than its own must not be
  sent at all; its constructor refuses it. Other writers of the object, such as the Job controller, do not disturb it,
  as they would with `resourceVersion`.
- the annotations with the figures that admission saw (`runyard.io/replicas`, `runyard.io/ttl`): a patch sets no others.
"""

import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

from runyard.domain.admission import AdmittedObject
from runyard.manifests.metadata import (
    API_VERSIONS,
    GENERATION_ANNOTATION,
    REMINDED_ANNOTATION,
    REPLICAS_ANNOTATION,
    SERVED_ANNOTATION,
    TTL_ANNOTATION,
    WISH_ANNOTATION,
)

CONTENT_TYPE = "application/json-patch+json"
END_SECONDS = 1
"""The deadline by which a pod is ended in place. It ends at once, with its grace period, since it started earlier."""
JOB_END_SECONDS = 0
"""The deadline by which a Job is ended whose run has. No run has a timeout of 0, so it is known for what it is."""
MOST_GENERATION = 2**63 - 1
_SERVED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")

Operation = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorPatch(ABC):
    """A patch of one anchor: which one, and the generation that the engine read from it and the one that it obeys."""

    kind: Literal["Job", "Deployment"]
    name: str
    namespace: str
    uid: str
    seen_generation: int
    """The generation annotation as the engine read it."""
    generation: int
    """The generation of the call."""
    content_type: ClassVar[str] = CONTENT_TYPE

    def __post_init__(self) -> None:
        _check_name(self.name, self.namespace, self.uid)
        if self.kind not in API_VERSIONS:
            raise ValueError(f"not the kind of an anchor: {self.kind}")
        _check_number("seen_generation", self.seen_generation, most=MOST_GENERATION)
        _check_number("generation", self.generation, most=MOST_GENERATION)
        if self.seen_generation > self.generation:
            raise ValueError("the anchor has seen a newer generation; the call must do nothing")

    @property
    def api_version(self) -> str:
        """Of the anchor."""
        return API_VERSIONS[self.kind]

    @property
    def body(self) -> bytes:
        """The JSON patch to send."""
        expected = [
            {"op": "test", "path": "/metadata/uid", "value": self.uid},
            {"op": "test", "path": _point(GENERATION_ANNOTATION), "value": str(self.seen_generation)},
        ]
        return _encode([*expected, *self._make_operations()])

    @abstractmethod
    def _make_operations(self) -> list[Operation]:
        """The operations that follow the tests."""

    def _tell(self, wish: Literal["run", "stop"]) -> list[Operation]:
        return [
            {"op": "add", "path": _point(GENERATION_ANNOTATION), "value": str(self.generation)},
            {"op": "add", "path": _point(WISH_ANNOTATION), "value": wish},
        ]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Release(AnchorPatch):
    """Starts an anchor that is held back, or a service again after a stop. Harmless to one that runs already."""

    replicas: int | None = None
    """Of a Deployment: those that its annotation states."""

    def __post_init__(self) -> None:
        AnchorPatch.__post_init__(self)
        if (self.replicas is None) != (self.kind == "Job"):
            raise ValueError("a Deployment is released with its replicas, and a Job without")
        if self.replicas is not None:
            _check_number("replicas", self.replicas, most=2**31 - 1)

    def _make_operations(self) -> list[Operation]:
        if self.replicas is None:
            return [*self._tell("run"), {"op": "add", "path": "/spec/suspend", "value": False}]
        return [
            {"op": "test", "path": _point(REPLICAS_ANNOTATION), "value": str(self.replicas)},
            *self._tell("run"),
            {"op": "add", "path": "/spec/replicas", "value": self.replicas},
        ]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(AnchorPatch):
    """Begins to stop an anchor. A Job creates no further pods; those that exist are ended by `EndPod`.

    A Deployment gets 0 replicas and deletes its pods.
    """

    is_suspended: bool = False
    """Of a Job: suspend it too, which deletes its pods. Only if none has started, for their logs go with them."""

    def __post_init__(self) -> None:
        AnchorPatch.__post_init__(self)
        if self.is_suspended and self.kind != "Job":
            raise ValueError("only a Job can be suspended")

    def _make_operations(self) -> list[Operation]:
        if self.kind == "Deployment":
            return [*self._tell("stop"), {"op": "add", "path": "/spec/replicas", "value": 0}]
        suspend = [{"op": "add", "path": "/spec/suspend", "value": True}] if self.is_suspended else []
        # First no retries: a pod that ends now must not be replaced.
        return [*self._tell("stop"), {"op": "add", "path": "/spec/backoffLimit", "value": 0}, *suspend]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(AnchorPatch):
    """Lets Kubernetes delete a Job that has ended, once its log is stored."""

    ttl_seconds: int | None
    """Those that its annotation states; None: it has none, and the Job is kept."""
    ends_job: bool = False
    """Its controller has not ended the Job yet. A pod that is evicted, or whose node is lost, before it has counted the
    pod's failure does not use up a retry: it would start another, of a run that has ended. A Job that a stop has
    suspended would never end, and no TTL would delete it. Only for a Job without pods that live: the controller deletes
    them, with their output."""

    def __post_init__(self) -> None:
        AnchorPatch.__post_init__(self)
        if self.kind != "Job":
            raise ValueError("only a Job has a TTL")
        if self.ttl_seconds is not None:
            _check_number("ttl_seconds", self.ttl_seconds, most=2**31 - 1)
        elif not self.ends_job:
            raise ValueError("a patch without a TTL, and of a Job that has ended, changes nothing")

    def _make_operations(self) -> list[Operation]:
        ttl: list[Operation] = []
        if self.ttl_seconds is not None:
            ttl = [
                {"op": "test", "path": _point(TTL_ANNOTATION), "value": str(self.ttl_seconds)},
                {"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": self.ttl_seconds},
            ]
        # No retries, and a deadline that has passed: the controller ends the Job for whichever it sees first. It looks
        # at both before it creates pods, so that a suspended Job which goes on starts none.
        end = {"backoffLimit": 0, "activeDeadlineSeconds": JOB_END_SECONDS, "suspend": False} if self.ends_job else {}
        return [*ttl, *({"op": "add", "path": f"/spec/{name}", "value": value} for name, value in end.items())]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EndPod:
    """Ends a pod in place: SIGTERM, then SIGKILL after its grace period. Pod and log stay until they are deleted.

    Only a kubelet does that; a pod without a node is deleted instead.
    """

    name: str
    namespace: str
    uid: str
    kind: ClassVar[Literal["Pod"]] = "Pod"
    api_version: ClassVar[str] = "v1"
    content_type: ClassVar[str] = CONTENT_TYPE

    def __post_init__(self) -> None:
        _check_name(self.name, self.namespace, self.uid)

    @property
    def body(self) -> bytes:
        """The JSON patch to send."""
        expected = {"op": "test", "path": "/metadata/uid", "value": self.uid}
        return _encode([expected, {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": END_SECONDS}])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Remind:
    """Makes the Job controller look at a Job that it has forgotten. Nothing that anybody decides by is changed."""

    name: str
    namespace: str
    uid: str
    at: str
    """When, in ISO 8601."""
    kind: ClassVar[Literal["Job"]] = "Job"
    api_version: ClassVar[str] = API_VERSIONS["Job"]
    content_type: ClassVar[str] = CONTENT_TYPE

    def __post_init__(self) -> None:
        _check_name(self.name, self.namespace, self.uid, self.at)

    @property
    def body(self) -> bytes:
        """The JSON patch to send."""
        expected = {"op": "test", "path": "/metadata/uid", "value": self.uid}
        return _encode([expected, {"op": "add", "path": _point(REMINDED_ANNOTATION), "value": self.at}])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TakeServiceName:
    """Leads the Service with a stable name to another run: what was admitted for it replaces what is there.

    Only in the state that was read. The cluster's own fields stay, so that the address of the name does too.
    """

    service: AdmittedObject
    """The Service as the run that takes it would create it."""
    uid: str
    resource_version: str
    served: str
    """When that run was submitted: `is_served_moment`."""
    kind: ClassVar[Literal["Service"]] = "Service"
    api_version: ClassVar[str] = "v1"
    content_type: ClassVar[str] = CONTENT_TYPE

    def __post_init__(self) -> None:
        if self.service.kind != self.kind or self.service.api_version != self.api_version:
            raise ValueError(f"not a Service: {self.service.kind}")
        if not is_served_moment(self.served):
            raise ValueError(f"not a moment in UTC with microseconds: {self.served}")
        _check_name(self.name, self.namespace, self.uid, self.resource_version)

    @property
    def name(self) -> str:
        """Of the Service."""
        return self.service.name

    @property
    def namespace(self) -> str:
        """Of the Service."""
        return self.service.namespace or ""

    @property
    def body(self) -> bytes:
        """The JSON patch to send."""
        wanted = json.loads(self.service.body)
        metadata, spec = wanted["metadata"], wanted["spec"]
        notes = {**metadata.get("annotations", {}), SERVED_ANNOTATION: self.served}
        return _encode(
            [
                {"op": "test", "path": "/metadata/uid", "value": self.uid},
                {"op": "test", "path": "/metadata/resourceVersion", "value": self.resource_version},
                {"op": "add", "path": "/metadata/labels", "value": metadata["labels"]},
                {"op": "add", "path": "/metadata/annotations", "value": notes},
                {"op": "add", "path": "/metadata/ownerReferences", "value": metadata["ownerReferences"]},
                *({"op": "add", "path": f"/spec/{field}", "value": spec[field]} for field in sorted(spec)),
            ]
        )


def is_served_moment(text: str) -> bool:
    """Whether it is a moment as the annotation states it. Of two, the later text is the later moment."""
    return _SERVED.fullmatch(text) is not None


Patch = Release | Stop | Settle | EndPod | Remind | TakeServiceName
"""Every patch that an engine may send."""


def _check_name(*texts: str) -> None:
    if not all(type(text) is str and text for text in texts):
        raise ValueError("a patch names one object of one namespace by its UID")


def _check_number(name: str, number: int, *, most: int) -> None:
    if type(number) is not int or not 0 <= number <= most:
        raise ValueError(f"`{name}` must be a whole number from 0 to {most}")


def _point(annotation: str) -> str:
    """The JSON pointer (RFC 6901) of an annotation."""
    return "/metadata/annotations/" + annotation.replace("~", "~0").replace("/", "~1")


def _encode(operations: list[Operation]) -> bytes:
    return json.dumps(operations, separators=(",", ":")).encode()
