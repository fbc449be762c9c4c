"""Durations: `90s`, `15m`, `2h`, `7d`, `1w`, `1h30m`; a plain number is in seconds.

Printed in the largest unit up to days that divides them: `90s`, `2h`, `36h`, `7d`.
"""

import re
from fractions import Fraction

from runyard.spec.problems import shorten
from runyard.spec.readers import describe_type

LONGEST = 10 * 365 * 86400

_SECONDS = {"w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1}
_DIGITS = len(str(LONGEST))
_SHAPE = re.compile("([+-]?)(?:([0-9]+)|" + "".join(f"(?:([0-9]+){unit})?" for unit in _SECONDS) + ")", re.ASCII)
_MEANT = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-z]*)", re.ASCII)
_UNITS = {
    **dict.fromkeys(("w", "wk", "week", "weeks"), 7 * 86400),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("y", "year", "years"), 365 * 86400),
}


class DurationError(ValueError):
    """Not a valid duration, or out of range; `suggestion` is the duration that was probably meant."""

    def __init__(self, message: str, *, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


def parse_duration(given: str | int, *, minimum: int = 1) -> int:
    """The duration in seconds; set `minimum` to accept zero or negative ones. Raises DurationError."""
    if isinstance(given, bool) or not isinstance(given, (str, int)):
        meant = _find_meant(repr(given)) if isinstance(given, float) else None
        shown = shorten(given) if isinstance(given, float) else describe_type(given)
        message = f"a duration must be text or a whole number of seconds, not {shown}"
        raise DurationError(message, suggestion=meant)
    seconds = _read_text(given) if isinstance(given, str) else given
    least, most = max(minimum, -LONGEST), LONGEST
    if not least <= seconds <= most:
        nearest = format_duration(least if seconds < least else most)
        bound = "at least" if seconds < least else "at most"
        raise DurationError(f"the duration must be {bound} {nearest}", suggestion=nearest)
    return seconds


def format_duration(seconds: int) -> str:
    """The duration in the largest unit up to days that divides it; `parse_duration` reads it back."""
    unit = next((unit for unit in "dhm" if seconds and seconds % _SECONDS[unit] == 0), "s")
    return f"{seconds // _SECONDS[unit]}{unit}"


def _read_text(text: str) -> int:
    found = _SHAPE.fullmatch(text)
    if not found or not text.lstrip("+-"):
        raise DurationError(f'"{shorten(text)}" is not a valid duration', suggestion=_find_meant(text))
    sign, plain, *counts = found.groups()
    total = _count(plain) + sum(size * _count(count) for size, count in zip(_SECONDS.values(), counts, strict=True))
    return -total if sign == "-" else total


def _count(digits: str | None) -> int:
    significant = (digits or "").lstrip("0")
    return int(significant[: _DIGITS + 1] or "0")  # longer ones are too long either way


def _find_meant(text: str) -> str | None:
    """The duration meant: 2h for `1.5 Hours, 30 min`. None for fractions of a second and for M, minute or month."""
    plain = re.sub(r"[\s_]|,(?![0-9])|\band\b", "", text[:60])
    parts = _MEANT.findall(plain.lower())
    if re.search("[0-9]M(?![A-Za-z])", plain) or "".join(map("".join, parts)) != plain.lower() or len(text) > 60:
        return None
    if not parts or any(unit not in _UNITS or (not unit and len(parts) > 1) for _, unit in parts):
        return None
    seconds = sum(Fraction(number) * _UNITS[unit] for number, unit in parts)
    return format_duration(int(seconds)) if seconds == int(seconds) and 0 < seconds <= LONGEST else None
