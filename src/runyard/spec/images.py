"""Names of container images: all spellings of one image, so that a pattern cannot be dodged by another spelling."""

DEFAULT_REGISTRY = "docker.io"
_DEFAULT_REGISTRIES = frozenset({DEFAULT_REGISTRY, "index.docker.io", "registry-1.docker.io"})


def list_spellings(image: str) -> tuple[str, ...]:
    """The image as written, and in full: with its registry and its tag."""
    name, digest = _split_digest(image)
    path, tag = _split_tag(name)
    registry, rest = _split_registry(path)
    if registry == DEFAULT_REGISTRY and "/" not in rest:
        rest = f"library/{rest}"
    end = f"@{digest}" if digest else ""
    full = f"{registry}/{rest}"
    shown_tag = f":{tag}" if tag else "" if digest else ":latest"
    return tuple(dict.fromkeys([image, f"{full}{shown_tag}{end}", f"{full}{end}" if digest else full]))


def is_latest(image: str) -> bool:
    """Whether the image is what `latest` happens to be when it is pulled."""
    name, digest = _split_digest(image)
    return not digest and _split_tag(name)[1] in ("", "latest")


def _split_digest(image: str) -> tuple[str, str]:
    name, _, digest = image.partition("@")
    return name, digest


def _split_tag(name: str) -> tuple[str, str]:
    head, colon, tail = name.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (name, "")


def _split_registry(path: str) -> tuple[str, str]:
    first, slash, rest = path.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        lowered = first.lower()
        return (DEFAULT_REGISTRY if lowered in _DEFAULT_REGISTRIES else lowered), rest
    return DEFAULT_REGISTRY, path
