"""Why a pod cannot run on the node, for its condition `PodScheduled` and for events."""

from collections.abc import Iterable
from dataclasses import dataclass

MOST_MESSAGE_CHARACTERS = 1000
"""Of all refusals of a pod together; an event may have 1024 bytes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason: a CamelCase word, and a sentence with the field or the figures."""

    reason: str
    message: str


def format_refusals(refusals: Iterable[Refusal]) -> str:
    """All messages in one line of bounded length."""
    text = "; ".join(refusal.message for refusal in refusals)
    return text if len(text) <= MOST_MESSAGE_CHARACTERS else f"{text[: MOST_MESSAGE_CHARACTERS - 1]}…"
