"""The fields of a cron schedule: lists, ranges, steps, names; and the days of a month, which depend on two fields."""

import calendar
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Field = tuple[int, ...]
"""The matching values, in order."""

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"), start=1
    )
}
_WEEKDAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}
_BOUNDS = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "year": (1970, 2199),
}
_NAMES: Mapping[str, Mapping[str, int]] = {"month": _MONTHS, "weekday": _WEEKDAYS}


class ScheduleError(ValueError):
    """An invalid schedule; `field` is one of its fields, or `schedule` or `timezone`."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: `{str(value)[:80]}` is not valid; allowed: {allowed}")
        self.field, self.value, self.allowed = field, value, allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """Days of a month: by number, by weekday, by either (cron), or by the special words of Quartz."""

    numbers: Field | None
    """None: any."""
    weekdays: Field | None
    """0 is Sunday. None: any."""
    is_both: bool = False
    """Whether a day must match both; in cron either suffices, unless one of the fields begins with a star."""
    last: int | None = None
    """`L`: the last day of the month; `L-3`: that many before it."""
    nearest: int | None = None
    """`15W`: the weekday (Monday to Friday) nearest to that day; 0 is `LW`, the last one."""
    last_weekday: int | None = None
    """`5L`: the last such weekday of the month."""
    nth_weekday: tuple[int, int] | None = None
    """`6#3`: that weekday, the third of the month."""

    def list_days(self, year: int, month: int) -> list[int]:
        """The days of that month, in order."""
        first, length = calendar.monthrange(year, month)
        weekday_of_first = (first + 1) % 7
        return [day for day in range(1, length + 1) if self._has(day, length, (weekday_of_first + day - 1) % 7)]

    def _has(self, day: int, length: int, weekday: int) -> bool:
        if self.last is not None:
            return day == length - self.last
        if self.nearest is not None:
            return self._is_nearest(day, length, weekday)
        if self.last_weekday is not None:
            return weekday == self.last_weekday and day > length - 7
        if self.nth_weekday is not None:
            return (weekday, (day - 1) // 7 + 1) == self.nth_weekday
        if self.numbers is not None and self.weekdays is not None:
            fits = (day in self.numbers, weekday in self.weekdays)
            return all(fits) if self.is_both else any(fits)
        if self.weekdays is not None:
            return weekday in self.weekdays
        return self.numbers is None or day in self.numbers

    def _is_nearest(self, day: int, length: int, weekday: int) -> bool:
        if weekday in (0, 6):
            return False
        target = self.nearest or length
        if target > length:
            return False
        weekday_of_target = (weekday + target - day) % 7
        if weekday_of_target == 6:
            return day == (target - 1 if target > 1 else target + 2)
        if weekday_of_target == 0:
            return day == (target + 1 if target < length else target - 2)
        return day == target


def read_field(name: str, text: str) -> Field:
    """The values of a field. Raises `ScheduleError`."""
    low, high = _BOUNDS[name]
    return tuple(sorted(set(_iter_values(name, "*" if text == "?" and name == "year" else text, low=low, high=high))))


def read_days(day: str, weekday: str, *, is_quartz: bool) -> Days:
    """The days from both fields. Sunday is 1 in Quartz, 0 and 7 in cron. Raises `ScheduleError`."""
    special = _read_special_day(day) or _read_special_weekday(weekday, is_quartz=is_quartz)
    any_day, any_weekday = day in ("*", "?"), weekday in ("*", "?")
    if special is not None:
        if not (any_day or any_weekday):
            raise ScheduleError("weekday", weekday, f"`?` beside the day `{day}`")
        return special
    if is_quartz and not (any_day or any_weekday):
        raise ScheduleError("weekday", weekday, f"`?` beside the day `{day}`, or `?` as the day")
    numbers = None if any_day else read_field("day", day)
    weekdays = None if any_weekday else _read_weekdays(weekday, is_quartz=is_quartz)
    return Days(numbers=numbers, weekdays=weekdays, is_both=day.startswith("*") or weekday.startswith("*"))


def _read_special_day(text: str) -> Days | None:
    word = text.upper()
    if word == "L":
        return Days(numbers=None, weekdays=None, last=0)
    if word.startswith("L-") and word[2:].isdecimal() and int(word[2:]) <= 30:
        return Days(numbers=None, weekdays=None, last=int(word[2:]))
    if word == "LW":
        return Days(numbers=None, weekdays=None, nearest=0)
    if word.endswith("W") and word[:-1].isdecimal() and 1 <= int(word[:-1]) <= 31:
        return Days(numbers=None, weekdays=None, nearest=int(word[:-1]))
    return None


def _read_special_weekday(text: str, *, is_quartz: bool) -> Days | None:
    word = text.upper()
    if word == "L" and is_quartz:
        return Days(numbers=None, weekdays=(6,))
    if word.endswith("L") and len(word) > 1:
        return Days(numbers=None, weekdays=None, last_weekday=_read_weekday(word[:-1], text, is_quartz=is_quartz))
    if "#" in word:
        which, _, number = word.partition("#")
        if not number.isdecimal() or not 1 <= int(number) <= 5:
            raise ScheduleError("weekday", text, "`6#3` with a number from 1 to 5 after the `#`")
        weekday = _read_weekday(which, text, is_quartz=is_quartz)
        return Days(numbers=None, weekdays=None, nth_weekday=(weekday, int(number)))
    return None


def _read_weekdays(text: str, *, is_quartz: bool) -> Field:
    low, high = (1, 7) if is_quartz else (0, 7)
    values = _iter_values("weekday", text, low=low, high=high, shift=1 if is_quartz else 0)
    return tuple(sorted({(value - 1 if is_quartz else value) % 7 for value in values}))


def _read_weekday(word: str, text: str, *, is_quartz: bool) -> int:
    values = _read_weekdays(word, is_quartz=is_quartz)
    if len(values) != 1:
        raise ScheduleError("weekday", text, "one weekday")
    return values[0]


def _iter_values(name: str, text: str, *, low: int, high: int, shift: int = 0) -> Iterator[int]:
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = 1
        if slash:
            if not (step_text.isascii() and step_text.isdecimal()) or not 1 <= int(step_text[:6]) <= high:
                raise _refuse(name, part, low=low, high=high)
            step = int(step_text)
        start, end = _read_span(name, span, part, low=low, high=high, shift=shift)
        if slash and "-" not in span and span != "*":
            end = high
        if start > end:  # `FRI-MON`, `22-2`: wraps around
            yield from range(start, high + 1, step)
            yield from range(low, end + 1, step)
        else:
            yield from range(start, end + 1, step)


def _read_span(name: str, span: str, part: str, *, low: int, high: int, shift: int) -> tuple[int, int]:
    if span == "*":
        # Sunday is both 0 and 7 in cron: count it once.
        return low, min(high, 6) if name == "weekday" and low == 0 else high
    first, dash, last = span.partition("-")
    start = _read_number(name, first, part, low=low, high=high, shift=shift)
    return start, _read_number(name, last, part, low=low, high=high, shift=shift) if dash else start


def _read_number(name: str, word: str, part: str, *, low: int, high: int, shift: int) -> int:
    known = _NAMES.get(name, {}).get(word.upper())
    if known is not None:
        return known + shift
    if not (word.isascii() and word.isdecimal() and len(word) <= 4 and low <= int(word) <= high):
        raise _refuse(name, part, low=low, high=high)
    return int(word)


def _refuse(name: str, part: str, *, low: int, high: int) -> ScheduleError:
    names = f", names such as {', '.join(list(_NAMES[name])[:3])}" if name in _NAMES else ""
    return ScheduleError(name, part, f"numbers from {low} to {high}{names}, `a-b`, `a,b`, `*/n`, `*`")
