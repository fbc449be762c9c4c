"""Nothing done for one request holds the event loop for more than 50 ms.

The largest body that the limits allow goes to every route that takes one, in the shapes of tests/attack, while another
process asks `/healthz`; every shape goes to every type of entity. Then hostile headers, and every route that reads,
over hostile data. What is asserted is processor time between two turns of the event loop, the shortest of several
measurements where one is too long; how long `/healthz` waited by the clock is printed beside it. `make attack` sends
thousands.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator

import pytest

from runyard.api.context import Limits
from tests.attack.bodies import (
    BODY_BYTES,
    HEAD_BYTES,
    PREFIX,
    SPECS,
    Attack,
    find_plural,
    iter_query_attacks,
    list_body_routes,
    list_places,
    make_entity,
    make_plain,
)
from tests.attack.campaign import (
    MOST_HELD_SECONDS,
    Campaign,
    Outcome,
    format_table,
    iter_known,
    iter_spread,
    start_campaign,
)
from tests.attack.header_values import iter_handshakes, iter_header_attacks
from tests.attack.shapes import SHAPES
from tests.attack.stored_data import iter_reads, store_more

LENIENT_SECONDS = 10.0
"""What `/healthz` may wait by the clock, on a machine that runs other tests at the same time."""
QUERIES_EACH = 7
"""One of so many attacks by query is sent."""
LARGE = 12
"""Entities of 4 MiB that are listed."""
MARGIN_BYTES = 1 << 16
"""What a page has besides its entities as they are stored."""
MOST_ANSWER_BYTES = Limits().page_bytes * 3 // 2
"""What any route may answer: a page, which is larger in base64."""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """One server for all attacks."""
    with start_campaign(tmp_path_factory.mktemp("attack")) as running:
        yield running


def test_documents_of_attacks_are_taken_when_nothing_hostile_is_in_them(campaign: Campaign) -> None:
    """Otherwise the attacks would be refused for another reason, before their value is read."""
    chance = random.Random(1)
    outcomes = [campaign.play(make_plain(route, chance)) for route in list_body_routes() if len(list_places(route)) > 1]
    assert [outcome.answer for outcome in outcomes if outcome.status != 200] == []


def test_nobody_waits_when_known_attacks_are_sent(campaign: Campaign, tell: Callable[[str], None]) -> None:
    check(campaign, iter_known(), tell)


def test_nobody_waits_when_every_route_gets_the_largest_body(campaign: Campaign, tell: Callable[[str], None]) -> None:
    outcomes = check(campaign, iter_spread(seed=3, each=2), tell)
    attacks = [outcome.attack for outcome in outcomes]
    routes = {(route.method, route.path): find_plural(route) for route in list_body_routes()}
    assert {(attack.method, attack.route) for attack in attacks} == routes.keys()
    met = {(routes[attack.method, attack.route], attack.shape) for attack in attacks}
    assert {(plural, shape) for plural in SPECS for shape in SHAPES} <= met
    assert any(attack.content_type == "application/x-yaml" for attack in attacks)


def test_nobody_waits_when_query_strings_are_long(campaign: Campaign, tell: Callable[[str], None]) -> None:
    check(campaign, list(iter_query_attacks())[::QUERIES_EACH], tell)


def test_nobody_waits_and_nothing_is_missed_when_large_entities_are_listed(
    campaign: Campaign, tell: Callable[[str], None]
) -> None:
    ids = [f"large-{number}" for number in range(LARGE)]
    for name in ids:
        entity = make_entity("artifacts", name)
        entity["status"] = {"text": "a" * (BODY_BYTES - 1000)}
        campaign.send("POST", f"{PREFIX}/artifacts", entity)
    path, found, outcomes, pages = "/api/v1/-/{project}/artifacts", list[str](), list[Outcome](), 1
    while len(outcomes) < pages:
        target = f"{PREFIX}/artifacts?size=1000&page={len(outcomes)}"
        outcome, answer = campaign.fetch(Attack("GET", path, target, "page", "large entities", b""))
        assert len(answer) <= Limits().page_bytes + MARGIN_BYTES
        outcomes.append(outcome)
        page = json.loads(answer)
        assert page["numberOfElements"] == len(page["content"]) <= page["size"] == Limits().page_bytes // BODY_BYTES
        pages = page["totalPages"]
        found += [one["id"] for one in page["content"]]
    assert len(found) == len(set(found)) == page["totalElements"]
    assert set(ids) <= set(found)
    tell(f"{pages} pages: loop held {max(outcome.held for outcome in outcomes) * 1000:.0f} ms at most")
    assert max(outcome.held for outcome in outcomes) <= MOST_HELD_SECONDS, format_table(outcomes)


def test_nobody_waits_when_headers_are_hostile(campaign: Campaign, tell: Callable[[str], None]) -> None:
    check(campaign, [*iter_header_attacks(lengths=(44, HEAD_BYTES)), *iter_handshakes()], tell)


def test_nobody_waits_and_answers_are_bounded_when_hostile_data_is_read(
    campaign: Campaign, tell: Callable[[str], None]
) -> None:
    store_more(campaign.send)
    outcomes = check(campaign, iter_reads(), tell)
    large = [outcome for outcome in outcomes if outcome.size > MOST_ANSWER_BYTES]
    assert not large, [(outcome.attack.target, outcome.size) for outcome in large]


def check(campaign: Campaign, attacks: Iterable[Attack], tell: Callable[[str], None]) -> list[Outcome]:
    """Play them all, print the worst, and fail for every one that held the loop or was answered by a failure."""
    quiet_held, quiet_waited = campaign.measure_quiet()
    outcomes = [campaign.play(attack) for attack in attacks]
    waited = max(outcome.waited for outcome in outcomes)
    tell(
        f"{len(outcomes)} attacks: loop held {max(outcome.held for outcome in outcomes) * 1000:.0f} ms at most "
        f"(quiet {quiet_held * 1000:.0f}), /healthz waited {waited * 1000:.0f} ms (quiet {quiet_waited * 1000:.0f})"
    )
    broken = [outcome for outcome in outcomes if outcome.is_broken]
    assert not broken, format_table(broken)
    assert waited < LENIENT_SECONDS + quiet_waited, format_table(outcomes, most=5)
    return outcomes
