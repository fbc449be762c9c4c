"""The `requirements` of a function, as pip and uv get them.

A requirement names a package, with a version or a URL. Options (`-r`, `--index-url`, `-e`) and local paths are refused:
the operator decides where packages come from. The local engine reads them by the same rules.
"""

import re
from collections.abc import Sequence

from .failures import NotPrepared

LARGEST_REQUIREMENTS_BYTES = 512 << 10
"""How long all requirements of a function may be together: they are arguments of a command."""
LONGEST_SHOWN_CHARACTERS = 80
"""How much of a refused requirement its message shows."""
URL_SCHEMES = ("https://", "http://", "git+https://")
ALLOWED = "a package such as numpy==2.1.0, or a URL that begins with https://, http:// or git+https://"

_COMMENT = re.compile(r"(?:^|\s)#.*")
# Their quantifiers are followed by characters that they cannot match, so none of them backtracks far. Possessive ones
# would say so, but Python 3.10 does not know them.
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRAS = re.compile(r"\[[A-Za-z0-9._,\s-]*\]")
_VERSION = re.compile(r"\(?(?:~=|={2,3}|!=|[<>]=?)[A-Za-z0-9.*+!,<>=~\s_-]*\)?")


class InvalidRequirement(NotPrepared):
    """A requirement that is not a package. The text is for the user."""


def read_requirements(given: Sequence[str]) -> tuple[str, ...]:
    """Sorted, each once, without comments. Raises `InvalidRequirement` for what is not a package."""
    found = {line for text in given if (line := _COMMENT.sub("", text).strip())}
    for line in sorted(found):
        if not _is_package(line):
            raise InvalidRequirement(f'requirement "{_shorten(line)}": {_explain(line)}; allowed: {ALLOWED}')
    if sum(len(line.encode("utf-8", "replace")) for line in found) > LARGEST_REQUIREMENTS_BYTES:
        raise InvalidRequirement(
            f"the requirements are too long; allowed: at most {LARGEST_REQUIREMENTS_BYTES} bytes together"
        )
    return tuple(sorted(found))


def _is_package(line: str) -> bool:
    if line.startswith(URL_SCHEMES):
        return True
    rest = _skip(_PACKAGE, line)
    if rest is None:
        return False
    with_extras = _skip(_EXTRAS, rest)
    rest = rest if with_extras is None else with_extras
    if rest.startswith("@"):
        url, _, after = rest[1:].strip().partition(" ")
        return url.startswith(URL_SCHEMES) and (not after.strip() or after.strip().startswith(";"))
    with_version = _skip(_VERSION, rest)
    rest = rest if with_version is None else with_version
    return not rest or rest.startswith(";")


def _skip(pattern: re.Pattern[str], text: str) -> str | None:
    """What follows the pattern and white space; None if the text does not begin with it."""
    found = pattern.match(text)
    return None if found is None else text[found.end() :].lstrip()


def _explain(line: str) -> str:
    if line.startswith("-"):
        return "options are not supported"
    if line.startswith((".", "/", "~", "file:")) or "file://" in line:
        return "paths of this machine are not supported"
    return "a URL of that kind is not supported" if "://" in line else "not a valid requirement"


def _shorten(line: str) -> str:
    text = " ".join(line.split())
    return text if len(text) <= LONGEST_SHOWN_CHARACTERS else f"{text[: LONGEST_SHOWN_CHARACTERS - 1]}…"
