"""Parsers for the text of one setting: each returns the value or raises `WrongValue`."""

import os
import re
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

from runyard.spec.duration import DurationError, parse_duration
from runyard.spec.images import ImageError, parse_image
from runyard.spec.kubernetes.quantity import Quantity, QuantityError
from runyard.spec.names import check_dns_label
from runyard.spec.problems import find_nearest, list_words

Reader = Callable[[str, Path], object]
"""Takes the text, and the directory at which relative paths start."""

_SWITCH = {**dict.fromkeys(("true", "yes", "on", "1"), True), **dict.fromkeys(("false", "no", "off", "0"), False)}
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9.])?|\[?[0-9A-Fa-f:.]+(%[A-Za-z0-9]+)?\]?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_DATABASES = ("sqlite", "sqlite+aiosqlite", "postgresql", "postgres", "postgresql+asyncpg")
_DATABASE_FORMS = "sqlite:////absolute/path.db or postgresql://user@host/name"


class WrongValue(ValueError):
    """An invalid value. With `is_private`, messages must not repeat the text: it may contain a password."""

    def __init__(
        self, message: str, *, allowed: str | None = None, suggestion: str | None = None, is_private: bool = False
    ) -> None:
        super().__init__(message)
        self.allowed, self.suggestion, self.is_private = allowed, suggestion, is_private


def read_text(text: str, _base: Path) -> str:
    """Any text that is not empty."""
    if not text.strip():
        raise WrongValue("is empty")
    return text


def read_host(text: str, _base: Path) -> str:
    """A host name or an IP address, without a port."""
    if not _HOST.fullmatch(text):
        raise WrongValue("is not a valid address or host name", allowed="such as 127.0.0.1, ::1 or 0.0.0.0")
    return text.strip("[]")


def read_port(text: str, _base: Path) -> int:
    """0 to 65535."""
    if text.startswith("tcp://"):
        cause = (
            "was set by Kubernetes for a Service named runyard: set `enableServiceLinks: false` in the pod, "
            "or use the flag --port, which takes precedence"
        )
        raise WrongValue(cause, allowed="0 to 65535")
    return make_number_reader(0, 65535)(text, _base)


def make_number_reader(least: int, most: int) -> Callable[[str, Path], int]:
    """Whole numbers within bounds."""

    def read(text: str, _base: Path) -> int:
        allowed = f"{least} to {most}"
        if not re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII):
            raise WrongValue("is not a whole number", allowed=allowed)
        number = int(text)
        if not least <= number <= most:
            nearest = str(least if number < least else most)
            raise WrongValue("is out of range", allowed=allowed, suggestion=nearest)
        return number

    return read


def read_rate(text: str, _base: Path) -> float:
    """Requests per second."""
    allowed = "more than 0, up to 100000"
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text, re.ASCII):
        raise WrongValue("is not a number of requests per second", allowed=allowed)
    if not 0 < float(text) <= 100_000:
        raise WrongValue("is out of range", allowed=allowed)
    return float(text)


def make_size_reader(most: str) -> Callable[[str, Path], int]:
    """Numbers of bytes as Kubernetes quantities, such as `10Mi`; at least `1Ki`."""

    def read(text: str, _base: Path) -> int:
        allowed = f"1Ki to {most}"
        try:
            size = Quantity.parse(text).value
        except QuantityError as error:
            raise WrongValue("is not a valid size", allowed=allowed, suggestion=error.suggestion) from None
        if not 1024 <= size <= Quantity.parse(most).value:
            raise WrongValue("is out of range", allowed=allowed, suggestion="1Ki" if size < 1024 else most)
        return size

    return read


read_size = make_size_reader("1Gi")
"""Sizes of what the server holds in memory."""
read_disk_size = make_size_reader("1Ti")
"""Sizes of what the server stores."""
read_files_size = make_size_reader("1Pi")
"""Sizes of many files together."""


def make_duration_reader(least: str, most: str) -> Callable[[str, Path], timedelta]:
    """Durations within bounds."""

    def read(text: str, _base: Path) -> timedelta:
        allowed = f"{least} to {most}, such as 90s, 15m, 8h, 30d"
        try:
            seconds = parse_duration(text)
        except DurationError as error:
            meant = None if error.suggestion is None else clamp(error.suggestion)
            raise WrongValue("is not a valid duration", allowed=allowed, suggestion=meant) from None
        if (nearest := clamp(text)) != text:
            raise WrongValue("is out of range", allowed=allowed, suggestion=nearest)
        return timedelta(seconds=seconds)

    def clamp(text: str) -> str:
        seconds = parse_duration(text)
        if seconds < parse_duration(least):
            return least
        return most if seconds > parse_duration(most) else text

    return read


def read_retention(text: str, base: Path) -> timedelta | None:
    """Whole days, or `forever`."""
    if text == "forever":
        return None
    if text.isdecimal() and len(text) < 10:
        # Other readers would take it as seconds; nobody means that here.
        days = min(max(int(text), 1), 3650)
        raise WrongValue("needs a unit", allowed="forever, or 1d to 3650d", suggestion=f"{days}d")
    try:
        kept = make_duration_reader("1d", "3650d")(text, base)
    except WrongValue as error:
        raise WrongValue(
            str(error),
            allowed="forever, or 1d to 3650d",
            suggestion=error.suggestion or find_nearest(text, ["forever"]),
        ) from None
    if kept.seconds:
        raise WrongValue("is not a number of whole days", allowed="such as 30d", suggestion=f"{kept.days + 1}d")
    return kept


def read_switch(text: str, _base: Path) -> bool:
    """`true` or `false`; also yes, no, on, off, 1 and 0."""
    if text.lower() not in _SWITCH:
        raise WrongValue("is not a boolean", allowed="true or false", suggestion=find_nearest(text, ["true", "false"]))
    return _SWITCH[text.lower()]


def make_choice_reader(*words: str) -> Callable[[str, Path], str]:
    """One of the words."""

    def read(text: str, _base: Path) -> str:
        if text not in words:
            raise WrongValue("is not allowed", allowed=list_words(words), suggestion=find_nearest(text, words))
        return text

    return read


def read_path(text: str, base: Path) -> Path:
    """A path that need not exist yet."""
    if not text.strip() or "\0" in text:
        raise WrongValue("is not a valid path")
    try:
        return Path(os.path.normpath(base / Path(text).expanduser()))
    except RuntimeError:
        raise WrongValue("starts with ~ of an unknown user") from None


def read_file(text: str, base: Path) -> Path:
    """A file that can be read."""
    path = read_path(text, base)
    if not path.is_file() or not os.access(path, os.R_OK):
        raise WrongValue("is a directory" if path.is_dir() else "cannot be read", allowed="a file")
    return path


def read_directory(text: str, base: Path) -> Path:
    """An existing directory."""
    path = read_path(text, base)
    if not path.is_dir():
        raise WrongValue("is not a directory" if path.exists() else "does not exist", allowed="a directory")
    return path


def read_url(text: str, _base: Path) -> str:
    """An http or https URL without credentials, query or fragment. A slash at the end is removed."""
    allowed = "such as https://runyard.example.org"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise WrongValue("is not a valid URL", allowed=allowed, is_private=True) from None
    if parts.username is not None or parts.password is not None:
        raise WrongValue("contains a user name or a password", allowed=allowed, is_private=True)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        suggestion = f"http://{text}" if "://" not in text and text else None
        raise WrongValue("is not an http or https URL", allowed=allowed, suggestion=suggestion)
    if parts.query or parts.fragment:
        raise WrongValue("has a query or a fragment", allowed=allowed)
    return text.rstrip("/")


def read_database(text: str, _base: Path) -> str:
    """A database URL. Checks only the scheme. Messages never repeat the URL: it may contain a password."""
    scheme, separator, _ = text.partition("://")
    if not separator:
        raise WrongValue("is not a database URL", allowed=_DATABASE_FORMS, is_private=True)
    if scheme not in _DATABASES:
        nearest = find_nearest(scheme, ["sqlite", "postgresql"])
        raise WrongValue(
            "names an unsupported kind of database",
            allowed=_DATABASE_FORMS,
            suggestion=nearest and f"{nearest}://…",
            is_private=True,
        )
    return text


def read_namespace(text: str, _base: Path) -> str:
    """The name of a Kubernetes namespace."""
    if (problem := check_dns_label(text)) is not None:
        raise WrongValue(f"is not a valid namespace: {problem}", allowed="lower-case letters, digits and dashes")
    return text


def read_image(text: str, _base: Path) -> str:
    """The name of a container image."""
    try:
        parse_image(text)
    except ImageError as error:
        raise WrongValue(
            f"is not an image: {error}", allowed="such as registry.example.org/runyard/launcher:1.0"
        ) from None
    return text


def read_index(text: str, _base: Path) -> str:
    """The URL of a package index. Without credentials: every run can read it, and so can who sees its Job."""
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or any(character.isspace() for character in text):
        raise WrongValue("is not the URL of an index", allowed="such as https://packages.example.org/simple")
    if "@" in parts.netloc:
        raise WrongValue("contains credentials, which every run could read", allowed="an index without sign-in")
    return text


def read_amounts(text: str, _base: Path) -> dict[str, str]:
    """Amounts of Kubernetes resources by name, separated by commas."""
    amounts: dict[str, str] = {}
    for word in filter(None, map(str.strip, text.split(","))):
        name, equals, amount = (part.strip() for part in word.partition("="))
        try:
            is_right = bool(equals and name) and not Quantity.parse(amount).is_negative
        except QuantityError:
            is_right = False
        if not is_right or name in amounts:
            raise WrongValue(
                f"contains `{word}`", allowed="such as requests.cpu=20,requests.memory=64Gi, each name once"
            )
        amounts[name] = amount
    if not amounts:
        raise WrongValue("is empty", allowed="such as requests.cpu=20,requests.memory=64Gi")
    return amounts


def read_reachable_networks(text: str, base: Path) -> tuple[str, ...]:
    """`all`, or networks as in `read_networks`."""
    return ("all",) if text == "all" else read_networks(text, base)


def read_bucket(text: str, _base: Path) -> str:
    """`s3://bucket` or `s3://bucket/prefix`."""
    bucket, _, prefix = text.removeprefix("s3://").partition("/")
    if not text.startswith("s3://") or not _BUCKET.fullmatch(bucket) or any(character in prefix for character in "?#"):
        raise WrongValue("is not an S3 URL", allowed="s3://bucket or s3://bucket/prefix")
    return text.rstrip("/")


def read_logs(text: str, base: Path) -> str:
    """`database`, `folder:PATH` or `s3://bucket/prefix`."""
    kind, separator, rest = text.partition(":")
    if kind in ("folder", "database") and separator:
        return f"{kind}:{read_path(rest, base)}"
    if kind == "s3":
        return read_bucket(text, base)
    if text != "database":
        allowed = "database, database:PATH, folder:PATH, s3://bucket/prefix"
        raise WrongValue(
            "is not a valid log storage", allowed=allowed, suggestion=find_nearest(kind, ["database", "folder", "s3"])
        )
    return text


def read_files(text: str, base: Path) -> str:
    """A directory, or `s3://bucket/prefix`."""
    if text.startswith("s3:"):
        return read_bucket(text, base)
    if text.startswith("folder:"):
        raise WrongValue("is not a valid file storage", allowed="a directory, s3://bucket/prefix")
    return str(read_path(text, base))


def read_networks(text: str, _base: Path) -> tuple[str, ...]:
    """Addresses and networks, separated by commas."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        try:
            ip_network(word)
        except ValueError:
            raise WrongValue(
                f"contains `{word}`, which is not an address or a network", allowed="such as 10.0.0.0/8, ::1"
            ) from None
    if not words:
        raise WrongValue("contains no address", allowed="such as 10.0.0.0/8, ::1")
    return tuple(words)
