"""A server, somebody who asks `/healthz`, and attacks one after the other: what each made the others wait."""

import http.client
import json
import random
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from tests.attack.bodies import (
    PREFIX,
    PROJECT,
    Attack,
    iter_query_attacks,
    list_body_routes,
    list_places,
    make_attack,
    make_entity,
)
from tests.attack.prober import Prober
from tests.attack.shapes import SHAPES
from tests.attack.watched_server import VARIABLE, LoopWatch
from tests.core_process import CoreProcess, run_core

MOST_HELD_SECONDS = 0.05
"""Nothing done for one request holds the event loop for longer."""
SECRETS = 1300
QUIET_SECONDS = 1.0
MANY = 1_500_000
COUNTS = (250, 256, 1000, 10_000, 100_000, MANY)
_TIMEOUT_SECONDS = 300.0
_PROGRAM = (sys.executable, "-m", "tests.attack.watched_server")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attack did."""

    attack: Attack
    status: int
    held: float
    """Seconds of processor time for which the event loop was held at a stretch, at most."""
    waited: float
    """The longest wait of `/healthz` in seconds, by the clock."""
    took: float
    """Seconds until the answer was complete."""
    answer: bytes
    """The beginning of the answer."""

    def __str__(self) -> str:
        times = " ".join(f"{seconds * 1000:6.0f}ms" for seconds in (self.held, self.waited, self.took))
        return f"{times}  {self.status:>6}  {self.attack.name}"


class Campaign:
    """A server that is measured; `play` sends one attack."""

    def __init__(self, core: CoreProcess, watch: LoopWatch) -> None:
        self.core = core
        self._watch = watch
        self._prober = Prober(core.url)
        address = urlsplit(core.url)
        self._host, self._port = str(address.hostname), address.port
        self._connection = self._connect()

    def prepare(self) -> None:
        """Make the entities to which attacks refer, and many secrets."""
        self.send("POST", "/api/v1/projects", {"kind": "project", "name": PROJECT})
        for plural in ("functions", "workflows", "tasks", "secrets", "artifacts", "dataitems", "models"):
            self.send("POST", f"{PREFIX}/{plural}", make_entity(plural, f"e-{plural.removesuffix('s')}"))
        for plural in ("containerimages", "extensions", "triggers", "runs"):
            self.send("POST", f"{PREFIX}/{plural}", make_entity(plural, f"e-{plural.removesuffix('s')}"))
        for number in range(SECRETS):
            self.send("POST", f"{PREFIX}/secrets", make_entity("secrets", f"secret-number-{number}"))

    def send(self, method: str, target: str, document: object) -> bytes:
        """Send a request that must be taken."""
        status, answer = self._exchange(method, target, json.dumps(document).encode(), "application/json")
        if status != 200:
            raise AssertionError(f"{method} {target}: {status} {answer[:500].decode(errors='replace')}")
        return answer

    def measure_quiet(self) -> tuple[float, float]:
        """The longest hold and the longest wait while nothing is attacked: the noise of this machine."""
        self._prober.read()
        self._watch.start()
        time.sleep(QUIET_SECONDS)
        return self._watch.read()[0], self._prober.read()

    def play(self, attack: Attack) -> Outcome:
        """Send it, and say what it did."""
        outcome, _ = self.fetch(attack)
        return outcome

    def fetch(self, attack: Attack) -> tuple[Outcome, bytes]:
        """Send it, and say what it did and what the whole answer was."""
        self._prober.read()
        self._watch.start()
        begun = time.monotonic()
        status, answer = self._exchange(attack.method, attack.target, attack.content, attack.content_type)
        took = time.monotonic() - begun
        # The hold that delayed the answer ends before it; one tick later it is recorded.
        time.sleep(0.005)
        return Outcome(attack, status, self._watch.read()[0], self._prober.read(), took, answer[:2000]), answer

    def close(self) -> None:
        """End the prober."""
        self._prober.close()
        self._connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)

    def _exchange(self, method: str, target: str, content: bytes, content_type: str) -> tuple[int, bytes]:
        for is_last in (False, True):
            try:
                self._connection.request(method, target, content or None, {"Content-Type": content_type})
                response = self._connection.getresponse()
                return response.status, response.read()
            except (http.client.HTTPException, ConnectionError):
                self._connection.close()
                self._connection = self._connect()
                if is_last:
                    raise
        raise AssertionError("unreachable")


@contextmanager
def start_campaign(folder: Path) -> Iterator[Campaign]:
    """A server whose event loop is watched, with the entities that attacks refer to."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "watch"
    watch = LoopWatch(file)
    environment = {VARIABLE: str(file), "PYTHONPATH": str(Path.cwd())}
    limits = ("--max-requests", "100000")
    with run_core(*limits, folder=folder / "core", environment=environment, program=_PROGRAM) as core:
        campaign = Campaign(core, watch)
        try:
            campaign.prepare()
            yield campaign
        finally:
            campaign.close()
            watch.close()


def iter_known() -> Iterator[Attack]:
    """The attacks that held a server for seconds, before there were bounds."""
    chance = random.Random(1)
    routes = {(route.method, route.path.removeprefix("/api/v1")): route for route in list_body_routes()}
    for method, path, place, shape, count in (
        ("POST", "/-/{project}/runs", "spec.secrets", "near_names", 250),
        ("POST", "/-/{project}/runs/explain", "spec.secrets", "near_names", 250),
        ("POST", "/-/{project}/runs/explain", "spec.secrets", "long_near_names", 250),
        ("PUT", "/-/{project}/secrets/data", "", "texts_by_name", 250),
        ("POST", "/-/{project}/artifacts", "metadata.relationships", "empty_mappings", 1_000_000),
        ("POST", "/projects", "metadata.relationships", "empty_mappings", 1_000_000),
        ("POST", "/-/{project}/triggers", "spec.states", "distinct_texts", 100_000),
        ("POST", "/-/{project}/triggers", "spec.template", "spaced_braces", 2000),
        ("POST", "/-/{project}/triggers", "spec.key", "stars", 1000),
        ("POST", "/-/{project}/dataitems", "spec.schema.fields", "empty_mappings", 1_000_000),
        ("POST", "/-/{project}/functions", "extensions", "empty_mappings", 1_000_000),
        ("POST", "/-/{project}/runs", "spec", "near_keys", 250),
        ("POST", "/-/{project}/runs", "spec.parameters", "deep_mappings", MANY),
        ("PUT", "/-/{project}/artifacts/{id}/files/info", "", "small_mappings", 10_000),
        ("PUT", "/-/{project}/runs/{id}/metrics/{name}", "", "small_numbers", 100_000),
    ):
        yield make_attack(routes[method, path], place, shape, count=count, chance=chance)


def iter_spread(seed: int, each: int) -> Iterator[Attack]:
    """For every route that takes a body, a few places and shapes; all shapes occur, and the seed turns the choice."""
    chance = random.Random(seed)
    shapes = list(SHAPES)
    number = seed
    for route in list_body_routes():
        places = list_places(route)
        for turn in range(each):
            place, shape = places[(number * 5 + turn) % len(places)], shapes[number % len(shapes)]
            number += 1
            yield make_attack(route, place, shape, count=MANY, chance=chance)


def iter_all(seed: int, *, count: int | None = None) -> Iterator[Attack]:
    """Every shape in every place of every route, in counts of chance, and every query; or so many of them."""
    chance = random.Random(seed)
    drawn = [(route, place, shape) for route in list_body_routes() for place in list_places(route) for shape in SHAPES]
    chance.shuffle(drawn)
    for route, place, shape in drawn[:count]:
        is_yaml = chance.random() < 0.1
        yield make_attack(route, place, shape, count=chance.choice(COUNTS), chance=chance, is_yaml=is_yaml)
    yield from islice(iter_query_attacks(seed), count)


def format_table(outcomes: Iterable[Outcome], *, most: int = 40) -> str:
    """The worst outcomes by route and shape, worst first."""
    worst: dict[tuple[str, str, str], Outcome] = {}
    for outcome in outcomes:
        attack = outcome.attack
        key = (f"{attack.method} {attack.route}", attack.place, attack.shape)
        if key not in worst or worst[key].held < outcome.held:
            worst[key] = outcome
    ordered = sorted(worst.values(), key=lambda outcome: -outcome.held)[:most]
    return "\n".join([f"{'held':>8} {'waited':>8} {'took':>8}  status  attack", *map(str, ordered)])
