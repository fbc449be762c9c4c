"""Nothing done for one request holds the event loop for more than 50 ms.

The largest body that the limits allow goes to every route that takes one, in the shapes of tests/attack, while another
process asks `/healthz`. What is asserted is processor time between two turns of the event loop, which does not depend
on what else this machine does; how long `/healthz` waited by the clock is printed beside it. `make attack` sends
thousands.
"""

import json
from collections.abc import Callable, Iterator

import pytest

from runyard.api.context import Limits
from tests.attack.bodies import BODY_BYTES, PREFIX, Attack, iter_query_attacks, list_body_routes, make_entity
from tests.attack.campaign import (
    MOST_HELD_SECONDS,
    Campaign,
    Outcome,
    format_table,
    iter_known,
    iter_spread,
    start_campaign,
)

LENIENT_SECONDS = 2.0
"""What `/healthz` may wait by the clock, on a machine that runs other tests at the same time."""
QUERIES_EACH = 7
"""One of so many attacks by query is sent."""
LARGE = 12
"""Entities of 4 MiB that are listed."""
MARGIN_BYTES = 1 << 16
"""What a page has besides its entities as they are stored."""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """One server for all attacks."""
    with start_campaign(tmp_path_factory.mktemp("attack")) as running:
        yield running


def test_nobody_waits_when_known_attacks_are_sent(campaign: Campaign, tell: Callable[[str], None]) -> None:
    check(campaign, list(iter_known()), tell)


def test_nobody_waits_when_every_route_gets_the_largest_body(campaign: Campaign, tell: Callable[[str], None]) -> None:
    attacks = list(iter_spread(seed=3, each=2))
    assert {(attack.method, attack.route) for attack in attacks} == {
        (route.method, route.path) for route in list_body_routes()
    }
    check(campaign, attacks, tell)


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


def check(campaign: Campaign, attacks: list[Attack], tell: Callable[[str], None]) -> None:
    """Play them all, print the worst, and fail for every one that held the loop or was answered by a failure."""
    quiet_held, quiet_waited = campaign.measure_quiet()
    outcomes = [campaign.play(attack) for attack in attacks]
    waited = max(outcome.waited for outcome in outcomes)
    tell(
        f"{len(outcomes)} attacks: loop held {max(outcome.held for outcome in outcomes) * 1000:.0f} ms at most "
        f"(quiet {quiet_held * 1000:.0f}), /healthz waited {waited * 1000:.0f} ms (quiet {quiet_waited * 1000:.0f})"
    )
    broken: list[Outcome] = [
        outcome for outcome in outcomes if outcome.held > MOST_HELD_SECONDS or outcome.status >= 500
    ]
    assert not broken, format_table(broken)
    assert waited < LENIENT_SECONDS + quiet_waited, format_table(outcomes, most=5)
