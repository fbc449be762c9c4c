"""A reason of a run with its message."""

from dataclasses import dataclass

from runyard.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason, and a message for people: what happened, with figures, and what to do if it is not in the reason."""

    reason: Reason
    message: str
