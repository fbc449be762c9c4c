"""Which fault a request meets: the kinds of faults, scripted rules, and a seeded plan that draws them."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import inf
from typing import ClassVar

from testbed.faults.http1 import Request


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the connection after so many bytes of the answer's body; None: the request is not forwarded."""

    after_bytes: int | None = 0
    kind: ClassVar[str] = "cut"


@dataclass(frozen=True, slots=True)
class Reset:
    """As Cut, but with a TCP reset, so that bytes on their way are lost as well."""

    after_bytes: int | None = 0
    kind: ClassVar[str] = "reset"


@dataclass(frozen=True, slots=True)
class Stall:
    """Stop forwarding after so many bytes of the body, the connection staying open; then go on, if ever."""

    after_bytes: int = 0
    seconds: float = inf
    kind: ClassVar[str] = "stall"


@dataclass(frozen=True, slots=True)
class Delay:
    """Forward the request only after so many seconds."""

    seconds: float
    kind: ClassVar[str] = "delay"


@dataclass(frozen=True, slots=True)
class Refuse:
    """Reset the connection instead of forwarding the request, and refuse new ones for so many seconds."""

    seconds: float
    kind: ClassVar[str] = "refuse"


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with an error and a Kubernetes Status body; the request is not forwarded."""

    status: int
    retry_after_seconds: int | None = None
    reason: str | None = None  # of the Status; None: the usual one of this status
    is_page: bool = False  # an HTML page instead of a Status, as a proxy, firewall or gateway answers

    @property
    def kind(self) -> str:
        """The name under which it is counted, one for each status."""
        return f"answer-{self.status}"


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """Forward the request but not its answer: it has happened, and the client sees a cut, or `instead`."""

    instead: Answer | None = None
    kind: ClassVar[str] = "lose-answer"


@dataclass(frozen=True, slots=True)
class Expire:
    """End a watch as the apiserver does when its resourceVersion is too old; only watches are touched."""

    after_bytes: int = 0
    kind: ClassVar[str] = "expire"


@dataclass(frozen=True, slots=True)
class Repeat:
    """Send every event of a watch twice, from this one to its end; only watches are touched."""

    kind: ClassVar[str] = "repeat"


Fault = Cut | Reset | Stall | Delay | Refuse | Answer | LoseAnswer | Expire | Repeat


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault for the requests that match, `times` times (None: always) after the first `skip` of them."""

    fault: Fault
    method: str | None = None
    path: str | None = None  # a shell pattern over the path without its query: "/api/v1/namespaces/*/pods*"
    watch: bool | None = None
    times: int | None = 1
    skip: int = 0

    def matches(self, request: Request) -> bool:
        """Whether the rule matches this request."""
        return (
            (self.method is None or self.method == request.method)
            and (self.path is None or fnmatchcase(request.path, self.path))
            and (self.watch is None or self.watch == request.is_watch)
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """The ranges from which a plan draws the figures of its faults."""

    after_bytes: tuple[int, int] = (0, 20_000)
    stall_seconds: tuple[float, float] = (0.5, 5.0)
    delay_seconds: tuple[float, float] = (0.05, 0.5)
    refuse_seconds: tuple[float, float] = (0.1, 1.0)
    retry_after_seconds: tuple[int, int] = (1, 2)
    endless_stalls: float = 0.25  # the share of stalls that never go on
    unforwarded: float = 0.25  # the share of cuts and resets that come instead of forwarding


def _draw_offset(rng: random.Random, spread: Spread) -> int | None:
    return None if rng.random() < spread.unforwarded else rng.randint(*spread.after_bytes)


def _draw_stall(rng: random.Random, spread: Spread) -> Stall:
    seconds = inf if rng.random() < spread.endless_stalls else rng.uniform(*spread.stall_seconds)
    return Stall(after_bytes=rng.randint(*spread.after_bytes), seconds=seconds)


_DRAWERS: Mapping[str, Callable[[random.Random, Spread], Fault]] = {
    "cut": lambda rng, spread: Cut(_draw_offset(rng, spread)),
    "reset": lambda rng, spread: Reset(_draw_offset(rng, spread)),
    "stall": _draw_stall,
    "delay": lambda rng, spread: Delay(rng.uniform(*spread.delay_seconds)),
    "refuse": lambda rng, spread: Refuse(rng.uniform(*spread.refuse_seconds)),
    # A creation that raced with another has the first reason, one that raced for a quota the second.
    "answer-409": lambda rng, _spread: Answer(409, reason=rng.choice(("AlreadyExists", "Conflict"))),
    "answer-429": lambda rng, spread: Answer(429, rng.randint(*spread.retry_after_seconds)),
    "answer-500": lambda _rng, _spread: Answer(500),
    "answer-503": lambda _rng, _spread: Answer(503),
    "lose-answer": lambda _rng, _spread: LoseAnswer(),
    "expire": lambda rng, spread: Expire(rng.randint(*spread.after_bytes)),
    "repeat": lambda _rng, _spread: Repeat(),
}


@dataclass(slots=True)
class _Armed:
    rule: Rule
    seen: int = 0

    def strikes(self, request: Request) -> bool:
        if not self.rule.matches(request):
            return False
        self.seen += 1
        struck = self.seen - self.rule.skip
        return struck > 0 and (self.rule.times is None or struck <= self.rule.times)


@dataclass
class FaultPlan:
    """Scripted rules first, in their order; then faults drawn by chance, `rates` being kind → probability.

    A draw depends on the seed, the request's method and path, and how many like it came before, never on what
    other requests did meanwhile: the same seed gives each kind of request the same row of faults again.
    """

    seed: int = 0
    rates: Mapping[str, float] = field(default_factory=dict)
    spread: Spread = field(default_factory=Spread)
    rules: Sequence[Rule] = ()

    def __post_init__(self) -> None:
        unknown = sorted(set(self.rates) - set(_DRAWERS))
        if unknown:
            raise ValueError(f"unknown faults {unknown}; there are {sorted(_DRAWERS)}")
        if min(self.rates.values(), default=0) < 0 or sum(self.rates.values()) > 1:
            raise ValueError("the rates of faults are probabilities: none below 0, together at most 1")
        self._armed = [_Armed(rule) for rule in self.rules]
        self._seen: Counter[tuple[str, str, bool]] = Counter()
        self._lock = threading.Lock()

    def add(self, rule: Rule) -> None:
        """Add a rule behind the others; may be called from any thread while the proxy runs."""
        with self._lock:
            self._armed.append(_Armed(rule))

    def decide(self, request: Request) -> Fault | None:
        """The fault that this request meets, or None; each call counts as one request."""
        with self._lock:
            for armed in self._armed:
                if armed.strikes(request):
                    return armed.rule.fault
            return self._draw(request)

    def _draw(self, request: Request) -> Fault | None:
        key = (request.method, request.path, request.is_watch)
        self._seen[key] += 1
        rng = random.Random(f"{self.seed} {key} {self._seen[key]}")  # noqa: S311 - reproducible on purpose
        chance = rng.random()
        for kind, rate in self.rates.items():
            chance -= rate
            if chance < 0:
                fault = _DRAWERS[kind](rng, self.spread)
                # No server answers a read, or a review of rights, with a conflict.
                is_read = request.method == "GET" or "reviews" in request.path
                return None if isinstance(fault, Answer) and fault.status == 409 and is_read else fault
        return None
