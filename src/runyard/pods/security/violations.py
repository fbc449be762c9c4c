"""Violations, and the wording of Kubernetes' messages, so that both texts are the same."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from runyard.pods.security.facts import Container, Pod, SecurityContext

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


@dataclass(frozen=True, slots=True)
class Violation:
    """One failed check: `check` is the plugin's name of it; reason and detail are its words."""

    check: str
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


@dataclass(frozen=True, slots=True)
class Finding:
    """The reason and detail of a failed check."""

    reason: str
    detail: str


def format_violations(violations: Iterable[Violation]) -> str:
    """All violations in one line, as at the end of the plugin's message."""
    return ", ".join(map(str, violations))


def choose(singular: str, plural: str, *, count: int) -> str:
    """The singular or plural for `count`."""
    return singular if count == 1 else plural


def quote_each(words: Iterable[str]) -> str:
    """`"a", "b"`, unescaped, as in the plugin."""
    return ", ".join(f'"{word}"' for word in words)


def name_containers(names: Sequence[str]) -> str:
    """`container "a"`, `containers "a", "b"`."""
    return f"{choose('container', 'containers', count=len(names))} {quote_each(names)}"


def name_setters(pod: Pod, is_bad: Callable[[SecurityContext], bool]) -> str:
    """The pod and containers whose context is bad: `pod and container "a"`; empty if none is."""
    setters = ["pod"] if is_bad(pod.context) else []
    if containers := select_names(pod, lambda container: is_bad(container.context)):
        setters.append(name_containers(containers))
    return " and ".join(setters)


def select_names(pod: Pod, is_bad: Callable[[Container], bool]) -> list[str]:
    """The names of the containers that are bad."""
    return [container.name for container in pod.containers if is_bad(container)]


def quote_as_go(text: str) -> str:
    """`text` in quotes as Go's %q writes it."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
