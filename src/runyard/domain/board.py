"""Where layers put their values: for every leaf, all that were offered, the winner last."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runyard.domain.effective import USERS, Leaf, Owner, Replaced, to_plain
from runyard.spec.problems import Path, Problem


@dataclass(frozen=True, slots=True)
class Offer:
    """A value, and who offers it."""

    value: Any
    owner: Owner
    source: str
    rule: str | None = None

    @property
    def is_users(self) -> bool:
        """Whether a user wrote it, in a function, a task or a run."""
        return self.owner in USERS


class Board:
    """Offers by leaf. Layers are put on it weakest first; what is taken off leaves a trace in `replaced`."""

    def __init__(self) -> None:
        self._winners: dict[Path, Offer] = {}
        self._losers: dict[Path, list[Offer]] = {}
        self.fills: dict[Path, Offer] = {}
        """Who filled a blank of a volume: the volume lies on the board as one, its blanks are filled one by one."""
        self.warnings: list[Problem] = []
        self.refusals: list[Problem] = []

    def __contains__(self, path: Path) -> bool:
        return path in self._winners

    def put(self, path: Path, offer: Offer) -> None:
        """Put a value over what lies there; a user's different value under an admin's is a warning."""
        below = self._winners.get(path)
        if below is not None:
            self._lose(path, below, to=offer)
        self._winners[path] = offer

    def fill(self, path: Path, offer: Offer) -> bool:
        """Put a value where nothing lies; whether it was put."""
        if path in self._winners:
            return False
        self._winners[path] = offer
        return True

    def take(self, path: Path, *, message: str | None, code: str = "override") -> Offer | None:
        """Remove the winner for good, with a warning if there is something to say."""
        gone = self._winners.pop(path, None)
        if gone is not None:
            self._losers.setdefault(path, []).append(gone)
            if message is not None:
                self.warnings.append(Problem(code, path, message, value=show(gone.value)))
        return gone

    def find(self, *path: str | int) -> Offer | None:
        """The winner, or None."""
        return self._winners.get(path)

    def value(self, *path: str | int) -> Any:
        """The winner's value, or None."""
        offer = self._winners.get(path)
        return None if offer is None else offer.value

    def under(self, *prefix: str | int) -> list[tuple[Path, Offer]]:
        """Winners below a path, in the order in which they came."""
        depth = len(prefix)
        return [(path, offer) for path, offer in self._winners.items() if path[:depth] == prefix and len(path) > depth]

    def iter_leaves(self) -> Iterator[Leaf]:
        """Every winner with what it replaced, strongest first."""
        for path, offer in self._winners.items():
            losers = self._losers.get(path, ())
            shown = to_plain(offer.value)
            replaced = tuple(
                Replaced(loser.source, plain) for loser in reversed(losers) if (plain := to_plain(loser.value)) != shown
            )
            yield Leaf(path, shown, offer.owner, offer.source, offer.rule, replaced)

    def _lose(self, path: Path, below: Offer, *, to: Offer) -> None:
        self._losers.setdefault(path, []).append(below)
        if below.is_users and not to.is_users and below.value != to.value:
            message = f"{to.source} sets {show(to.value)}; {show(below.value)} from {below.source} is not used"
            self.warnings.append(Problem("override", path, message, value=show(below.value)))


def show(value: Any) -> Any:
    """A value for messages."""
    plain = to_plain(value)
    return plain if isinstance(plain, str | int | float | bool) else str(plain)
