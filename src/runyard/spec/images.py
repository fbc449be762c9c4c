"""Names of container images in full, so that a pattern cannot be dodged by another spelling of the same image."""

from runyard.spec.patterns import matches

DEFAULT_REGISTRY = "docker.io"
_DEFAULT_REGISTRIES = frozenset({DEFAULT_REGISTRY, "index.docker.io", "registry-1.docker.io"})


def matches_image(pattern: str, image: str) -> bool:
    """Whether a pattern means this image. Both are taken in full; a pattern without tag means every tag and digest."""
    full_pattern = _complete_pattern(pattern)
    return any(matches(full_pattern, spelling) for spelling in list_spellings(image))


def list_spellings(image: str) -> tuple[str, str]:
    """The image in full, without and with its tag or digest."""
    name, digest = _split_digest(image)
    path, tag = _split_tag(name)
    full = _complete_name(path)
    shown_tag = f":{tag}" if tag else "" if digest else ":latest"
    return full, f"{full}{shown_tag}" + (f"@{digest}" if digest else "")


def is_latest(image: str) -> bool:
    """Whether the image is what `latest` happens to be when it is pulled."""
    name, digest = _split_digest(image)
    return not digest and _split_tag(name)[1] in ("", "latest")


def _complete_pattern(pattern: str) -> str:
    """A pattern in full: `evil/*` is `docker.io/evil/*`. One that begins with `*` means any registry."""
    first, slash, _ = pattern.partition("/")
    if "*" in first and (slash or first.startswith("*")):
        return pattern
    name, digest = _split_digest(pattern)
    path, tag = _split_tag(name)
    return _complete_name(path) + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")


def _split_digest(image: str) -> tuple[str, str]:
    name, _, digest = image.partition("@")
    return name, digest


def _split_tag(name: str) -> tuple[str, str]:
    head, colon, tail = name.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (name, "")


def _complete_name(path: str) -> str:
    first, slash, rest = path.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry = DEFAULT_REGISTRY if first.lower() in _DEFAULT_REGISTRIES else first.lower()
    else:
        registry, rest = DEFAULT_REGISTRY, path
    if registry == DEFAULT_REGISTRY and "/" not in rest:
        rest = f"library/{rest}"
    return f"{registry}/{rest}"
