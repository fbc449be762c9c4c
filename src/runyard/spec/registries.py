"""Credentials of image registries: the project secret `DOCKER_AUTH_CONFIG`, a Docker configuration as JSON.

`{"auths": {"registry.example.org": {"username": "ada", "password": "…"}}}`, or `auth` with both in base64, as
`docker login` writes it. GitLab CI has the same variable. Messages never show a part of the value but hosts.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from runyard.spec.problem_codes import Code
from runyard.spec.readers import Findings, describe_type, refuse
from runyard.spec.strict_json import InvalidJson, parse_json

REGISTRIES_SECRET = "DOCKER_AUTH_CONFIG"  # noqa: S105 - a name
"""The name of the secret by which the runs of a project pull private images."""
MOST_REGISTRIES = 100
"""Registries of one project."""
MOST_HOST_CHARACTERS = 255
"""Characters of a registry's name."""
LARGEST_CONFIG_CHARACTERS = 256 * 1024
"""A Docker configuration; a Kubernetes Secret holds 1 MiB, and this one repeats each password in base64."""
_LOGIN_KEYS = frozenset({"username", "password", "auth", "email"})
_ALLOWED = 'such as {"auths": {"registry.example.org": {"username": "…", "password": "…"}}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryCredential:
    """How a registry knows the project."""

    user: str
    password: str = field(repr=False)


def read_registries(text: str) -> Mapping[str, RegistryCredential]:
    """The credentials by registry; raises `Refused` with every problem."""
    if len(text) > LARGEST_CONFIG_CHARACTERS:
        allowed = f"at most {LARGEST_CONFIG_CHARACTERS} characters"
        raise refuse(Code.SIZE_BYTES, "the Docker configuration is too large", allowed=allowed)
    try:
        document = parse_json(text)
    except InvalidJson:
        # Without the reason: it may quote a part of the value.
        raise refuse(Code.REGISTRIES_INVALID, "not valid JSON", allowed=_ALLOWED) from None
    auths = document.get("auths") if isinstance(document, dict) else None
    if not isinstance(auths, dict):
        raise refuse(Code.REGISTRIES_INVALID, "must have a mapping `auths` from registries to logins", allowed=_ALLOWED)
    findings = Findings()
    if len(auths) > MOST_REGISTRIES:
        allowed = f"at most {MOST_REGISTRIES}"
        raise refuse(Code.SIZE_ENTRIES, f"has {len(auths)} registries", path=("auths",), allowed=allowed)
    for helper in sorted({"credHelpers", "credsStore"} & document.keys()):
        message = "programs that know passwords do not exist on the nodes; state the password itself"
        findings.add(Code.REGISTRIES_INVALID, (helper,), message)
    found: dict[str, RegistryCredential] = {}
    for host, login in auths.items():
        read = findings.read(partial(_read_login, host), login, "auths", host)
        if read is not None:
            found[host] = read
    findings.finish()
    return MappingProxyType(found)


def _read_login(host: str, given: Any) -> RegistryCredential:
    if not host or len(host) > MOST_HOST_CHARACTERS or any(letter.isspace() for letter in host):
        raise refuse(Code.REGISTRIES_INVALID, f"not a registry: 1 to {MOST_HOST_CHARACTERS} characters without spaces")
    if not isinstance(given, dict):
        raise refuse(Code.TYPE_MAPPING, f"must be a mapping, not {describe_type(given)}")
    if unknown := sorted(given.keys() - _LOGIN_KEYS):
        allowed = ", ".join(sorted(_LOGIN_KEYS))
        raise refuse(Code.REGISTRIES_INVALID, f"has {len(unknown)} unknown keys", allowed=allowed)
    if not all(isinstance(value, str) for value in given.values()):
        raise refuse(Code.TYPE_TEXT, "every value must be text")
    user, password = given.get("username", ""), given.get("password", "")
    if not (user and password):
        user, password = _decode_login(given.get("auth", ""))
    if not user or not password or ":" in user:
        raise refuse(Code.REGISTRIES_INVALID, "needs `username` and `password`, or both as `auth` in base64")
    return RegistryCredential(user=user, password=password)


def _decode_login(encoded: str) -> tuple[str, str]:
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return user, password
