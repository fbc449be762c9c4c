"""Cron schedules: cron in five fields, Quartz in six or seven, `@daily` and the like, in a time zone.

Pure: takes and returns aware UTC instants, and never reads the clock. Daylight saving time: a skipped local time fires
at the first instant after the gap; a local time that occurs twice fires once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from runyard.domain.schedule_fields import Days, Field, ScheduleError, read_days, read_field

__all__ = ["Schedule", "ScheduleError", "parse_schedule"]

NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_ZONE_PREFIXES = ("CRON_TZ=", "TZ=")
_FIRST_YEAR, _LATEST_YEAR = 1970, 2199
MOST_SCHEDULE_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A parsed schedule."""

    text: str
    zone: ZoneInfo
    seconds: Field
    minutes: Field
    hours: Field
    months: Field
    years: Field
    days: Days

    @property
    def is_ever_due(self) -> bool:
        """Whether it ever fires: the 30th of February does not exist."""
        return next(self._iter_days(date(_FIRST_YEAR, 1, 1)), None) is not None

    def next_after(self, instant: datetime) -> datetime | None:
        """The first instant after `instant` at which it is due; None if there is none."""
        return next(self.iter_after(instant), None)

    def iter_after(self, instant: datetime) -> Iterator[datetime]:
        """All instants after `instant` at which it is due, in order. Each takes far less time than `next_after`."""
        last = start = instant.astimezone(UTC)
        # Daylight saving time may move a time of the day before to this day.
        first = start.astimezone(self.zone).date() - timedelta(days=1)
        for day in self._iter_days(first):
            for found in self._iter_on(day, start):
                # Skipped local times are the same instant.
                if found > last:
                    yield found
                    last = found

    def last_until(self, instant: datetime, *, after: datetime) -> datetime | None:
        """The last time it was due after `after` and up to `instant`; None if there was none."""
        end = instant.astimezone(UTC)
        # Daylight saving time may move a time of the day after to this day.
        latest = end.astimezone(self.zone).date() + timedelta(days=1)
        earliest = after.astimezone(self.zone).date() - timedelta(days=1)
        for day in self._iter_days_back(latest):
            if day < earliest:
                break
            if (found := self._find_last_on(day, end)) is not None:
                return found if found > after else None
        return None

    def _iter_on(self, day: date, start: datetime) -> Iterator[datetime]:
        """The times on that day after `start`. Skips whole hours: local times and instants have the same order."""
        for hour in self.hours:
            if self._to_instant(day, hour, 59, 59) <= start:
                continue
            for minute in self.minutes:
                if self._to_instant(day, hour, minute, 59) <= start:
                    continue
                for second in self.seconds:
                    if (found := self._to_instant(day, hour, minute, second)) > start:
                        yield found

    def _find_last_on(self, day: date, end: datetime) -> datetime | None:
        """The last time on that day up to `end`, in the same way."""
        for hour in reversed(self.hours):
            if self._to_instant(day, hour, 0, 0) > end:
                continue
            for minute in reversed(self.minutes):
                if self._to_instant(day, hour, minute, 0) > end:
                    continue
                for second in reversed(self.seconds):
                    if (found := self._to_instant(day, hour, minute, second)) <= end:
                        return found
        return None

    def _iter_days(self, first: date) -> Iterator[date]:
        for year in range(first.year, _LATEST_YEAR + 1):
            if year not in self.years:
                continue
            for month in self.months:
                if (year, month) < (first.year, first.month):
                    continue
                for number in self.days.list_days(year, month):
                    if (day := date(year, month, number)) >= first:
                        yield day

    def _iter_days_back(self, last: date) -> Iterator[date]:
        for year in range(last.year, _FIRST_YEAR - 1, -1):
            if year not in self.years:
                continue
            for month in reversed(self.months):
                if (year, month) > (last.year, last.month):
                    continue
                for number in reversed(self.days.list_days(year, month)):
                    if (day := date(year, month, number)) <= last:
                        yield day

    def _to_instant(self, day: date, hour: int, minute: int, second: int) -> datetime:
        local = datetime(day.year, day.month, day.day, hour, minute, second)  # noqa: DTZ001 - the zone comes next
        return _to_instant(local, self.zone)


def parse_schedule(text: str, *, timezone: str | None = None) -> Schedule:
    """Parse a schedule. The time zone may also precede it, as in `CRON_TZ=Europe/Rome 0 3 * * *`; the default is UTC.

    Raises `ScheduleError`, which names the field, the value and what is allowed.
    """
    if not text.strip() or len(text) > MOST_SCHEDULE_CHARACTERS:
        raise ScheduleError("schedule", text, "a cron expression such as `0 3 * * *`, or `@daily`")
    zone, words = _read_zone(timezone), text.split()
    if words[0].startswith(_ZONE_PREFIXES):
        zone, words = _take_zone(words, timezone), words[1:]
    if words and words[0].startswith("@"):
        named = " ".join(words).lower()
        if named not in NAMED:
            raise ScheduleError("schedule", text, ", ".join(NAMED))
        words = NAMED[named].split()
    if len(words) not in (5, 6, 7):
        raise ScheduleError(
            "schedule",
            text,
            "five fields (minute hour day month weekday), or Quartz' six or seven (second minute hour day month"
            f" weekday [year]); this has {len(words)}",
        )
    is_quartz = len(words) > 5
    second, minute, hour, day, month, weekday, year = [*words, "*"][:7] if is_quartz else ["0", *words, "*"]
    return Schedule(
        text=text,
        zone=zone,
        seconds=read_field("second", second),
        minutes=read_field("minute", minute),
        hours=read_field("hour", hour),
        months=read_field("month", month),
        years=read_field("year", year),
        days=read_days(day, weekday, is_quartz=is_quartz),
    )


def _take_zone(words: list[str], timezone: str | None) -> ZoneInfo:
    """The time zone before the fields, for clients that have no other place for it."""
    named = words[0].partition("=")[2]
    if timezone and timezone != named:
        raise ScheduleError("timezone", timezone, f"`{named}`, which the schedule itself names")
    return _read_zone(named)


def _read_zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):
        raise ScheduleError("timezone", name, "a name such as `Europe/Rome` or `UTC`") from None


def _to_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """The instant of a local time; the first of two if it occurs twice, the first after the gap if it is skipped."""
    first = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) == local:
        return first
    # A skipped time: fold 0 uses the offset before the change and lies after it; fold 1 lies before it.
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    old_offset = before.astimezone(zone).utcoffset()
    low, high = 0, int((first - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if (before + timedelta(seconds=middle)).astimezone(zone).utcoffset() == old_offset:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)
