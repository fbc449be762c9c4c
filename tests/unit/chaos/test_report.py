"""What a storm prints when a rule is broken."""

from dataclasses import replace

import pytest

from tests.chaos.evidence import Tampering
from tests.chaos.judge import Violation, judge_run
from tests.chaos.report import Report, assert_clean
from tests.chaos.storm import StormPlan
from tests.second_attempt import PromiseBroken
from tests.unit.chaos.test_judge import make_entry, make_evidence

COMMAND = StormPlan(seed=4711, runs=5, seconds=60.0, replicas=2).command


def make_report(*unanswered: Violation) -> Report:
    evidence = make_evidence(
        "ERROR",
        exit_code=3,
        entries=[make_entry("patch", "jobs", request=[{"op": "replace", "path": "/spec/suspend", "value": True}])],
        tamperings=[Tampering(1_767_225_600.25, "pods", "run-r1-p", "r1")],
        stop_asked_at=1_767_225_601.5,
    )
    return Report(
        command=COMMAND,
        seconds=1.0,
        faults={},
        evidences=[evidence],
        violations=[*unanswered, *judge_run(evidence)],
    )


def test_report_names_seed_run_and_evidence_when_a_rule_is_broken() -> None:
    report = make_report()
    text = report.format()
    assert not report.is_clean
    assert "--seed 4711" in text
    assert "state: r1: ERROR without a reason" in text
    assert "users asked: stop at 2026-01-01T00:00:01.500Z" in text
    assert "2026-01-01T00:00:00.250Z a fault deleted pods run-r1-p" in text
    assert 'engine patch jobs run-r1-j → 200 [{"op": "replace", "path": "/spec/suspend", "value": true}]' in text
    assert "printed run-r1-p/main: 4 lines" in text
    assert "stored run-r1-p/main: [4] lines" in text


def test_report_has_a_table_of_figures_when_a_storm_has_passed() -> None:
    report = replace(
        make_report(),
        seconds=2000.0,
        settle_seconds=150.0,
        most_in_flight=300,
        most_pods=80,
        faults={"server-kill": 3, "pod-delete": 2},
        proxy_faults={"cut": 1200},
    )
    lines = report.format().splitlines()
    assert "| runs, pods, lines printed | 1, 1, 4 |" in lines
    assert "| most at once | 300 runs in flight, 80 pods running |" in lines
    assert "| time | 2000 s, of which 150 s for all to end after the last fault |" in lines
    assert "| faults of components | 3 server-kill |" in lines
    assert "| deleted by others | 2 pod-delete |" in lines
    assert "| faults of the proxy | 1,200 cut |" in lines
    assert "| gaps that logs name | none |" in lines


def test_report_is_not_clean_when_a_request_was_never_answered() -> None:
    report = make_report(Violation("answer", "r1", "POST /stop: no answer within 300 s"))
    assert "answer: r1: POST /stop: no answer within 300 s" in report.format()
    assert "1 answer" in report.format()


def test_single_fault_fails_with_rule_and_history_when_its_run_breaks_a_rule() -> None:
    assert_clean([make_evidence()])
    with pytest.raises(PromiseBroken, match=r"(?s)state: r1: ERROR without a reason.*users asked.*stored run-r1-p"):
        assert_clean(make_report().evidences)
