"""The judge's own reading of image names, by the reference grammar: a registry, a repository, a tag or digest."""

import re
from collections.abc import Iterator

_HUB = "docker.io"
_HUBS = frozenset({_HUB, "index.docker.io", "registry-1.docker.io"})


def is_denied(pattern: str, image: str) -> bool:
    """Whether a pattern covers this image in any of its spellings, so that no spelling evades a denial."""
    patterns = {pattern, *_complete(pattern)}
    return any(glob(each, spelling) for each in patterns for spelling in (image, *_iter_full(image)))


def is_allowed(pattern: str, image: str) -> bool:
    """Whether a pattern covers the full name of this image."""
    return any(glob(each, spelling) for each in _complete(pattern) for spelling in _iter_full(image))


def glob(pattern: str, text: str) -> bool:
    """Match a pattern in which `*` stands for any text."""
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), text, re.DOTALL) is not None


def _iter_full(image: str) -> Iterator[str]:
    name, at, digest = image.partition("@")
    last = name.rsplit("/", 1)[-1]
    tag = last.partition(":")[2]
    repository = _complete_repository(name[: len(name) - len(tag) - 1] if tag else name)
    yield repository
    yield f"{repository}:{tag or 'latest'}" if not at else f"{repository}{':' + tag if tag else ''}@{digest}"


def _complete(pattern: str) -> list[str]:
    first, slash, rest = pattern.partition("/")
    if pattern.startswith("*") or (slash and "*" in first):
        return [pattern]
    is_hubs = first.lower() in _HUBS and "*" in rest and "/" not in rest
    return [_complete_repository(pattern), *([f"{_HUB}/{rest}"] if is_hubs else [])]


def _complete_repository(name: str) -> str:
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        first, rest = _HUB, name
    registry = first.lower().removesuffix(":443")
    if registry in _HUBS:
        registry = _HUB
        rest = rest if "/" in rest else f"library/{rest}"
    return f"{registry}/{rest}"
