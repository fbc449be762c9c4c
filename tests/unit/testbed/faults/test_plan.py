import pytest

from testbed.faults import Answer, Cut, FaultPlan, Reset, Rule, Spread, Stall
from testbed.faults.http1 import parse_request
from tests.unit.testbed.faults.scripted import GET, POST, WATCH

EVERYTHING = dict.fromkeys(
    ["cut", "reset", "stall", "delay", "refuse", "answer-429", "answer-500", "answer-503", "expire"], 0.1
)


def test_faults_repeat_when_the_seed_is_the_same() -> None:
    gets, watches, posts = [parse_request(raw) for raw in (GET, WATCH, POST)]
    one, other = FaultPlan(seed=7, rates=EVERYTHING), FaultPlan(seed=7, rates=EVERYTHING)
    mixed = [one.decide(request) for _ in range(50) for request in (gets, watches, posts)]
    apart = [[other.decide(request) for _ in range(50)] for request in (posts, watches, gets)]
    assert [mixed[0::3], mixed[1::3], mixed[2::3]] == [apart[2], apart[1], apart[0]]


def test_faults_differ_when_the_seed_does() -> None:
    request = parse_request(GET)
    one, other = FaultPlan(seed=7, rates=EVERYTHING), FaultPlan(seed=8, rates=EVERYTHING)
    assert [one.decide(request) for _ in range(50)] != [other.decide(request) for _ in range(50)]


def test_every_kind_comes_at_its_rate_when_there_are_many_requests() -> None:
    plan = FaultPlan(rates=EVERYTHING)
    faults = [plan.decide(parse_request(WATCH)) for _ in range(2000)]
    kinds = [fault.kind if fault else "none" for fault in faults]
    assert set(kinds) == {*EVERYTHING, "none"}
    assert all(140 < kinds.count(kind) < 260 for kind in EVERYTHING)


def test_figures_stay_in_their_ranges_when_they_are_drawn() -> None:
    spread = Spread(after_bytes=(3, 9), endless_stalls=0.0, stall_seconds=(1, 2), unforwarded=0.5)
    plan = FaultPlan(rates={"cut": 0.5, "stall": 0.5}, spread=spread)
    faults = [plan.decide(parse_request(GET)) for _ in range(300)]
    offsets = {fault.after_bytes for fault in faults if isinstance(fault, Cut)}
    seconds = [fault.seconds for fault in faults if isinstance(fault, Stall)]
    assert offsets == {None, *range(3, 10)}
    assert 1 <= min(seconds) < max(seconds) <= 2


def test_conflicts_strike_writes_only_when_they_are_drawn() -> None:
    plan = FaultPlan(rates={"answer-409": 1.0})
    assert {plan.decide(parse_request(GET)) for _ in range(20)} == {None}
    reasons = ("AlreadyExists", "Conflict")
    assert {plan.decide(parse_request(POST)) for _ in range(50)} == {Answer(409, reason=reason) for reason in reasons}


def test_rules_come_before_chance_when_they_match() -> None:
    plan = FaultPlan(rates={"answer-500": 1.0}, rules=[Rule(Cut(1), skip=1, times=2)])
    decided = [plan.decide(parse_request(GET)) for _ in range(4)]
    assert decided == [Answer(500), Cut(1), Cut(1), Answer(500)]


def test_rule_holds_for_ever_when_it_has_no_times() -> None:
    plan = FaultPlan(rules=[Rule(Cut(1), times=None)])
    assert {plan.decide(parse_request(GET)) for _ in range(100)} == {Cut(1)}


def test_rule_is_obeyed_when_it_is_added_later() -> None:
    plan = FaultPlan()
    assert plan.decide(parse_request(GET)) is None
    plan.add(Rule(Reset()))
    assert [plan.decide(parse_request(GET)) for _ in range(2)] == [Reset(), None]


@pytest.mark.parametrize(
    ("rule", "matching"),
    [
        (Rule(Cut()), [GET, WATCH, POST]),
        (Rule(Cut(), method="POST"), [POST]),
        (Rule(Cut(), watch=True), [WATCH]),
        (Rule(Cut(), watch=False), [GET, POST]),
        (Rule(Cut(), path="/api/*/pods"), [GET, WATCH, POST]),
        (Rule(Cut(), path="/apis/*"), []),
        (Rule(Cut(), path="/api/v1/pods", method="GET", watch=False), [GET]),
    ],
)
def test_rule_matches_when_all_it_says_is_true(rule: Rule, matching: list[bytes]) -> None:
    assert [raw for raw in (GET, WATCH, POST) if rule.matches(parse_request(raw))] == matching


@pytest.mark.parametrize("rates", [{"cut": 0.6, "stall": 0.6}, {"cut": -0.1}, {"no-such": 0.1}])
def test_plan_is_refused_when_its_rates_make_no_sense(rates: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="faults"):
        FaultPlan(rates=rates)


@pytest.mark.parametrize(
    ("target", "is_watch"),
    [("/a?watch=true", True), ("/a?x=1&watch=1", True), ("/a?watch=false", False), ("/watch=true", False)],
)
def test_watch_is_told_from_a_list_when_the_query_says_so(target: str, is_watch: bool) -> None:
    assert parse_request(f"GET {target} HTTP/1.1\r\n\r\n".encode()).is_watch is is_watch
