import random

import pytest

from runyard.spec.duration import LONGEST, DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("7d", 7 * 86400),
        ("1w", 7 * 86400),
        ("1h30m", 5400),
        ("1w2d3h4m5s", 7 * 86400 + 2 * 86400 + 3 * 3600 + 4 * 60 + 5),
        ("1d5s", 86405),
        ("90m", 5400),
        ("90", 90),
        (90, 90),
        ("+90s", 90),
        ("007s", 7),
        ("0" * 5000 + "7s", 7),
        ("3650d", LONGEST),
        (LONGEST, LONGEST),
    ],
)
def test_seconds_are_counted_when_the_duration_is_right(given: str | int, seconds: int) -> None:
    assert parse_duration(given) == seconds


@pytest.mark.parametrize(
    ("given", "suggestion"),
    [
        ("", None),
        ("+", None),
        ("s", None),
        ("1.5h", "90m"),
        ("1.0s", "1s"),
        ("0.5s", None),
        ("1." + "0" * 20 + "1h", None),
        ("2 hours", "2h"),
        ("5min", "5m"),
        ("5 MIN", "5m"),
        ("1M", None),
        ("2H", "2h"),
        ("1h 30m", "90m"),
        ("1 day and 2 hours", "26h"),
        ("1d, 2h", "26h"),
        ("30m1h", "90m"),
        ("1h1h", "2h"),
        ("1h30", None),
        ("1y", "365d"),
        ("11y", None),
        ("500ms", None),
        ("1e3", None),
        ("--1s", None),
        ("٣s", None),
        ("soon", None),
        (" 90s\n", "90s"),
        ("1 " * 40, None),
    ],
)
def test_text_is_refused_with_a_proposal_when_it_is_no_duration(given: str, suggestion: str | None) -> None:
    with pytest.raises(DurationError, match=r"is not a valid duration$") as refusal:
        parse_duration(given)

    assert refusal.value.suggestion == suggestion


@pytest.mark.parametrize(
    ("given", "suggestion"), [(True, None), (None, None), (1.5, None), (90.0, "90s"), (float("nan"), None), ([], None)]
)
def test_value_is_refused_when_it_is_neither_text_nor_a_whole_number(given: object, suggestion: str | None) -> None:
    with pytest.raises(DurationError, match="a duration must be text or a whole number of seconds, not ") as refusal:
        parse_duration(given)  # type: ignore[arg-type]

    assert refusal.value.suggestion == suggestion


@pytest.mark.parametrize(
    "given", [0, "0", "0s", "0h0m", -5, "-5s", pytest.param(-(10**5000), id="endless"), "-" + "9" * 5000]
)
def test_duration_is_refused_when_it_is_below_the_minimum(given: str | int) -> None:
    with pytest.raises(DurationError, match=r"^the duration must be at least 1s$") as refusal:
        parse_duration(given)

    assert refusal.value.suggestion == "1s"


@pytest.mark.parametrize(
    "given", [LONGEST + 1, "3651d", "9" * 5000 + "s", "1" + "0" * 12, pytest.param(10**5000, id="endless")]
)
def test_duration_is_refused_when_it_exceeds_ten_years(given: str | int) -> None:
    with pytest.raises(DurationError, match=r"^the duration must be at most 3650d$") as refusal:
        parse_duration(given)

    assert refusal.value.suggestion == "3650d"


def test_zero_and_negative_durations_are_read_when_the_caller_allows_them() -> None:
    assert parse_duration("0s", minimum=0) == 0
    assert parse_duration("-1h30m", minimum=-LONGEST) == -5400
    with pytest.raises(DurationError, match="at least 0s"):
        parse_duration("-1s", minimum=0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1, "1s"),
        (60, "1m"),
        (90, "90s"),
        (3600, "1h"),
        (5400, "90m"),
        (86400, "1d"),
        (129600, "36h"),
        (604800, "7d"),
        (86401, "86401s"),
        (-5400, "-90m"),
        (LONGEST, "3650d"),
    ],
)
def test_largest_exact_unit_is_printed_when_a_duration_is_formatted(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


def test_duration_comes_back_when_it_is_printed_and_read() -> None:
    draw = random.Random(4)
    for _ in range(2000):
        seconds = draw.choice([1, 60, 3600, 86400]) * draw.randint(-3650, 3650)
        assert parse_duration(format_duration(seconds), minimum=-LONGEST) == seconds
