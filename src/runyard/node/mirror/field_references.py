"""Fields of the local pod, as the downward API shows them: where the provider cannot know, or knows something else."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
OF_THE_PROVIDER = frozenset({"status.podIP", "status.podIPs"})
"""Fields that only the provider knows: references to them stay."""


@dataclass(frozen=True, slots=True)
class LocalFields:
    """The fields of one local pod."""

    pod: Mapping[str, Any]
    host_address: str
    """The agent's address, which is the node's."""

    def find(self, path: str) -> str | None:
        """The value of a field path, or None where the path is not one that Kubernetes knows.

        Labels and annotations that the pod lacks read as empty, as with a kubelet.
        """
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if keyed := _KEYED.fullmatch(path):
            return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
        if path in ("metadata.labels", "metadata.annotations"):
            return format_map(metadata.get(path.removeprefix("metadata.")) or {})
        values = {
            "metadata.name": metadata["name"],
            "metadata.namespace": metadata["namespace"],
            "metadata.uid": metadata["uid"],
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "status.hostIP": self.host_address,
            "status.hostIPs": self.host_address,
        }
        return values.get(path)


def format_map(texts: Mapping[str, str]) -> str:
    """Labels or annotations as a downward API volume shows them: sorted, `key="value"`, one per line."""
    return "\n".join(f"{key}={quote_as_go(texts[key])}" for key in sorted(texts, key=str.encode))


def quote_as_go(text: str) -> str:
    """A text as Go's `%q` prints it."""
    return '"' + "".join(_ESCAPES.get(character) or _quote_character(character) for character in text) + '"'


def _quote_character(character: str) -> str:
    if character.isprintable():
        return character
    number = ord(character)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def escape_expansion(text: str) -> str:
    """A text for `env[].value` that comes out as it is: there `$(NAME)` would be expanded, and `$$` is a dollar."""
    return text.replace("$", "$$")
