"""The `requirements` of a function, as uv gets them.

A requirement names a package, with a version or a URL. Options (`-r`, `--index-url`, `-e`) and paths of this machine
are refused: the machine's operator decides where packages come from.
"""

import re
from collections.abc import Sequence

from runyard.app.engine import EngineRefusal
from runyard.domain.reasons import Reason
from runyard.spec.problems import shorten

LARGEST_REQUIREMENTS_BYTES = 512 << 10
"""How long all requirements of a function may be together: they are arguments of a command."""
URL_SCHEMES = ("https://", "http://", "git+https://")
ALLOWED = "a package such as numpy==2.1.0, or a URL that begins with https://, http:// or git+https://"

_COMMENT = re.compile(r"(?:^|\s)#.*")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*+\s*+(?:\[[A-Za-z0-9._,\s-]*+\])?+\s*+")
_VERSION = re.compile(r"(?:\(?(?:~=|={2,3}|!=|[<>]=?)[A-Za-z0-9.*+!,<>=~\s_-]*+\)?)?+\s*+(?:;.*+)?+")
_URL = re.compile(r"@\s*+(\S++)(?:\s++;.*+)?+")


def read_requirements(given: Sequence[str]) -> tuple[str, ...]:
    """Sorted, each once, without comments. Raises `EngineRefusal` for what uv would not read as a package."""
    found = {line for text in given if (line := _COMMENT.sub("", text).strip())}
    for line in sorted(found):
        if not _is_package(line):
            raise EngineRefusal(
                Reason.ENVIRONMENT_FAILED, f'requirement "{shorten(line)}": {_explain(line)}; allowed: {ALLOWED}'
            )
    if sum(len(line.encode()) for line in found) > LARGEST_REQUIREMENTS_BYTES:
        raise EngineRefusal(
            Reason.ENVIRONMENT_FAILED,
            f"the requirements are too long; allowed: at most {LARGEST_REQUIREMENTS_BYTES} bytes together",
        )
    return tuple(sorted(found))


def _is_package(line: str) -> bool:
    if line.startswith(URL_SCHEMES):
        return True
    package = _PACKAGE.match(line)
    if package is None:
        return False
    rest = line[package.end() :]
    if url := _URL.fullmatch(rest):
        return url[1].startswith(URL_SCHEMES)
    return _VERSION.fullmatch(rest) is not None


def _explain(line: str) -> str:
    if line.startswith("-"):
        return "options are not supported"
    if line.startswith((".", "/", "~", "file:")) or "file://" in line:
        return "paths of this machine are not supported"
    return "a URL of that kind is not supported" if "://" in line else "not a valid requirement"
