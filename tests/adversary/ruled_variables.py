"""Draws variables that the admin rules, as `envs` and as secrets: names of rules and of the profile's own variables."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.adversary import words
from tests.adversary.cases import World
from tests.adversary.draws import Draws
from tests.adversary.raw import read_pairs, read_scopes


def ask_ruled_variable(draws: Draws, world: World, project: str) -> dict[str, Any]:
    """A field that sets a variable which the policy rules or a profile sets: a secret, a variable, or both."""
    names = [*dict.fromkeys(_iter_ruled(world, project)), "LD_PRELOAD", "PATH", "PYTHONPATH"]
    name = draws.pick_of(names)
    known = name if name in world.secrets else draws.pick_of(sorted(world.secrets) or [name])
    secret = draws.pick(known, {"name": known}, {"name": known}, {"name": known, "mount_path": "/secrets/c"})
    return draws.pick(
        {"secrets": [secret]},
        {"secrets": [secret]},
        {"secrets": [secret], "envs": {draws.pick("EPOCHS", known): "asked"}},
        {"envs": {name: draws.pick_of(words.ENVS.get(name, ("asked",)))}},
    )


def _iter_ruled(world: World, project: str) -> Iterator[str]:
    for scope in read_scopes(world.policy, project):
        rule = scope.rules.get("envs", {})
        required = rule.get("required")
        yield from (name for name in (*(rule.get("allowed") or ()), *(rule.get("denied") or ())) if "*" not in name)
        yield from (*(required if isinstance(required, list) else ()), *(rule.get("default") or {}))
    for document in (document for file in world.profiles for document in file):
        if "id" in document:
            yield from read_pairs(document.get("envs") or {})
            yield from (_read_name(entry) for entry in document.get("secrets") or ())


def _read_name(secret: Any) -> str:
    return str(secret["name"] if isinstance(secret, Mapping) else secret)
