"""Our rules for names beside the apiserver's, on texts at the edges of every rule."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.errors import BadRequest, Invalid
from runyard.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES, Resource
from runyard.spec.names import (
    check_config_key,
    check_dns_1035_label,
    check_dns_label,
    check_dns_subdomain,
    check_env_name,
    check_label_value,
    check_port_name,
    check_qualified_name,
)
from testbed.cluster import Cluster

PARTS = ("a", "A", "0", "-", "_", ".", "/", "a-b", "a--b", "9z", "..", "a.b", "ä", " ", "=", "+", "\n", "\t", "~", "")
LENGTHS = (1, 14, 15, 16, 62, 63, 64, 252, 253, 254)
TEXTS = sorted(
    {
        *(f"{first}{second}" for first in PARTS for second in PARTS),
        *(f"{first}a{last}" for first in PARTS for last in PARTS),
        *(character * length for character in "aA0" for length in LENGTHS),
        *(f"{'a' * length}/b" for length in LENGTHS),
        *(f"b/{'a' * length}" for length in LENGTHS),
        *(f"{'a.' * 126}{end}" for end in ("a", "ab", "")),
    }
)


@dataclass(frozen=True, slots=True)
class Rule:
    check: Callable[[str], str | None]
    resource: Resource
    build: Callable[[str], Mapping[str, Any]]
    is_narrower: bool = False
    """Whether we refuse on purpose some names that this apiserver takes; never the other way round."""


def pod(**container: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", **container}]}}


RULES = {
    "subdomain": Rule(check_dns_subdomain, CONFIG_MAPS, lambda name: {"metadata": {"name": name}}),
    "label": Rule(check_dns_label, PODS, lambda name: pod(name=name)),
    "1035-label": Rule(
        check_dns_1035_label,
        SERVICES,
        lambda name: {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}},
        is_narrower=True,
    ),
    "label-key": Rule(
        check_qualified_name, CONFIG_MAPS, lambda name: {"metadata": {"name": "m", "labels": {name: ""}}}
    ),
    "label-value": Rule(
        check_label_value, CONFIG_MAPS, lambda name: {"metadata": {"name": "m", "labels": {"a": name}}}
    ),
    "config-key": Rule(check_config_key, CONFIG_MAPS, lambda name: {"metadata": {"name": "m"}, "data": {name: ""}}),
    "secret-key": Rule(check_config_key, SECRETS, lambda name: {"metadata": {"name": "m"}, "stringData": {name: ""}}),
    "port": Rule(check_port_name, PODS, lambda name: pod(ports=[{"containerPort": 80, "name": name}])),
    "env": Rule(check_env_name, PODS, lambda name: pod(env=[{"name": name, "value": ""}]), is_narrower=True),
}


@pytest.fixture
async def client(control_plane: Cluster) -> AsyncIterator[Client]:
    async with Client.connect(load_kubeconfig(control_plane.kubeconfig)) as client:
        yield client


async def is_taken(client: Client, rule: Rule, name: str) -> bool:
    try:
        await client.create(rule.resource, rule.build(name), namespace="default", dry_run=True)
    except (BadRequest, Invalid):
        return False
    return True


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
async def test_same_names_are_taken_when_apiserver_judges_them(client: Client, rule: Rule) -> None:
    # Without a name there is nothing to judge for the apiserver, or for our client.
    names = [name for name in TEXTS if name] if rule.check is not check_label_value else TEXTS
    theirs = await asyncio.gather(*(is_taken(client, rule, name) for name in names))
    ours = [rule.check(name) is None for name in names]
    assert 5 < sum(ours) < len(names) - 5
    differences = [
        (name, "we take it" if taken_by_us else "apiserver takes it")
        for name, taken_by_us, taken in zip(names, ours, theirs, strict=True)
        if taken_by_us != taken and not (rule.is_narrower and taken)
    ]
    assert not differences
