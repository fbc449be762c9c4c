"""What was recorded of runs that wait or fail is still what a cluster says: they happen again on the tested version.

`make test` plays those that no other test brings about, `make test-versions` all of them.
"""

import asyncio
import json
import os
import re

import pytest

from runyard.engines.kubernetes.observations import observe_run
from runyard.kube import Client
from testbed.cluster import Cluster
from tests.cluster.engine.record_statuses import MOST_AT_ONCE, play, prepare
from tests.cluster.engine.scenarios import SCENARIOS
from tests.unit.engines.kubernetes.observations.recorded import make_objects
from tests.unit.engines.kubernetes.observations.test_recorded import EXPECTED

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
UNPROVEN = (
    *("image-missing", "image-invalid", "job-killed", "job-retry", "job-preempted", "job-init-failed"),
    *("limit-range-refused", "pod-security-refused", "priority-class-missing", "runtime-handler-missing"),
    *("secret-missing", "config-map-missing", "mount-failed", "disk-exceeded", "service-unready"),
    *("unschedulable-gated", "start-permission", "service-start-not-found"),
)
"""Scenarios whose reason no other test of a cluster sees."""
CHOSEN = tuple(SCENARIOS) if os.environ.get("RUNYARD_CONTRACT_LONG") == "1" else UNPROVEN
_NUMBERS = re.compile(r"\b10(\.\d+){3}\b")


async def test_reasons_are_the_recorded_ones_when_runs_fail_again(client: Client, cluster: Cluster) -> None:
    await prepare(client)
    slots = asyncio.Semaphore(MOST_AT_ONCE)

    async def observe(name: str) -> tuple[str | None, ...]:
        async with slots:
            found = observe_run(make_objects(json.loads(await play(client, cluster, name))))
        message = None if found.message is None else re.sub(r"\brun-[a-z0-9]{5}\b", "POD", found.message)
        return found.seen, found.reason, _hide_addresses(message)

    seen = dict(zip(CHOSEN, await asyncio.gather(*map(observe, CHOSEN)), strict=True))
    assert seen == {name: _expect(name) for name in CHOSEN}


def _expect(name: str) -> tuple[str | None, ...]:
    expected = EXPECTED[name]
    return expected["seen"], expected["reason"], _hide_addresses(expected["message"])


def _hide_addresses(message: str | None) -> str | None:
    return None if message is None else _NUMBERS.sub("ADDRESS", message)
