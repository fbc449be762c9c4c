import json

import pytest

from runyard.cli.findings import Finding, format_finding, print_report
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from tests.unit.cli.conftest import Call


def test_finding_says_place_field_value_and_remedy_when_all_are_known() -> None:
    problem = Problem(
        Code.FIELD_INVALID, ("resources", "mem", "requests"), "not so", value="6G", allowed="less", suggestion="6Gi"
    )
    assert format_finding(Finding(problem, "run.yaml", (3, 10)), "error").splitlines() == [
        "run.yaml:3:10: error: resources.mem.requests: not so",
        "    given: 6G",
        "    allowed: less",
        "    try: 6Gi",
    ]


def test_value_is_not_repeated_when_the_message_says_it() -> None:
    assert "given" not in format_finding(
        Finding(Problem(Code.FIELD_INVALID, (), "there is no `1xa10`", value="1xa10")), "error"
    )
    assert "given: 1" in format_finding(Finding(Problem(Code.FIELD_INVALID, (), "must be above 10", value=1)), "error")
    assert "given: /data" in format_finding(
        Finding(Problem(Code.FIELD_INVALID, (), "no", value="/data"), "/data/run.yaml"), "error"
    )


def test_control_characters_are_shown_and_not_sent_when_a_value_has_them() -> None:
    problem = Problem(Code.FIELD_INVALID, ("envs", "\x1b[31mA"), "bad \x9b name", value="\x1b]0;title\x07")
    shown = format_finding(Finding(problem, "\x1b.yaml"), "warning")
    assert "\x1b" not in shown
    assert "\\x1b[31mA" in shown
    assert "bad \\x9b name" in shown


def test_severity_is_painted_only_when_there_is_colour() -> None:
    finding = Finding(Problem(Code.FIELD_INVALID, (), "no"))
    assert format_finding(finding, "error") == "error: no"
    assert format_finding(finding, "error", colour=True) == "\x1b[31m\x1b[1merror:\x1b[0m no"


def test_json_has_the_place_when_it_is_known() -> None:
    shown = Finding(Problem(Code.FIELD_INVALID, ("a", 0), "no", value=3), "run.yaml", (1, 2)).to_dict()
    expected = {
        "code": "field.invalid",
        "path": "a[0]",
        "message": "no",
        "value": 3,
        "file": "run.yaml",
        "line": 1,
        "column": 2,
    }
    assert shown == expected
    assert Finding(Problem(Code.FIELD_INVALID, (), "no")).to_dict() == {
        "code": "field.invalid",
        "path": "",
        "message": "no",
    }


def test_long_list_is_printed_once_when_several_problems_have_it(capsys: pytest.CaptureFixture[str]) -> None:
    long, short = ", ".join(f"name{number}" for number in range(20)), "a, b"
    problems = [Problem(Code.FIELD_UNKNOWN, (name,), "unknown field", allowed=long) for name in "xyz"]
    problems += [Problem(Code.FIELD_UNKNOWN, (name,), "unknown field", allowed=short) for name in "xy"]
    warning, *errors = map(Finding, problems)
    print_report([warning], errors)
    shown = capsys.readouterr().err
    assert (shown.count(long), shown.count("allowed: as above"), shown.count(f"allowed: {short}")) == (1, 2, 2)
    assert str(Refused(problems)).count(long) == 1


def test_long_list_is_whole_in_each_problem_when_programs_read_them(call: Call) -> None:
    shown = json.loads(call("explain", "-f", "-", "-o", "json", stdin="{foo: 1, bar: 2}").out)
    first, second = (refusal["allowed"] for refusal in shown["refusals"])
    assert first == second
    assert "as above" not in second
    assert call("explain", "-f", "-", stdin="{foo: 1, bar: 2}").err.count("working_dir") == 1
