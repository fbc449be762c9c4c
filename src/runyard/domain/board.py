"""Collects, per field, the values offered by each layer; the last one wins."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from runyard.domain.effective_spec import USERS, Leaf, Owner, Replaced, to_plain
from runyard.spec.figures import format_figure
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, shorten

_NOTHING: Mapping[Path, "Offer"] = {}


@dataclass(frozen=True, slots=True)
class Offer:
    """A value, and the layer that offers it."""

    value: Any
    owner: Owner
    source: str
    rule: str | None = None

    @property
    def is_users(self) -> bool:
        """Whether a user set it, in a function, a task or a run."""
        return self.owner in USERS


class Board:
    """Offers by leaf. Layers are added weakest first; a replaced or discarded offer is remembered for `replaced`."""

    def __init__(self) -> None:
        self._fields: dict[str | int, dict[Path, Offer]] = {}
        """The winning offers, by the first part of their path."""
        self._losers: dict[Path, list[Offer]] = {}
        self.fills: dict[Path, Offer] = {}
        """Who filled which blank of a volume: a volume is one offer, but its blanks are filled one by one."""
        self.unfilled: dict[Path, Replaced] = {}
        """The user's value where a lock set a field of a volume."""
        self.warnings: list[Problem] = []
        self.refusals: list[Problem] = []

    def __contains__(self, path: Path) -> bool:
        return path in self._fields.get(path[0], _NOTHING)

    def put(self, path: Path, offer: Offer) -> None:
        """Replace the current offer; warns if an admin's value replaces a different one of a user."""
        field = self._fields.setdefault(path[0], {})
        below = field.get(path)
        if below is not None:
            self._lose(path, below, to=offer)
        field[path] = offer

    def refine(self, path: Path, value: Any) -> None:
        """Complete the winning value; its owner stays."""
        field = self._fields[path[0]]
        field[path] = replace(field[path], value=value)

    def fill(self, path: Path, offer: Offer) -> bool:
        """Offer a value only if the leaf is blank. Returns whether it was."""
        if path in self:
            return False
        self._fields.setdefault(path[0], {})[path] = offer
        return True

    def discard(self, path: Path, *, message: str | None, code: Code = Code.OVERRIDE) -> Offer | None:
        """Remove the winning offer; warns with `message`, if there is one."""
        gone = self._fields.get(path[0], {}).pop(path, None)
        if gone is not None:
            self._losers.setdefault(path, []).append(gone)
            if message is not None:
                self.warnings.append(Problem(code, path, message, value=show(gone.value)))
        return gone

    def is_asked(self, path: Path) -> bool:
        """Whether the winning value is what a user asked for, even if a profile sets the same value."""
        offer = self.find(*path)
        below = self._losers.get(path, ())
        return offer is not None and (offer.is_users or any(it.is_users and it.value == offer.value for it in below))

    def find(self, *path: str | int) -> Offer | None:
        """The winning offer, or None."""
        return self._fields.get(path[0], _NOTHING).get(path)

    def value(self, *path: str | int) -> Any:
        """The winning value, or None."""
        offer = self.find(*path)
        return None if offer is None else offer.value

    def under(self, *prefix: str | int) -> list[tuple[Path, Offer]]:
        """The winning offers below a path, in the order in which they were added."""
        depth = len(prefix)
        field = self._fields.get(prefix[0], _NOTHING)
        return [(path, offer) for path, offer in field.items() if len(path) > depth and path[:depth] == prefix]

    def iter_leaves(self) -> Iterator[Leaf]:
        """Every winning value with the values it replaced, strongest first."""
        for path, offer in chain.from_iterable(field.items() for field in self._fields.values()):
            shown = to_plain(offer.value)
            replaced = self._list_replaced(path, shown) if path in self._losers else ()
            yield Leaf(path, shown, offer.owner, offer.source, offer.rule, replaced)

    def _list_replaced(self, path: Path, winner: Any) -> tuple[Replaced, ...]:
        pairs = ((loser.source, to_plain(loser.value)) for loser in reversed(self._losers[path]))
        return tuple(Replaced(source, value) for source, value in pairs if value != winner)

    def _lose(self, path: Path, below: Offer, *, to: Offer) -> None:
        self._losers.setdefault(path, []).append(below)
        # A user whose value equals the replaced profile's has not been warned yet.
        asked = next((offer for offer in reversed(self._losers[path]) if offer.is_users), None)
        if asked is not None and not to.is_users and asked.value == below.value != to.value:
            new, old = (format_value(path, offer.value) for offer in (to, asked))
            message = f"{to.source} sets {new}; {old} from {asked.source} is ignored"
            self.warnings.append(Problem(Code.OVERRIDE, path, message, value=show(asked.value)))


def format_value(path: Path, value: Any) -> str:
    """A value for people, in messages: amounts and durations are readable."""
    figure = format_figure(".".join(map(str, path)), value)
    return figure if isinstance(value, Quantity | int) else str(show(value))


def show(value: Any) -> Any:
    """A value for programs, exact: the `value` of a problem."""
    plain = to_plain(value)
    return plain if isinstance(plain, str | int | float | bool) else shorten(plain)
