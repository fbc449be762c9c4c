"""Our reading of tolerations, affinity and topology spread beside the apiserver's: the same verdicts."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.errors import BadRequest, Invalid
from runyard.kube.resources import PODS
from runyard.spec.kubernetes.placement import read_affinity, read_tolerations, read_topology_spread
from runyard.spec.problems import Refused
from testbed.cluster import Cluster
from tests.cluster.contract.placement_generator import KEYS, PREFERRED, REQUIRED, Field, PlacementGenerator

SEED = int(os.environ.get("RUNYARD_PLACEMENT_SEED", "4"))
CASES = int(os.environ.get("RUNYARD_PLACEMENT_CASES", "4000"))
IN_FLIGHT = 24
READERS: dict[Field, Callable[[Any], Any]] = {
    "tolerations": read_tolerations,
    "affinity": read_affinity,
    "topologySpreadConstraints": read_topology_spread,
}


@dataclass(frozen=True, slots=True)
class Case:
    field: Field
    given: Any
    read: Any
    """What we made of it; None if we refused."""
    why: str


@pytest.fixture
async def client(control_plane: Cluster) -> AsyncIterator[Client]:
    async with Client.connect(load_kubeconfig(control_plane.kubeconfig)) as client:
        yield client


async def ask(client: Client, field: Field, value: Any) -> dict[str, Any] | str:
    """The pod as the apiserver would store it, or why it refuses. The pod has every label that selectors may use."""
    spec = {"containers": [{"name": "main", "image": "example.com/image"}], field: value}
    pod = {"metadata": {"name": "p", "labels": dict.fromkeys(KEYS, "pod")}, "spec": spec}
    try:
        return await client.create(PODS, pod, namespace="default", dry_run=True)
    except (BadRequest, Invalid) as error:
        return str(error)


async def ask_all(client: Client, questions: list[tuple[Field, Any]]) -> list[dict[str, Any] | str]:
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def ask_in_turn(field: Field, value: Any) -> dict[str, Any] | str:
        async with slots:
            return await ask(client, field, value)

    return await asyncio.gather(*(ask_in_turn(field, value) for field, value in questions))


def make_case(generator: PlacementGenerator) -> Case:
    field, given = generator.draw()
    read, why = judge(field, given)
    respelt, _ = judge(field, generator.spell_differently(given))
    assert respelt == read, f"spelling changed the reading of {given}"
    return Case(field, given, read, why)


def judge(field: Field, given: Any) -> tuple[Any, str]:
    try:
        return READERS[field](given), ""
    except Refused as refused:
        return None, str(refused)


async def test_same_placements_are_taken_when_apiserver_judges_them(client: Client) -> None:
    generator = PlacementGenerator(SEED)
    cases = [make_case(generator) for _ in range(CASES)]
    answers = await ask_all(client, [(case.field, case.given) for case in cases])

    differences = [
        f"{case.field}: {case.given}\n  we: {case.why or 'taken'}\n  apiserver: {answer}"
        for case, answer in zip(cases, answers, strict=True)
        if (case.read is None) != isinstance(answer, str)
    ]
    assert not differences, f"{len(differences)} differences\n" + "\n".join(differences[:10])

    tally = Counter((case.field, "taken" if case.read is not None else "refused") for case in cases)
    assert all(tally[field, verdict] > CASES / 50 for field in READERS for verdict in ("taken", "refused"))
    taken = sum(count for (_, verdict), count in tally.items() if verdict == "taken")
    assert 0.4 < taken / CASES < 0.6


async def test_placement_means_the_same_when_it_was_normalised(client: Client) -> None:
    generator = PlacementGenerator(SEED + 1)
    cases = [case for case in (make_case(generator) for _ in range(600)) if case.read is not None]
    as_given = await ask_all(client, [(case.field, case.given) for case in cases])
    as_read = await ask_all(client, [(case.field, case.read) for case in cases])
    for case, given, read in zip(cases, as_given, as_read, strict=True):
        assert isinstance(given, dict), given
        assert isinstance(read, dict), read
        assert read["spec"].get(case.field) == given["spec"].get(case.field)


def requirement(**fields: Any) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [fields]}]}}}


def preference(**fields: Any) -> dict[str, Any]:
    return {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [fields]}}]}}


def pod_term(**fields: Any) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **fields}]}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("affinity", requirement(key="a", operator="Gt", values=["four"]), id="no-integer"),
        pytest.param("affinity", requirement(key="a", operator="Gt", values=["9" * 20]), id="no-64-bit-integer"),
        pytest.param("affinity", preference(key="a", operator="In", values=["a b"]), id="preferred-no-label-value"),
        pytest.param("affinity", requirement(key="a", operator="In", values=[None]), id="empty-value"),
        pytest.param("affinity", pod_term(labelSelector={"matchLabels": {"a": None}}), id="empty-label"),
        pytest.param("affinity", {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [None]}}}, id="empty-term"),
        pytest.param(
            "affinity", pod_term(labelSelector={"matchLabels": {"a": ""}}, matchLabelKeys=["a"]), id="selected-twice"
        ),
        pytest.param(
            "topologySpreadConstraints",
            [{"maxSkew": 1, "topologyKey": "a b", "whenUnsatisfiable": "DoNotSchedule"}],
            id="no-label-key",
        ),
        pytest.param("tolerations", [{"operator": "Exists"}] * 101, id="too-many"),
    ],
)
async def test_placement_is_refused_when_apiserver_takes_what_cannot_work(
    client: Client, field: Field, value: Any
) -> None:
    assert isinstance(await ask(client, field, value), dict)
    with pytest.raises(Refused):
        READERS[field](value)
