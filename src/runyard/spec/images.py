"""Container image names in full form, so that another spelling of an image cannot evade a pattern."""

import functools

from runyard.spec.patterns import matches

DEFAULT_REGISTRY = "docker.io"
_DEFAULT_REGISTRIES = frozenset({DEFAULT_REGISTRY, "index.docker.io", "registry-1.docker.io"})


def matches_image(pattern: str, image: str) -> bool:
    """Whether a pattern matches an image, both in full form. A pattern without a tag matches every tag and digest."""
    spellings = list_spellings(image)
    return any(_matches_parts(full, spelling) for full in _complete_pattern(pattern) for spelling in spellings)


def _matches_parts(pattern: str, spelling: str) -> bool:
    """Match registry and path separately: `*.example.org/*` does not match `evil.io/x.example.org/y`."""
    pattern_registry, slash, pattern_rest = pattern.partition("/")
    if not slash:
        return matches(pattern, spelling)
    registry, _, rest = spelling.partition("/")
    return matches(pattern_registry, registry) and matches(pattern_rest, rest)


def denies_image(pattern: str, image: str) -> bool:
    """Like `matches_image`, for deny lists: the pattern is also matched as written, such as `ghcr.io*`."""
    return matches_image(pattern, image) or any(matches(pattern, spelling) for spelling in list_spellings(image))


def list_spellings(image: str) -> tuple[str, str]:
    """The full image name, without and with its tag or digest."""
    name, digest = _split_digest(image)
    path, tag = _split_tag(name)
    full = _complete_name(path)
    shown_tag = f":{tag}" if tag else "" if digest else ":latest"
    return full, f"{full}{shown_tag}" + (f"@{digest}" if digest else "")


def is_latest(image: str) -> bool:
    """Whether the image has no digest and no tag other than `latest`."""
    name, digest = _split_digest(image)
    return not digest and _split_tag(name)[1] in ("", "latest")


@functools.lru_cache(maxsize=4096)
def _complete_pattern(pattern: str) -> tuple[str, ...]:
    """The full form of a pattern: `evil/*` becomes `docker.io/evil/*`. A leading `*` matches any registry.

    `docker.io/*` matches the images of every organisation and the official ones, whose full path is `library/NAME`.
    """
    if pattern.startswith("*"):
        return (pattern,)
    name, digest = _split_digest(pattern)
    path, tag = _split_tag(name)
    end = (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
    registry, rest = _split_registry(path)
    has_both = registry == DEFAULT_REGISTRY and "/" in path and "/" not in rest and "*" in rest
    return (f"{_complete_name(path)}{end}", *([f"{registry}/{rest}{end}"] if has_both else []))


def _split_digest(image: str) -> tuple[str, str]:
    name, _, digest = image.partition("@")
    return name, digest


def _split_tag(name: str) -> tuple[str, str]:
    head, colon, tail = name.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (name, "")


def _split_registry(path: str) -> tuple[str, str]:
    first, slash, rest = path.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry = first.lower().removesuffix(":443")
        return (DEFAULT_REGISTRY if registry in _DEFAULT_REGISTRIES else registry), rest
    return DEFAULT_REGISTRY, path


def _complete_name(path: str) -> str:
    registry, rest = _split_registry(path)
    if registry == DEFAULT_REGISTRY and "/" not in rest:
        rest = f"library/{rest}"
    return f"{registry}/{rest}"
