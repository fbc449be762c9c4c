"""Damage to a pod where Pod Security looks: other types, other spellings, nothing where something was."""

import copy
import random
from collections.abc import Iterator
from typing import Any

from tests.cluster.contract.pod_changes import Object

Place = tuple[Any, Any]
"""A mapping or list, and the key or index of one of its members."""

STRANGE_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**63,
    0.0,
    1.5,
    "",
    "0",
    "true",
    "Unconfined",
    "windows",
    [],
    [None],
    [{}],
    ["ALL"],
    {},
    {"type": None},
    {"add": [None]},
)


def damage_pod(chance: random.Random, pod: Object) -> Object:
    """A copy with one or two places changed; a third of them are still read and judged."""
    damaged = copy.deepcopy(pod)
    for _ in range(chance.choice((1, 1, 2))):
        owner, key = chance.choice(list(iter_places(damaged)))
        kind = chance.random()
        if kind < 0.3:
            owner[key] = None
        elif kind < 0.65:
            del owner[key]
        elif kind < 0.85 or isinstance(owner, list):
            owner[key] = copy.deepcopy(chance.choice(STRANGE_VALUES))
        elif kind < 0.95:
            owner[chance.choice((key.lower(), key.swapcase(), key + "s", f" {key}"))] = owner.pop(key)
        else:
            owner[chance.choice(ODD_KEYS)] = copy.deepcopy(chance.choice((owner[key], *STRANGE_VALUES)))
    return damaged


ODD_KEYS = ("hostNetwork", "securityContext", "hostPath", "emptyDir", "privileged", "template", "x", "__proto__", "")


def iter_places(pod: Object) -> Iterator[Place]:
    """Every member of the metadata and of the spec, and those two themselves."""
    yield from _iter_members(pod)


def _iter_members(node: Any) -> Iterator[Place]:
    members = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, member in members:
        yield node, key
        yield from _iter_members(member)
