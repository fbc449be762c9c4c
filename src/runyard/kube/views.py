"""What a reflector keeps of each object: a plain dictionary, or a narrow struct decoded straight from the wire.

A `View` names the fields it wants; msgspec skips the rest while it parses, so that a view of five fields costs
five fields. Views are shared by every reader of a store: frozen, and dictionaries are not to be changed either.
"""

import sys
from typing import NamedTuple, Protocol, TypeVar, cast

import msgspec

from runyard.kube.errors import Malformed
from runyard.kube.objects import Object
from runyard.kube.resources import Resource

V = TypeVar("V")
V_contra = TypeVar("V_contra", contravariant=True)


class Key(NamedTuple):
    """The name of an object within one resource type; `namespace` is empty for cluster-scoped ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """The metadata that a reflector needs; subclass it to keep labels, owner references and so on."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class View(msgspec.Struct, frozen=True, gc=False):
    """Base of narrow views: a subclass adds the fields it wants, each with a default where Kubernetes omits it.

    `class PodView(View, frozen=True)`; fields are named as on the wire, or by `msgspec.field(name="podIP")`.
    """

    metadata: Metadata


class Lens(Protocol[V_contra]):
    """Reads and normalizes the identity of a view."""

    def settle(self, view: V_contra) -> Key:
        """Bring a view fresh from the wire into the form that is kept, in place, and return its key."""
        ...

    def share(self, view: V_contra, held: V_contra) -> None:
        """Let a newer state use the name's string of the one it replaces, which the store's key refers to."""
        ...

    def uid(self, view: V_contra) -> str: ...

    def version(self, view: V_contra) -> str: ...


class StructLens:
    """The lens of `View` and its subclasses."""

    def settle(self, view: View) -> Key:
        """Share the namespace's string between all objects in it: the key and the view both refer to it."""
        metadata = view.metadata
        namespace = sys.intern(metadata.namespace)
        msgspec.structs.force_setattr(metadata, "namespace", namespace)
        return Key(namespace, metadata.name)

    def share(self, view: View, held: View) -> None:
        msgspec.structs.force_setattr(view.metadata, "name", held.metadata.name)

    def uid(self, view: View) -> str:
        return view.metadata.uid

    def version(self, view: View) -> str:
        return view.metadata.resource_version


class DictionaryLens:
    """The lens of whole objects as plain dictionaries, `managedFields` dropped."""

    def __init__(self, resource: Resource) -> None:
        self._api_version = resource.api_version
        self._kind = resource.kind

    def settle(self, view: Object) -> Key:
        """Drop managedFields; set apiVersion and kind, which items of a list lack and watch events carry."""
        metadata = view.get("metadata")
        if not isinstance(metadata, dict) or "name" not in metadata:
            raise Malformed("an object without metadata.name")
        for field in ("name", "namespace", "uid", "resourceVersion"):
            if not isinstance(metadata.get(field, ""), str):
                raise Malformed(f"an object whose metadata.{field} is not a string")
        metadata.pop("managedFields", None)
        view["apiVersion"] = self._api_version
        view["kind"] = self._kind
        namespace = sys.intern(metadata.get("namespace", ""))
        if namespace:
            metadata["namespace"] = namespace
        return Key(namespace, metadata["name"])

    def share(self, view: Object, held: Object) -> None:
        view["metadata"]["name"] = held["metadata"]["name"]

    def uid(self, view: Object) -> str:
        return cast("str", view["metadata"].get("uid", ""))

    def version(self, view: Object) -> str:
        return cast("str", view["metadata"].get("resourceVersion", ""))


def build_lens(view: type[V], *, resource: Resource) -> Lens[V]:
    """The lens for a view type: `dict`, or a subclass of `View`."""
    if view is dict:
        return cast("Lens[V]", DictionaryLens(resource))
    if issubclass(view, View):
        return cast("Lens[V]", StructLens())
    raise TypeError(f"a view is dict or a subclass of runyard.kube.views.View, not {view!r}")
