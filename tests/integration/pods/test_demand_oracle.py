"""Compares pod demand with Kubernetes' own `PodRequests` and `PodLimits`."""

import random
from collections.abc import Iterator

import pytest

from runyard.pods.demand import pod_limits, pod_requests
from runyard.spec.kubernetes.quantity import Quantity
from testbed import build
from tests.integration.oracle import Document, Oracle
from tests.integration.pods.demand_generator import damage_pod, make_pod

pytestmark = pytest.mark.kubernetes

SEED = 4_004
PODS = 5_000
DAMAGED_PODS = 2_000


@pytest.fixture(scope="module", params=[True, False], ids=["with-defaults", "as-written"])
def apply_defaults(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def oracle(version: str, apply_defaults: bool) -> Iterator[Oracle]:
    oracle = Oracle(build.ensure_kube(version), "pod-requests", *(["--defaults"] if apply_defaults else []))
    yield oracle
    assert oracle.close() == 0


def answer(pod: Document, *, apply_defaults: bool) -> Document:
    """Our result, in the oracle's form."""
    try:
        requests = pod_requests(pod, apply_defaults=apply_defaults)
        limits = pod_limits(pod, apply_defaults=apply_defaults)
    except ValueError as error:
        return {"error": str(error)}
    return {
        "requests": {name: amount.text for name, amount in requests.items()},
        "limits": {name: amount.text for name, amount in limits.items()},
    }


def is_same(ours: Document, theirs: Document) -> bool:
    """Both refuse, or both give the same amounts as text; Go prints an unchanged amount in its original spelling."""
    if "error" in ours or "error" in theirs:
        return ours.keys() == theirs.keys()
    return ours.keys() == theirs.keys() and all(
        ours[side].keys() == theirs[side].keys()
        and all(text in (theirs[side][name], Quantity.parse(theirs[side][name]).text) for name, text in amounts.items())
        for side, amounts in ours.items()
    )


def test_sums_are_those_of_go_when_pods_are_generated(oracle: Oracle, apply_defaults: bool) -> None:
    chance = random.Random(SEED)
    pods = [make_pod(chance) for _ in range(PODS)]

    theirs = oracle.ask_all(pods)

    ours = [answer(pod, apply_defaults=apply_defaults) for pod in pods]
    assert [found for found in zip(pods, ours, theirs, strict=True) if not is_same(*found[1:])] == []
    assert not any("error" in their for their in theirs)


def test_same_pods_are_refused_when_resources_are_damaged(oracle: Oracle, apply_defaults: bool) -> None:
    chance = random.Random(SEED + 1)
    pods = [damage_pod(chance, make_pod(chance)) for _ in range(DAMAGED_PODS)]

    theirs = oracle.ask_all(pods)

    ours = [answer(pod, apply_defaults=apply_defaults) for pod in pods]
    assert [found for found in zip(pods, ours, theirs, strict=True) if not is_same(*found[1:])] == []
    assert 0.2 < sum("error" in their for their in theirs) / DAMAGED_PODS < 0.9
