"""Patterns of image rules, compared with references part by part: registry, repository, tag and digest.

A pattern is written like a reference, with `*` for any text. Parts that it leaves out match as follows.

| left out | in `allowed` | in `denied` |
|---|---|---|
| registry | Docker Hub | Docker Hub |
| port | the default port | every port |
| tag | every tag | every tag |
| digest | with a tag: no digest; without a tag: every digest | every digest |
"""

import functools
from dataclasses import dataclass

from runyard.spec.images import (
    DEFAULT_HOST,
    ImageReference,
    add_official_prefix,
    find_image,
    get_default_port,
    is_domain,
    normalize_host,
    split_port,
)
from runyard.spec.patterns import matches


@dataclass(frozen=True, slots=True)
class ImagePattern:
    """The parts of a pattern; None where it leaves one out."""

    host: str | None
    """None for a pattern such as `*:latest`, whose repositories are names with their registry."""
    port: str | None
    repositories: tuple[str, ...]
    tag: str | None
    digest: str | None

    def allows(self, image: ImageReference) -> bool:
        """Whether every part matches. The digest decides what is pulled, so a tag alone matches no digest."""
        if self.digest is None:
            is_same_digest = self.tag is None or not image.digest
        else:
            is_same_digest = bool(image.digest) and matches(self.digest, image.digest)
        is_same_tag = self.tag is None or matches(self.tag, image.pulled_tag)
        return is_same_digest and is_same_tag and self._matches_name(image, hosts=(image.host,), is_any_port=False)

    def denies(self, image: ImageReference) -> bool:
        """Whether it matches by any part that decides: a full digest by itself, else tag and digest as written."""
        hosts = (image.host, split_port(image.domain)[0].lower())
        if not self._matches_name(image, hosts=hosts, is_any_port=True):
            return False
        is_same_tag = self.tag is None or matches(self.tag, image.pulled_tag)
        if self.digest is None:
            return is_same_tag
        is_exact = "*" not in self.digest
        return bool(image.digest) and matches(self.digest, image.digest) and (is_exact or is_same_tag)

    def _matches_name(self, image: ImageReference, *, hosts: tuple[str, ...], is_any_port: bool) -> bool:
        if self.host is None:
            return any(matches(pattern, image.name) for pattern in self.repositories)
        return (
            any(matches(self.host, host) for host in hosts)
            and self._matches_port(image, is_any_port=is_any_port)
            and any(matches(pattern, image.repository) for pattern in self.repositories)
        )

    def _matches_port(self, image: ImageReference, *, is_any_port: bool) -> bool:
        if self.port is None:
            return is_any_port or self.host == "*" or image.port == get_default_port(image.host)
        return int(self.port) == image.port if self.port.isdecimal() else matches(self.port, str(image.port))


def matches_image(pattern: str, image: str) -> bool:
    """Whether an entry of `allowed` covers an image. Text that is not a reference is never covered."""
    reference = find_image(image)
    return reference is not None and parse_pattern(pattern).allows(reference)


def denies_image(pattern: str, image: str) -> bool:
    """Whether an entry of `denied` covers an image, also as text, such as `ghcr.io*`. Other text is denied."""
    reference = find_image(image)
    if reference is None or parse_pattern(pattern).denies(reference):
        return True
    return any(matches(pattern.lower(), text) for text in (reference.name, str(reference)))


@functools.lru_cache(maxsize=4096)
def parse_pattern(pattern: str) -> ImagePattern:
    """The parts of a pattern. Never raises: a pattern that no reference can match matches none."""
    named, at, digest = pattern.partition("@")
    name, tag = _split_tag(named)
    first, slash, rest = name.partition("/")
    ending = (tag, digest if at else None)
    if not slash and first.startswith("*"):
        return ImagePattern(None, None, (name,), *ending)
    if not slash or not (first.startswith("*") or is_domain(first)):
        return ImagePattern(DEFAULT_HOST, None, (add_official_prefix(DEFAULT_HOST, name),), *ending)
    host, port = split_port(first)
    host = normalize_host(host)
    official = add_official_prefix(host, rest)
    # `docker.io/*` matches the images of every organisation and the official ones.
    repositories = (official, rest) if official != rest and "*" in rest else (official,)
    return ImagePattern(host, port or None, repositories, *ending)


def _split_tag(name: str) -> tuple[str, str | None]:
    head, colon, tail = name.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (name, None)
