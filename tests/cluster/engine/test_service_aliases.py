"""`service_name`: the stable name of a service leads to the newest run that has been ready."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from runyard.app.engine import Anchor, Assignment, EngineRefusal, NamedServices
from runyard.domain.outcomes import Seen
from runyard.kube import NotFound
from runyard.kube.resources import DEPLOYMENTS, SERVICES
from runyard.manifests.metadata import RUN_UID_LABEL
from runyard.manifests.names import alias_name
from testbed.cluster import Cluster
from tests.cluster.engine.interrupted_engines import Died, When, interrupt
from tests.contract.engine.kubernetes_lab import KubernetesLab, open_kubernetes_lab
from tests.contract.engine.lab import assign_again, assign_service, begin, eventually, see
from tests.contract.engine.scripts import WAIT_FOREVER

pytestmark = pytest.mark.kubernetes
SPEC = {"service_name": "api"}
MOST_REQUESTS = 12
"""More than a switch sends."""
ANSWER_SECONDS = 60.0


@pytest.fixture
async def lab(cluster: Cluster) -> AsyncIterator[KubernetesLab]:
    """An engine in a namespace of its own."""
    async with open_kubernetes_lab(cluster, is_shared=True) as opened:
        yield opened


def assign_named(lab: KubernetesLab, run_id: str, *, age: int, **fields: Any) -> Assignment:
    """A service with the stable name; `age` orders the runs, whatever is done with them first."""
    lines = (f"echo {run_id} > /tmp/index.html", WAIT_FOREVER)
    run = assign_service(lab, *lines, run_id=run_id, spec=SPEC, **fields)
    return replace(run, created_at=run.created_at - timedelta(minutes=age))


async def take(lab: KubernetesLab, run: Assignment, uid: str) -> None:
    assert isinstance(lab.engine, NamedServices)
    await lab.engine.take_service_name(run, uid)


async def begin_named(lab: KubernetesLab, run: Assignment) -> Anchor:
    """Begin it, and take the name as if it were ready: the engine believes the Core, which knows."""
    anchor = await begin(lab, run)
    await take(lab, run, anchor.uid)
    return anchor


def name_service(lab: KubernetesLab) -> str:
    return alias_name(lab.project, function=None, service="api")


async def get_alias(lab: KubernetesLab) -> dict[str, Any]:
    found: dict[str, Any] = await lab.client.get(SERVICES, name_service(lab), namespace=lab.get_namespace(lab.project))
    return found


async def find_holder(lab: KubernetesLab) -> str:
    """The uid of the run that the name leads to; selector, label and owner agree on it."""
    alias = await get_alias(lab)
    run_uid = str(alias["spec"]["selector"][RUN_UID_LABEL])
    assert alias["metadata"]["labels"][RUN_UID_LABEL] == run_uid
    (owner,) = alias["metadata"]["ownerReferences"]
    holder = await lab.client.get(DEPLOYMENTS, owner["name"], namespace=lab.get_namespace(lab.project))
    assert (holder["metadata"]["uid"], holder["metadata"]["labels"][RUN_UID_LABEL]) == (owner["uid"], run_uid)
    return run_uid


async def ask(alias: dict[str, Any], expected: str) -> None:
    """Until the name is answered by that run: kube-proxy follows a switch a moment later."""
    url = f"http://{alias['spec']['clusterIP']}:{alias['spec']['ports'][0]['port']}/index.html"
    async with asyncio.timeout(ANSWER_SECONDS), httpx2.AsyncClient(trust_env=False) as client:
        while True:
            try:
                answer = await client.get(url)
            except httpx2.TransportError:
                answer = None
            if answer is not None and answer.text == f"{expected}\n":
                return
            await asyncio.sleep(0.1)


async def test_old_run_answers_when_the_new_one_cannot_start_and_the_new_one_when_it_is_ready(
    lab: KubernetesLab,
) -> None:
    old, broken, new = (assign_named(lab, run_id, age=age) for run_id, age in (("old", 3), ("broken", 2), ("new", 1)))
    broken = replace(broken, effective=replace(broken.effective, image="127.0.0.1:1/none/none:1"))
    first = await begin(lab, old)
    await see(lab, first, Seen.RUNNING)
    await take(lab, old, first.uid)
    before = await get_alias(lab)
    await ask(before, "old")

    second = await begin(lab, broken)
    await eventually(lab, lambda: lab.engine.observe(second), lambda seen: bool(seen.reason), what="a reason")
    assert await find_holder(lab) == old.run_uid
    await ask(await get_alias(lab), "old")

    third = await begin(lab, new)
    await see(lab, third, Seen.RUNNING)
    assert await find_holder(lab) == old.run_uid
    await take(lab, new, third.uid)
    assert await find_holder(lab) == new.run_uid
    after = await get_alias(lab)
    await ask(after, "new")
    assert after["spec"]["clusterIP"] == before["spec"]["clusterIP"]
    namespace = lab.get_namespace(lab.project)
    shown = [f"{name_service(lab)}.{namespace}:8080"]
    await eventually(
        lab,
        lambda: lab.engine.observe(third),
        lambda seen: seen.details.get("service", {}).get("aliases") == shown,
        what="the alias is shown",
    )


async def test_older_run_does_not_take_the_name_back_when_a_newer_one_has_been_ready(lab: KubernetesLab) -> None:
    old, new = assign_named(lab, "old", age=2), assign_named(lab, "new", age=1)
    await begin_named(lab, new)
    late = await begin_named(lab, old)
    assert await find_holder(lab) == new.run_uid
    await take(lab, old, late.uid)
    assert await find_holder(lab) == new.run_uid


async def test_ready_run_gets_the_name_first_when_a_newer_one_has_created_it_and_is_not_ready(
    lab: KubernetesLab,
) -> None:
    old, new = assign_named(lab, "old", age=2), assign_named(lab, "new", age=1)
    newer = await begin(lab, new)
    assert await find_holder(lab) == new.run_uid
    await begin_named(lab, old)
    assert await find_holder(lab) == old.run_uid
    await take(lab, new, newer.uid)
    assert await find_holder(lab) == new.run_uid


async def test_older_run_gets_the_name_when_the_newer_one_was_stopped(lab: KubernetesLab) -> None:
    old, new = assign_named(lab, "old", age=2), assign_named(lab, "new", age=1)
    older, newer = await begin_named(lab, old), await begin_named(lab, new)
    await lab.engine.stop(assign_again(new, generation=2), newer.uid)
    assert await find_holder(lab) == new.run_uid
    await take(lab, old, older.uid)
    assert await find_holder(lab) == old.run_uid
    await lab.engine.release(assign_again(new, generation=3), newer.uid)
    await take(lab, assign_again(new, generation=3), newer.uid)
    assert await find_holder(lab) == new.run_uid


async def test_name_is_made_again_when_the_run_that_had_it_is_gone(lab: KubernetesLab) -> None:
    old, new = assign_named(lab, "old", age=2), assign_named(lab, "new", age=1)
    older, newer = await begin_named(lab, old), await begin_named(lab, new)
    await lab.engine.remove(newer)
    await see(lab, newer, Seen.ABSENT)

    async def is_gone() -> bool:
        try:
            await get_alias(lab)
        except NotFound:
            return True
        return False

    await eventually(lab, is_gone, lambda gone: gone, what="collected with its owner")
    await take(lab, old, older.uid)
    assert await find_holder(lab) == old.run_uid


async def test_name_stays_when_a_run_that_was_stopped_meanwhile_takes_it(lab: KubernetesLab) -> None:
    old, new = assign_named(lab, "old", age=2), assign_named(lab, "new", age=1)
    await begin_named(lab, old)
    newer = await begin(lab, new)
    await lab.engine.stop(assign_again(new, generation=2), newer.uid)
    for call in (new, assign_again(new, generation=2), assign_again(new, generation=3)):
        await take(lab, call, newer.uid)
    assert await find_holder(lab) == old.run_uid


@pytest.mark.parametrize("when", ["before", "after"])
async def test_switch_is_finished_when_a_server_dies_at_any_of_its_requests(lab: KubernetesLab, when: When) -> None:
    await begin_named(lab, assign_named(lab, "old", age=MOST_REQUESTS + 1))
    for index in range(MOST_REQUESTS):
        run = assign_named(lab, f"new-{index}", age=MOST_REQUESTS - index)
        anchor = await begin(lab, run)
        interruption = await interrupt(lab)
        interruption.die_at(index, when)
        try:
            await interruption.engine.take_service_name(run, anchor.uid)
        except Died:
            pass
        finally:
            await interruption.engine.close()
        await take(lab, run, anchor.uid)
        assert await find_holder(lab) == run.run_uid
        if not interruption.is_dead:
            assert [one.split()[0] for one in interruption.requests] == ["GET", "GET", "PATCH"]
            return
    raise AssertionError("the switch never ends")


@pytest.mark.parametrize("request_index", [0, 1, 2], ids=["before all", "before the alias is read", "before the patch"])
async def test_newest_run_keeps_the_name_when_a_frozen_server_goes_on(lab: KubernetesLab, request_index: int) -> None:
    old, middle, new = (assign_named(lab, run_id, age=age) for run_id, age in (("old", 3), ("middle", 2), ("new", 1)))
    await begin_named(lab, old)
    anchor = await begin(lab, middle)
    frozen = await interrupt(lab)
    frozen.freeze_at(request_index)
    taking = asyncio.create_task(frozen.engine.take_service_name(middle, anchor.uid))
    await frozen.reached.wait()
    await begin_named(lab, new)
    frozen.thawed.set()
    await taking
    assert await find_holder(lab) == new.run_uid


async def test_stranger_is_left_alone_when_it_has_the_name(lab: KubernetesLab) -> None:
    namespace, name = lab.get_namespace(lab.project), name_service(lab)
    run = assign_named(lab, "new", age=1)
    anchor = await begin(lab, run)
    await lab.client.delete(SERVICES, name, namespace=namespace)
    theirs = {"metadata": {"name": name}, "spec": {"ports": [{"port": 1}], "selector": {"by": "a-stranger"}}}
    await lab.client.create(SERVICES, theirs, namespace=namespace)
    message = f"Service {name} in namespace {namespace} was not created by Runyard"
    with pytest.raises(EngineRefusal, match=message):
        await begin(lab, assign_named(lab, "newer", age=0))
    with pytest.raises(EngineRefusal, match=message):
        await take(lab, run, anchor.uid)
    found = await lab.client.get(SERVICES, name, namespace=namespace)
    assert found["spec"]["selector"] == {"by": "a-stranger"}
