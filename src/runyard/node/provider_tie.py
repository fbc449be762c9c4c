"""Which provider has the pods of the node: an annotation of the Node names it.

With another kubeconfig or namespace every pod would look gone, and be called failed. So the agent does nothing about
its pods until the provider is the one that the Node names. It writes the name before it binds the first pod. Another
provider is accepted while no pods are bound, or when an operator says so: by `--accept-provider`, or by removing the
annotation.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from runyard.node.admission.refusal import Refusal

PROVIDER_ANNOTATION = "k8s.gpu/provider"

_UNKNOWN = Refusal("ProviderUnidentified", "nobody knows yet which provider this is")

_log = logging.getLogger(__name__)


class ProviderTie:
    """One term's knowledge. `read_identity` is that of `Identity`; None: the provider has no identity."""

    def __init__(
        self,
        read_identity: Callable[[], str | None] | None,
        *,
        accepted: str,
        has_pods: Callable[[], bool],
        on_changed: Callable[[], None],
    ) -> None:
        self._read_identity = read_identity
        self._accepted = accepted
        self._has_pods = has_pods
        self._on_changed = on_changed
        self._node_uid = ""
        self._written: str | None = None
        """What the Node says, as it was last read or written."""
        self._recorded: str | None = None
        """The provider that has the pods: differs from `_written` after the Node was deleted."""
        self._told: Refusal | None = _UNKNOWN

    def note_node(self, node: Mapping[str, Any]) -> None:
        """Take in the Node as it is now. A new Node in the middle of a term does not make us forget the provider."""
        metadata = node["metadata"]
        self._written = (metadata.get("annotations") or {}).get(PROVIDER_ANNOTATION) or None
        if metadata["uid"] == self._node_uid or not self._node_uid:
            self._recorded = self._written
        self._node_uid = metadata["uid"]
        self.check()

    def find_annotation(self) -> str | None:
        """What the Node's annotation must be changed to; None: nothing."""
        identity = self._read_identity() if self._read_identity is not None else None
        if not self._node_uid or not identity:
            return None
        if self._recorded not in (None, identity):
            if self._has_pods() and self._accepted != identity:
                return self._recorded if self._written != self._recorded else None
            _log.warning("accepts the provider %s instead of %s", identity, self._recorded)
        return identity if self._written != identity else None

    def note_written(self, annotation: str) -> None:
        """The Node's annotation was written."""
        self._written = self._recorded = annotation
        self.check()

    def find_mismatch(self) -> Refusal | None:
        """Why the provider must not be believed: it is another one, or nobody knows yet."""
        if self._read_identity is None:
            return None
        identity = self._read_identity()
        if identity is None or not self._node_uid:
            return _UNKNOWN
        if identity == "":
            if self._recorded is None:
                return None
            return Refusal(
                "ProviderUnidentified",
                f"the node's pods are at the provider {self._recorded}; whether this is the same one cannot be told, "
                "because its namespace may not be read: apply `runyard node manifests --provider-side` there again",
            )
        if self._recorded in (None, identity):
            return (
                None if self._written == identity else Refusal("ProviderUnidentified", "the node does not name it yet")
            )
        return Refusal(
            "ProviderChanged",
            f"the node's pods are at the provider {self._recorded}, not at {identity}, which the kubeconfig and the "
            f"namespace lead to now; go back to it, or, to give up its pods, use --accept-provider={identity}",
        )

    def check(self) -> None:
        """Call `on_changed` if the answer of `find_mismatch` is another one than the last time."""
        found = self.find_mismatch()
        if found != self._told:
            self._told = found
            self._on_changed()
