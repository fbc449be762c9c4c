"""Draws images near the rules of the policy: a ruled name in another spelling, by digest, port, case, dot or family."""

import ipaddress
import re
from collections.abc import Iterator

from tests.adversary import words
from tests.adversary.draws import Draws
from tests.adversary.raw import RawScope

_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+")
_PORTS = (":443", ":0443", ":80", ":8443", ":5000", ":05000", "")


def ask_ruled_image(draws: Draws, scopes: list[RawScope]) -> dict[str, str]:
    """A field with an image that a rule may or may not mean; nothing where no rule names one."""
    names = list(_iter_names(scopes))
    if not names:
        return {}
    name = draws.pick_of(names)
    if _IPV4.match(name) and draws.chance():
        name = _map_to_ipv6(draws, name)
    for trick in draws.sample(_TRICKS, draws.number(0, 2)):
        name = trick(draws, name)
    return {"image": name}


def _iter_names(scopes: list[RawScope]) -> Iterator[str]:
    for scope in scopes:
        rule = scope.rules.get("image", {})
        for entry in [*(rule.get("allowed") or ()), *(rule.get("denied") or ()), *(rule.get("options") or ())]:
            yield _fill(entry)


def _fill(pattern: str) -> str:
    """A name that the pattern could mean."""
    first, slash, rest = pattern.partition("/")
    if slash and first.startswith("*"):
        pattern = f"{first.replace('*', 'ghcr')}/{rest}"
    name, at, digest = pattern.partition("@")
    if at:
        return f"{name.replace('*', 'x')}@{words.DIGESTS[0] if '*' in digest else digest}"
    return name.replace("*", "x")


def _add_digest(draws: Draws, name: str) -> str:
    return name if "@" in name else f"{name}@{draws.pick_of(words.DIGESTS)}"


def _change_tag(draws: Draws, name: str) -> str:
    name, at, digest = name.partition("@")
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}{draws.pick('', ':1.36', ':2', ':latest')}{at}{digest}"


def _change_port(draws: Draws, name: str) -> str:
    first, slash, rest = name.partition("/")
    return f"{first.partition(':')[0]}{draws.pick_of(_PORTS)}/{rest}" if slash and "[" not in first else name


def _change_case(draws: Draws, name: str) -> str:
    first, slash, rest = name.partition("/")
    return f"{draws.pick(first.upper(), first.title())}{slash}{rest}"


def _add_dot(draws: Draws, name: str) -> str:
    first, slash, rest = name.partition("/")
    host, colon, port = first.partition(":")
    return f"{host}.{colon}{port}/{rest}" if slash else name


def _add_host(draws: Draws, name: str) -> str:
    return draws.pick("docker.io/", "index.docker.io/", "DOCKER.IO/", "evil.io/", "EVILREG/", "localhost/") + name


def _map_to_ipv6(draws: Draws, name: str) -> str:
    """The IPv4-mapped IPv6 address of an IPv4 address, in one of its spellings."""
    first, slash, rest = name.partition("/")
    host, colon, port = first.partition(":")
    if not slash or not _IPV4.fullmatch(host):
        return name
    high, low = divmod(int(ipaddress.IPv4Address(host)), 1 << 16)
    mapped = draws.pick(f"[::ffff:{high:x}:{low:x}]", f"[0:0:0:0:0:FFFF:{high:04X}:{low:04X}]")
    return f"{mapped}{colon}{port}/{rest}"


_TRICKS = (_add_digest, _add_digest, _change_tag, _change_port, _change_port, _change_case, _add_dot, _add_host)
