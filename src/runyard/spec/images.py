"""Image references, parsed as the container runtimes parse them (the grammar of `distribution/reference`).

`reference := [host[:port]/]path[:tag][@digest]`. Without a host the registry is Docker Hub, and its official images are
under `library/`. If there is a digest, the runtimes pull by it and ignore the tag.
"""

import functools
import ipaddress
import re
from dataclasses import dataclass

DEFAULT_HOST = "docker.io"
DEFAULT_TAG = "latest"
MOST_PATH_CHARACTERS = 255
"""The bound of the grammar for the path of a reference."""
HTTPS_PORT, HTTP_PORT = 443, 80
MOST_PORT = 65_535

_DOCKER_HUB = frozenset({DEFAULT_HOST, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
"""The names of Docker Hub. The runtimes use the first two; the others are hosts that answer."""
_OFFICIAL = "library/"
_HOST_LABEL = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_IPV6_HOST = re.compile(r"\[[a-fA-F0-9:]+\]")
_PATH_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST_CHARACTERS = {"sha256": 64, "sha384": 96, "sha512": 128}
_HEXADECIMAL = re.compile(r"[a-f0-9]+")
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


class ImageError(ValueError):
    """The text is not an image reference. The message says why."""


@dataclass(frozen=True)
class ImageReference:
    """The parts of a reference. `tag` and `digest` are empty where it has none."""

    domain: str
    """Host and port as the runtimes read them: as written, and `docker.io` where the reference names none."""
    path: str
    tag: str = ""
    digest: str = ""

    @functools.cached_property
    def host(self) -> str:
        """The host in lower case; every name of Docker Hub is `docker.io`, and an IP address has one spelling."""
        return normalize_host(split_port(self.domain)[0])

    @functools.cached_property
    def port(self) -> int:
        """The port, or that of the scheme: 443, and 80 for the local host, which is asked by HTTP."""
        port = split_port(self.domain)[1]
        return int(port) if port else get_default_port(self.host)

    @functools.cached_property
    def repository(self) -> str:
        """The path in the registry. Docker Hub has its official images, such as `python`, under `library/`."""
        return add_official_prefix(self.host, self.path)

    @functools.cached_property
    def name(self) -> str:
        """Registry and repository in their one spelling; the default port is left out."""
        port = "" if self.port == get_default_port(self.host) else f":{self.port}"
        return f"{self.host}{port}/{self.repository}"

    @property
    def pulled_tag(self) -> str:
        """The tag that is pulled: `latest` where there is neither tag nor digest."""
        return self.tag or ("" if self.digest else DEFAULT_TAG)

    def __str__(self) -> str:
        tag = f":{self.pulled_tag}" if self.pulled_tag else ""
        return f"{self.name}{tag}" + (f"@{self.digest}" if self.digest else "")


def parse_image(text: str) -> ImageReference:
    """Parse a reference; raises `ImageError`."""
    if _IDENTIFIER.fullmatch(text):
        raise ImageError("64 hexadecimal digits are an image id, not an image name")
    domain, rest = _split_domain(text)
    _check_domain(domain)
    named, at, digest = rest.partition("@")
    path, colon, tag = named.partition(":")
    _check_path(path)
    if colon and not _TAG.fullmatch(tag):
        raise ImageError(
            "a tag consists of at most 128 letters, digits and `_.-`, and begins with a letter, a digit or `_`"
        )
    if at:
        _check_digest(digest)
    return ImageReference(domain, path, tag, digest)


@functools.lru_cache(maxsize=4096)
def find_image(text: str) -> ImageReference | None:
    """The reference, or None where the text is none."""
    try:
        return parse_image(text)
    except ImageError:
        return None


def is_latest(image: str) -> bool:
    """Whether the image has no digest and no tag other than `latest`."""
    reference = find_image(image)
    return reference is not None and not reference.digest and reference.pulled_tag == DEFAULT_TAG


def is_domain(component: str) -> bool:
    """Whether the first component of a name is a registry: it has a `.`, a `:` or a capital, or is `localhost`."""
    return component == "localhost" or "." in component or ":" in component or component != component.lower()


def split_port(domain: str) -> tuple[str, str]:
    """Host and port of a domain; the port is empty where there is none. An IPv6 address is in brackets."""
    host, colon, port = domain.rpartition(":")
    return (domain, "") if not colon or domain.endswith("]") else (host, port)


def normalize_host(host: str) -> str:
    """The one spelling of a host. An IPv4-mapped IPv6 address is the IPv4 address, to which hosts connect."""
    host = host.lower().removesuffix(".")
    if host.startswith("["):
        try:
            address = ipaddress.IPv6Address(host.strip("[]"))
        except ValueError:
            return host
        return f"[{address}]" if address.ipv4_mapped is None else str(address.ipv4_mapped)
    return DEFAULT_HOST if host in _DOCKER_HUB else host


def get_default_port(host: str) -> int:
    """The port of a registry without one."""
    is_local = host in ("localhost", "[::1]") or host.startswith("127.")
    return HTTP_PORT if is_local else HTTPS_PORT


def add_official_prefix(host: str, path: str) -> str:
    """The path with `library/`, where it is that of an official image."""
    return f"{_OFFICIAL}{path}" if host == DEFAULT_HOST and "/" not in path else path


def _split_domain(text: str) -> tuple[str, str]:
    first, slash, rest = text.partition("/")
    if not slash:
        return DEFAULT_HOST, f"{_OFFICIAL}{text}"
    if not is_domain(first):
        return DEFAULT_HOST, text
    domain = DEFAULT_HOST if first == "index.docker.io" else first
    is_official = domain == DEFAULT_HOST and "/" not in rest
    return domain, f"{_OFFICIAL}{rest}" if is_official else rest


def _check_domain(domain: str) -> None:
    host, port = split_port(domain)
    if not _IPV6_HOST.fullmatch(host) and not all(_HOST_LABEL.fullmatch(label) for label in host.split(".")):
        raise ImageError(f"`{host}` is not a host name: letters, digits and `-`, separated by single dots")
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and not _is_ipv4(host):
        # Resolvers read `127.1` and `0x7f.0.0.1` as addresses, which would dodge a rule for `127.0.0.1`.
        raise ImageError(f"`{host}` is not a host name: an IPv4 address has four decimal numbers")
    if domain != host and not (port.isascii() and port.isdecimal() and 0 < int(port) <= MOST_PORT):
        raise ImageError(f"`{port}` is not a port: a number up to {MOST_PORT}")


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _check_path(path: str) -> None:
    if path != path.lower():
        raise ImageError("the path of an image name must be lower case")
    if not all(_PATH_COMPONENT.fullmatch(component) for component in path.split("/")):
        raise ImageError("a path consists of lower-case letters and digits, separated by `/`, `.`, `_`, `__` or dashes")
    if len(path) > MOST_PATH_CHARACTERS:
        raise ImageError(f"the path has {len(path)} characters; at most {MOST_PATH_CHARACTERS}")


def _check_digest(digest: str) -> None:
    algorithm, _, value = digest.partition(":")
    count = _DIGEST_CHARACTERS.get(algorithm)
    if count is None or len(value) != count or not _HEXADECIMAL.fullmatch(value):
        raise ImageError("a digest is `sha256:` and 64 hexadecimal digits in lower case (sha384: 96, sha512: 128)")
