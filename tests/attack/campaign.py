"""A server, somebody who asks `/healthz`, and attacks one after the other: what each made the others wait."""

import asyncio
import http.client
import json
import random
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from runyard.api.routing import WEBSOCKET
from tests.attack.bodies import (
    PREFIX,
    PROJECT,
    SPECS,
    Attack,
    find_plural,
    iter_query_attacks,
    list_body_routes,
    list_places,
    make_attack,
    make_entity,
)
from tests.attack.header_values import iter_handshakes, iter_header_attacks, iter_headers_everywhere
from tests.attack.prober import Prober
from tests.attack.shapes import SHAPES
from tests.attack.stored_data import plant
from tests.attack.watched_server import VARIABLE, LoopWatch
from tests.core_process import CoreProcess, run_core

MOST_HELD_SECONDS = 0.05
"""Nothing done for one request holds the event loop for longer."""
MOST_PLAYS = 6
"""How often an attack is sent that seems to hold the event loop."""
QUIET_SECONDS = 1.0
MANY = 1_500_000
COUNTS = (250, 256, 1000, 10_000, 100_000, MANY)
YAML_EACH = 2
"""One of so many types of entities gets a body of YAML, which takes a hundred times as long to parse."""
_TIMEOUT_SECONDS = 300.0
_UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version": "13",
}
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
    size: int
    """Bytes of the answer."""
    answer: bytes
    """The beginning of the answer."""

    @property
    def is_broken(self) -> bool:
        """Whether it held the event loop, or made the server fail. 501 is an answer: this server has no engine."""
        return self.held > MOST_HELD_SECONDS or (self.status >= 500 and self.status != 501)

    def __str__(self) -> str:
        times = " ".join(f"{seconds * 1000:6.0f}ms" for seconds in (self.held, self.waited, self.took))
        return f"{times}  {self.status:>6}  {self.attack.name}"


class Campaign:
    """A server that is measured; `play` sends one attack."""

    def __init__(self, core: CoreProcess, watch: LoopWatch, *, token: str) -> None:
        self.core = core
        self._watch = watch
        self._usual = {"Authorization": f"Bearer {token}"}
        self._prober = Prober(core.url)
        address = urlsplit(core.url)
        self._host, self._port = str(address.hostname), address.port
        self._connection = self._connect()

    def prepare(self) -> None:
        """Make the entities to which attacks refer."""
        self.send("POST", "/api/v1/projects", {"kind": "project", "name": PROJECT})
        for plural in SPECS:
            if plural != "projects":
                self.send("POST", f"{PREFIX}/{plural}", make_entity(plural, f"e-{plural.removesuffix('s')}"))
        self.send("PUT", f"{PREFIX}/artifacts/e-artifact/files/content/x", "a stored file")

    def send(self, method: str, target: str, document: object) -> bytes:
        """Send a request that must be taken."""
        content = json.dumps(document).encode()
        status, answer = self._exchange(Attack(method, target, target, "body", "needed", content))
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
        return self.fetch(attack)[0]

    def fetch(self, attack: Attack) -> tuple[Outcome, bytes]:
        """Send it, and say what it did and what the whole answer was.

        One that holds the loop is sent again, and the shortest hold counts. What a request computes, it computes every
        time. A garbage collection, or a processor that another program used while a thread of the server held none of
        the interpreter, only adds to it.
        """
        outcome, answer = self._send_attack(attack)
        for number in range(MOST_PLAYS - 1):
            if outcome.held <= MOST_HELD_SECONDS:
                break
            again, _ = self._send_attack(attack.repeat(number))
            outcome = replace(outcome, held=min(outcome.held, again.held), status=max(outcome.status, again.status))
        return outcome, answer

    def _send_attack(self, attack: Attack) -> tuple[Outcome, bytes]:
        self._prober.read()
        self._watch.start()
        begun = time.monotonic()
        status, answer = self._exchange(attack)
        took = time.monotonic() - begun
        # The hold that delayed the answer ends before it; one tick later it is recorded.
        time.sleep(0.005)
        held, waited = self._watch.read()[0], self._prober.read()
        return Outcome(attack.drop_content(), status, held, waited, took, len(answer), answer[:2000]), answer

    def close(self) -> None:
        """End the prober."""
        self._prober.close()
        self._connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)

    def _exchange(self, attack: Attack) -> tuple[int, bytes]:
        for is_last in (False, True):
            try:
                return self._send_once(attack)
            except (http.client.HTTPException, ConnectionError):
                self._connection.close()
                self._connection = self._connect()
                if is_last:
                    raise
        raise AssertionError("unreachable")

    def _send_once(self, attack: Attack) -> tuple[int, bytes]:
        is_websocket = attack.method == WEBSOCKET
        headers = {**self._usual, "Content-Type": attack.content_type, **dict(attack.headers)}
        # What follows a handshake are frames, not a body.
        headers |= _UPGRADE if is_websocket else {"Content-Length": str(len(attack.content))}
        connection = self._connection
        connection.putrequest("GET" if is_websocket else attack.method, attack.target)
        for name, value in headers.items():
            connection.putheader(name, value.encode("latin-1", errors="replace"))
        connection.endheaders(attack.content or None)
        response = connection.getresponse()
        answer = response.status, response.read()
        if is_websocket:
            connection.close()
        return answer


@contextmanager
def start_campaign(folder: Path) -> Iterator[Campaign]:
    """A server whose event loop is watched, with the entities that attacks refer to."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "watch"
    watch = LoopWatch(file)
    environment = {VARIABLE: str(file), "PYTHONPATH": str(Path.cwd())}
    limits = ("--auth", "accounts", "--max-requests", "100000")
    data = folder / "core" / "data"
    data.mkdir(mode=0o700, parents=True)
    token = asyncio.run(plant(data))
    with run_core(*limits, folder=folder / "core", environment=environment, program=_PROGRAM) as core:
        campaign = Campaign(core, watch, token=token)
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


def iter_spread(seed: int, *, each: int) -> Iterator[Attack]:
    """Every shape to every type of entity, by its routes and in its places in turn; to every other route a few.

    Also some YAML. The seed turns the choice of routes and places.
    """
    chance = random.Random(seed)
    others = [route for route in list_body_routes() if find_plural(route) is None]
    types = [[route for route in list_body_routes() if find_plural(route) == plural] for plural in SPECS]
    for number, shape in enumerate(SHAPES, start=seed):
        for index, routes in enumerate(types):
            route = routes[(number + index) % len(routes)]
            places = list_places(route)
            place = places[(number * 5 + index) % len(places)]
            yield make_attack(route, place, shape, count=MANY, chance=chance)
        for index, route in enumerate(others):
            if (number + index) % len(SHAPES) < each:
                places = list_places(route)
                yield make_attack(route, places[number % len(places)], shape, count=MANY, chance=chance)
    for index, routes in enumerate(types[::YAML_EACH]):
        shape = list(SHAPES)[(seed + index * 4) % len(SHAPES)]
        yield make_attack(routes[index % len(routes)], "spec", shape, count=MANY, chance=chance, is_yaml=True)


def iter_all(seed: int, *, count: int | None = None) -> Iterator[Attack]:
    """Every shape in every place of every route, in counts of chance, every query and every header; or so many."""
    chance = random.Random(seed)
    drawn = [(route, place, shape) for route in list_body_routes() for place in list_places(route) for shape in SHAPES]
    chance.shuffle(drawn)
    for route, place, shape in drawn[:count]:
        is_yaml = chance.random() < 0.1
        yield make_attack(route, place, shape, count=chance.choice(COUNTS), chance=chance, is_yaml=is_yaml)
    yield from islice(iter_query_attacks(seed), count)
    yield from iter_header_attacks()
    yield from iter_handshakes()
    yield from islice(iter_headers_everywhere(seed), count)


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
