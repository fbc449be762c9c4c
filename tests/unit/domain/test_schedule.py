import random
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runyard.domain import schedule as schedule_module
from runyard.domain.schedule import ScheduleError, parse_schedule
from runyard.domain.schedule_fields import Days, read_days

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def after(text: str, start: datetime = NOON, *, timezone: str | None = None, times: int = 1) -> list[str]:
    schedule, found = parse_schedule(text, timezone=timezone), []
    at: datetime | None = start
    for _ in range(times):
        assert at is not None
        at = schedule.next_after(at)
        assert at is not None
        found.append(at.strftime("%Y-%m-%d %H:%M:%S"))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", "2026-11-15 12:01:00"),
        ("0 3 * * *", "2026-11-16 03:00:00"),
        ("*/15 9-17 * * mon-fri", "2026-11-16 09:00:00"),
        ("30 4 1,15 * 5", "2026-11-20 04:30:00"),
        ("0 0 */10 * 1", "2026-12-21 00:00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00:00"),
        ("0 22-2/2 * * *", "2026-11-15 22:00:00"),
        ("5/20 * * * *", "2026-11-15 12:05:00"),
        ("0 0 * * 7", "2026-11-22 00:00:00"),
        ("0 0 * * sat-mon", "2026-11-16 00:00:00"),
        ("0 0 3 * * ?", "2026-11-16 03:00:00"),
        ("0 0 * * * ?", "2026-11-15 13:00:00"),
        ("*/10 * * * * ?", "2026-11-15 12:00:10"),
        ("0 0 12 ? * MON", "2026-11-16 12:00:00"),
        ("0 0 12 ? * 2", "2026-11-16 12:00:00"),
        ("0 0 12 ? * 1", "2026-11-22 12:00:00"),
        ("0 0 12 L * ?", "2026-11-30 12:00:00"),
        ("0 0 12 L-3 * ?", "2026-11-27 12:00:00"),
        ("0 0 12 LW * ?", "2026-11-30 12:00:00"),
        ("0 0 12 21W * ?", "2026-11-20 12:00:00"),
        ("0 0 12 1W 11 ? 2027", "2027-11-01 12:00:00"),
        ("0 0 12 1W 8 ? 2027", "2027-08-02 12:00:00"),
        ("0 0 12 1W 5 ? 2027", "2027-05-03 12:00:00"),
        ("0 0 12 31W 10 ? 2027", "2027-10-29 12:00:00"),
        ("0 0 12 ? * 6L", "2026-11-27 12:00:00"),
        ("0 0 12 ? * FRI#3", "2026-11-20 12:00:00"),
        ("0 0 12 ? * L", "2026-11-21 12:00:00"),
        ("0 0 0 1 1 ? 2030", "2030-01-01 00:00:00"),
        ("0 0 0 1 1 ? 2030/5", "2030-01-01 00:00:00"),
        ("@hourly", "2026-11-15 13:00:00"),
        ("@daily", "2026-11-16 00:00:00"),
        ("@weekly", "2026-11-22 00:00:00"),
        ("@monthly", "2026-12-01 00:00:00"),
        ("@yearly", "2027-01-01 00:00:00"),
        (" @Daily ", "2026-11-16 00:00:00"),
    ],
)
def test_next_time_is_right_when_a_schedule_is_given(text: str, expected: str) -> None:
    assert after(text) == [expected]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "schedule"),
        ("* * * *", "schedule"),
        ("* * * * * * * *", "schedule"),
        ("@fortnightly", "schedule"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day"),
        ("* * 32W * *", "day"),
        ("* * * 13 *", "month"),
        ("* * * FOO *", "month"),
        ("* * * * 8", "weekday"),
        ("0 0 0 ? * 0", "weekday"),
        ("0 0 0 ? * 6#6", "weekday"),
        ("0 0 0 1 * MON", "weekday"),
        ("0 0 0 L * MON", "weekday"),
        ("0 0 0 ? * MON-TUEL", "weekday"),
        ("*/0 * * * *", "minute"),
        ("1- * * * *", "minute"),
        ("-5 * * * *", "minute"),
        (", * * * *", "minute"),
        ("²  * * * *", "minute"),
        ("? * * * *", "minute"),
        ("0 0 0 * * ? 1600", "year"),
        ("a" * 300, "schedule"),
    ],
)
def test_error_names_the_field_when_a_schedule_is_wrong(text: str, field: str) -> None:
    with pytest.raises(ScheduleError, match="allowed: ") as caught:
        parse_schedule(text)
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["Europe/Rom", "../etc/passwd", "/etc/localtime", "Mars/Base\0", "x" * 500, ""])
def test_zone_is_refused_or_is_the_default_when_it_is_not_known(name: str) -> None:
    if name:
        with pytest.raises(ScheduleError, match="timezone"):
            parse_schedule("@daily", timezone=name)
    else:
        assert parse_schedule("@daily", timezone=name).zone == ZoneInfo("UTC")


def test_zone_is_taken_from_the_schedule_when_it_stands_there() -> None:
    assert after("CRON_TZ=Europe/Rome 0 3 * * *") == ["2026-11-16 02:00:00"]
    assert after("TZ=Europe/Rome @daily", timezone="Europe/Rome") == ["2026-11-15 23:00:00"]
    for text in ("CRON_TZ=Europe/Rom @daily", "CRON_TZ=Europe/Rome @daily"):
        with pytest.raises(ScheduleError, match="timezone"):
            parse_schedule(text, timezone="UTC")
    with pytest.raises(ScheduleError, match="five fields"):
        parse_schedule("CRON_TZ=UTC")


def test_skipped_time_fires_when_clocks_show_the_next_valid_one() -> None:
    start = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert after("30 2 * * *", start, timezone="Europe/Rome", times=2) == ["2026-03-29 01:00:00", "2026-03-30 00:30:00"]


def test_skipped_times_fire_once_together_when_there_are_many() -> None:
    start = datetime(2026, 3, 29, 0, 45, tzinfo=UTC)
    found = after("*/20 2-3 * * *", start, timezone="Europe/Rome", times=3)
    assert found == ["2026-03-29 01:00:00", "2026-03-29 01:20:00", "2026-03-29 01:40:00"]


def test_skipped_day_fires_at_the_first_instant_of_the_next_when_a_zone_leaves_one_out() -> None:
    start = datetime(2011, 12, 29, 12, tzinfo=UTC)
    assert after("0 8 30 12 *", start, timezone="Pacific/Apia") == ["2011-12-30 10:00:00"]


def test_doubled_time_fires_once_when_clocks_are_put_back() -> None:
    start = datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert after("30 2 * * *", start, timezone="Europe/Rome", times=2) == ["2026-10-25 00:30:00", "2026-10-26 01:30:00"]


def test_there_is_no_next_time_when_the_years_are_over_or_the_day_does_not_exist() -> None:
    assert parse_schedule("0 0 0 1 1 ? 2020").next_after(NOON) is None
    february = parse_schedule("0 0 30 2 *")
    assert february.next_after(NOON) is None
    assert not february.is_ever_due


@pytest.mark.parametrize("days", [0, 1, 30, 400])
def test_last_time_is_found_when_looking_back(days: int) -> None:
    schedule = parse_schedule("0 3 * * mon")
    start = NOON - timedelta(days=days)
    walked = None
    at = schedule.next_after(start)
    while at is not None and at <= NOON:
        walked, at = at, schedule.next_after(at)
    assert schedule.last_until(NOON, after=start) == walked


def test_last_time_is_now_when_it_is_due_now() -> None:
    schedule = parse_schedule("0 12 * * *")
    assert schedule.last_until(NOON, after=NOON - timedelta(days=3)) == NOON
    assert schedule.last_until(NOON, after=NOON) is None


@pytest.mark.parametrize("zone", ["UTC", "Europe/Rome", "America/Santiago", "Pacific/Apia", "Australia/Lord_Howe"])
@pytest.mark.parametrize("text", ["*/30 * * * *", "0 0 * * *", "59 23 * * sun", "30 2 * * *", "0 12 30 12 *"])
def test_last_time_is_that_of_a_walk_when_clocks_change(text: str, zone: str) -> None:
    schedule = parse_schedule(text, timezone=zone)
    # Clocks change on both hemispheres; Apia skipped the 30th of December 2011.
    for start in (
        datetime(2011, 12, 28, tzinfo=UTC),
        datetime(2026, 3, 27, tzinfo=UTC),
        datetime(2026, 10, 23, tzinfo=UTC),
    ):
        walked = list(takewhile(lambda at: at < start + timedelta(days=5), schedule.iter_after(start)))  # noqa: B023
        assert walked == sorted(set(walked))
        for hours in range(0, 96, 5):
            instant = start + timedelta(hours=hours, minutes=hours)
            expected = max((at for at in walked if at <= instant), default=None)
            assert schedule.last_until(instant, after=start) == expected


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("* * * * * ?", "2026-11-15 12:00:00"),
        ("* * 23 * * ?", "2026-11-14 22:59:59"),
        ("* * * 1 1 ?", "2026-01-01 22:59:59"),
    ],
)
def test_many_times_are_found_with_few_conversions_when_a_server_was_away(
    monkeypatch: pytest.MonkeyPatch, text: str, last: str
) -> None:
    """The event loop lists what it missed."""
    zoned, conversions = parse_schedule(text, timezone="Europe/Rome"), 0
    convert = schedule_module._to_instant

    def count(*given: Any) -> datetime:
        nonlocal conversions
        conversions += 1
        return convert(*given)

    monkeypatch.setattr(schedule_module, "_to_instant", count)
    found = list(islice(zoned.iter_after(NOON - timedelta(days=400)), 1000))
    assert (len(set(found)), conversions < 1500) == (1000, True)
    assert found == sorted(found)
    conversions = 0
    assert str(zoned.last_until(NOON, after=found[-1])) == f"{last}+00:00"
    assert conversions < 300


def make_field(numbers: random.Random, low: int, high: int) -> str:
    first, last = sorted(numbers.sample(range(low, high + 1), 2))
    forms = ["*", "*", f"*/{numbers.randint(1, min(20, high))}", str(first), f"{first}-{last}", f"{first},{last}"]
    return numbers.choice([*forms, f"{first}-{last}/{numbers.randint(2, 5)}"])


def matches_field(text: str, value: int, low: int) -> bool:
    """Written apart from the code under test: does one value match one field?"""
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        start, end = (low, 99) if span == "*" else (int(first), int(last or first))
        if start <= value <= end and (value - start) % int(step or 1) == 0:
            return True
    return False


def matches(text: str, local: datetime) -> bool:
    """Does a minute match? As crontab(5) has it."""
    minute, hour, day, month, weekday = text.split()
    fits_day = matches_field(day, local.day, 1)
    fits_weekday = matches_field(weekday, local.isoweekday() % 7, 0)
    is_either = not day.startswith("*") and not weekday.startswith("*")
    return (
        matches_field(minute, local.minute, 0)
        and matches_field(hour, local.hour, 0)
        and matches_field(month, local.month, 1)
        and (fits_day or fits_weekday if is_either else fits_day and fits_weekday)
    )


@given(seed=st.integers(0, 2**32), offset=st.integers(0, 3 * 365 * 1440))
@example(seed=0, offset=0)
@settings(max_examples=60, database=None)
def test_next_time_is_the_one_a_minute_by_minute_walk_finds_when_anything_is_given(seed: int, offset: int) -> None:
    numbers = random.Random(seed)
    bounds = [(0, 59), (0, 23), (1, 28), (1, 12), (0, 6)]
    text = " ".join(make_field(numbers, low, high) for low, high in bounds)
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=offset)
    found = parse_schedule(text).next_after(start)
    assert found is not None
    assert matches(text, found)
    walked = min(found, start + timedelta(days=2))
    at = start + timedelta(minutes=1)
    while at < walked:
        assert not matches(text, at), (text, at)
        at += timedelta(minutes=1)


@given(day=st.integers(1, 31), month=st.integers(1, 12), year=st.integers(2000, 2060))
@settings(database=None)
def test_nearest_weekday_is_within_the_month_and_is_one_when_it_is_asked_for(day: int, month: int, year: int) -> None:
    chosen = read_days(f"{day}W", "?", is_quartz=True).list_days(year, month)
    exists = day in Days(numbers=None, weekdays=None).list_days(year, month)
    assert len(chosen) == int(exists)
    for number in chosen:
        assert datetime(year, month, number, tzinfo=UTC).weekday() < 5
        assert abs(number - day) <= 2
