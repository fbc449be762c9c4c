"""Where layers put their values: for every leaf, all that were offered, the winner last."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from runyard.domain.effective_spec import USERS, Leaf, Owner, Replaced, to_plain
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem

_NOTHING: Mapping[Path, "Offer"] = {}


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
        self._fields: dict[str | int, dict[Path, Offer]] = {}
        """Winners by the first part of their path."""
        self._losers: dict[Path, list[Offer]] = {}
        self.fills: dict[Path, Offer] = {}
        """Who filled a blank of a volume: the volume lies on the board as one, its blanks are filled one by one."""
        self.unfilled: dict[Path, Replaced] = {}
        """What lay where a lock filled."""
        self.warnings: list[Problem] = []
        self.refusals: list[Problem] = []

    def __contains__(self, path: Path) -> bool:
        return path in self._fields.get(path[0], _NOTHING)

    def put(self, path: Path, offer: Offer) -> None:
        """Put a value over what lies there; a user's different value under an admin's is a warning."""
        field = self._fields.setdefault(path[0], {})
        below = field.get(path)
        if below is not None:
            self._lose(path, below, to=offer)
        field[path] = offer

    def refine(self, path: Path, value: Any) -> None:
        """Complete the winner's own value: nobody loses by it."""
        field = self._fields[path[0]]
        field[path] = replace(field[path], value=value)

    def fill(self, path: Path, offer: Offer) -> bool:
        """Put a value where nothing lies; whether it was put."""
        if path in self:
            return False
        self._fields.setdefault(path[0], {})[path] = offer
        return True

    def discard(self, path: Path, *, message: str | None, code: Code = Code.OVERRIDE) -> Offer | None:
        """Remove the winner for good, with a warning if there is something to say."""
        gone = self._fields.get(path[0], {}).pop(path, None)
        if gone is not None:
            self._losers.setdefault(path, []).append(gone)
            if message is not None:
                self.warnings.append(Problem(code, path, message, value=show(gone.value)))
        return gone

    def is_asked(self, path: Path) -> bool:
        """Whether what lies there is what a user asked, be it that a profile says the same."""
        offer = self.find(*path)
        below = self._losers.get(path, ())
        return offer is not None and (offer.is_users or any(it.is_users and it.value == offer.value for it in below))

    def find(self, *path: str | int) -> Offer | None:
        """The winner, or None."""
        return self._fields.get(path[0], _NOTHING).get(path)

    def value(self, *path: str | int) -> Any:
        """The winner's value, or None."""
        offer = self.find(*path)
        return None if offer is None else offer.value

    def under(self, *prefix: str | int) -> list[tuple[Path, Offer]]:
        """Winners below a path, in the order in which they came."""
        depth = len(prefix)
        field = self._fields.get(prefix[0], _NOTHING)
        return [(path, offer) for path, offer in field.items() if len(path) > depth and path[:depth] == prefix]

    def iter_leaves(self) -> Iterator[Leaf]:
        """Every winner with what it replaced, strongest first."""
        for path, offer in chain.from_iterable(field.items() for field in self._fields.values()):
            shown = to_plain(offer.value)
            replaced = self._list_replaced(path, shown) if path in self._losers else ()
            yield Leaf(path, shown, offer.owner, offer.source, offer.rule, replaced)

    def _list_replaced(self, path: Path, winner: Any) -> tuple[Replaced, ...]:
        pairs = ((loser.source, to_plain(loser.value)) for loser in reversed(self._losers[path]))
        return tuple(Replaced(source, value) for source, value in pairs if value != winner)

    def _lose(self, path: Path, below: Offer, *, to: Offer) -> None:
        self._losers.setdefault(path, []).append(below)
        # A user who said the same as the profile below was not told yet.
        asked = next((offer for offer in reversed(self._losers[path]) if offer.is_users), None)
        if asked is not None and not to.is_users and asked.value == below.value != to.value:
            message = f"{to.source} sets {show(to.value)}; {show(asked.value)} from {asked.source} is not used"
            self.warnings.append(Problem(Code.OVERRIDE, path, message, value=show(asked.value)))


def show(value: Any) -> Any:
    """A value for messages."""
    plain = to_plain(value)
    return plain if isinstance(plain, str | int | float | bool) else str(plain)
