"""What the provider keeps of each of its pods and their events: narrow structs, decoded from the wire."""

from typing import Any

import msgspec

from runyard.kube import Metadata, View


class PodMetadata(Metadata, frozen=True, gc=False):
    """Of a pod at the provider."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    deleted_at: str = msgspec.field(default="", name="deletionTimestamp")


class ContainerView(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What decides a container's requests."""

    name: str = ""
    resources: dict[str, Any] = msgspec.field(default_factory=dict)
    restartPolicy: str = ""  # noqa: N815 - as on the wire, for `pods.demand` reads it


class SpecView(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What decides a pod's requests."""

    containers: tuple[ContainerView, ...] = ()
    initContainers: tuple[ContainerView, ...] = ()  # noqa: N815 - as on the wire
    resources: dict[str, Any] = msgspec.field(default_factory=dict)
    overhead: dict[str, Any] = msgspec.field(default_factory=dict)


class RemotePodView(View, frozen=True, gc=False):
    """A pod at the provider."""

    metadata: PodMetadata
    spec: SpecView = SpecView()
    status: dict[str, Any] = msgspec.field(default_factory=dict)


def spec_to_mapping(spec: SpecView) -> dict[str, Any]:
    """The spec as `pods.demand` reads it."""
    mapping: dict[str, Any] = msgspec.to_builtins(spec)
    return mapping


class InvolvedObject(msgspec.Struct, frozen=True, gc=False):
    """What an event is about."""

    name: str = ""
    uid: str = ""
    field_path: str = msgspec.field(default="", name="fieldPath")


class SeriesView(msgspec.Struct, frozen=True, gc=False):
    """How often an event of the newer API was repeated."""

    count: int = 0
    last_at: str | None = msgspec.field(default=None, name="lastObservedTime")


class EventView(View, frozen=True, gc=False):
    """An event at the provider."""

    about: InvolvedObject = msgspec.field(default=InvolvedObject(), name="involvedObject")
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    count: int | None = None
    series: SeriesView | None = None
    first_at: str | None = msgspec.field(default=None, name="firstTimestamp")
    last_at: str | None = msgspec.field(default=None, name="lastTimestamp")
    event_at: str | None = msgspec.field(default=None, name="eventTime")
