"""The patches of an anchor on a real apiserver: all of one or nothing, for that UID, and never out of order."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runyard.domain.admission import admit
from runyard.domain.effective_spec import EffectiveSpec
from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.errors import Invalid, NotFound
from runyard.kube.objects import Object
from runyard.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from runyard.manifests.environment import get_platform_envs
from runyard.manifests.identity import Owner, RunIdentity
from runyard.manifests.patches import EndPod, Patch, Release, Remind, Settle, Stop
from runyard.manifests.render import render_anchor, render_dependents, render_kept_claims, render_preview
from runyard.spec.environment import SecretUse
from runyard.spec.policy import Policy
from testbed.cluster import Cluster
from tests.cluster.kube.conditions import wait_until
from tests.unit.manifests.samples import claim, make_spec, make_volume

NAMESPACE = "patched"
RESOURCES: dict[str, Resource] = {
    resource.kind: resource
    for resource in (SECRETS, CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, JOBS, DEPLOYMENTS, SERVICES, PODS)
}
JOB = make_spec(backoff_limit=3, ttl_seconds=60, timeout_seconds=600)
SERVICE = make_spec(action="serve", replicas=2)
IDLE = make_spec(action="serve", replicas=0)


@pytest.fixture
async def client(control_plane: Cluster) -> AsyncIterator[Client]:
    async with Client.connect(load_kubeconfig(control_plane.kubeconfig)) as client:
        await client.apply(NAMESPACES, {"metadata": {"name": NAMESPACE}}, field_manager="test")
        account: Object = {"metadata": {"name": "default"}}
        await client.apply(SERVICE_ACCOUNTS, account, namespace=NAMESPACE, field_manager="test")
        yield client


def identify(run_id: str) -> RunIdentity:
    return RunIdentity(run_id=run_id, run_uid=run_id, project="vision", namespace=NAMESPACE, generation=1)


async def create_anchor(client: Client, spec: EffectiveSpec, run_id: str) -> Object:
    """Create the anchor as an engine does: only what was admitted, together with what will follow."""
    identity = identify(run_id)
    admitted = admit(
        [render_anchor(spec, identity)],
        unsent=render_preview(spec, identity),
        policy=Policy(),
        project="vision",
        platform_envs=get_platform_envs(identity),
        is_anchor=True,
        run_uid=run_id,
    )
    (anchor,) = admitted
    return await client.create(RESOURCES[anchor.kind], json.loads(anchor.body))


def locate(anchor: Object, *, seen: int, generation: int) -> dict[str, Any]:
    return {
        "kind": anchor["kind"],
        "name": anchor["metadata"]["name"],
        "namespace": NAMESPACE,
        "uid": anchor["metadata"]["uid"],
        "seen_generation": seen,
        "generation": generation,
    }


async def send(client: Client, patch: Patch) -> Object:
    resource = RESOURCES[patch.kind]
    return await client.patch(resource, patch.name, json.loads(patch.body), namespace=patch.namespace, kind="json")


async def read(client: Client, anchor: Object) -> Object:
    return await client.get(RESOURCES[anchor["kind"]], anchor["metadata"]["name"], namespace=NAMESPACE)


def get_told(anchor: Object) -> tuple[str, str]:
    notes = anchor["metadata"]["annotations"]
    return notes["runyard.io/generation"], notes["runyard.io/wish"]


async def test_job_is_held_released_stopped_and_settled_when_patched_in_order(client: Client) -> None:
    anchor = await create_anchor(client, JOB, "in-order")
    assert (get_told(anchor), anchor["spec"]["suspend"]) == (("1", "hold"), True)
    assert anchor["spec"]["activeDeadlineSeconds"] == 600 + 30 + 3600

    released = await send(client, Release(**locate(anchor, seen=1, generation=1)))
    assert (get_told(released), released["spec"]["suspend"]) == (("1", "run"), False)
    again = await send(client, Release(**locate(anchor, seen=1, generation=1)))
    assert again["spec"]["suspend"] is False

    stopped = await send(client, Stop(**locate(anchor, seen=1, generation=2)))
    assert (get_told(stopped), stopped["spec"]["backoffLimit"]) == (("2", "stop"), 0)
    suspended = await send(client, Stop(is_suspended=True, **locate(anchor, seen=2, generation=2)))
    assert suspended["spec"]["suspend"] is True

    settled = await send(client, Settle(ttl_seconds=60, **locate(anchor, seen=2, generation=2)))
    assert settled["spec"]["ttlSecondsAfterFinished"] == 60
    assert get_told(settled) == ("2", "stop")


async def test_a_reminder_is_the_only_change_when_the_controller_of_a_job_is_reminded(client: Client) -> None:
    anchor = await create_anchor(client, JOB, "reminded")
    at, where = "2026-11-19T05:00:00Z", {"name": anchor["metadata"]["name"], "namespace": NAMESPACE}
    reminded = await send(client, Remind(**where, uid=anchor["metadata"]["uid"], at=at))
    assert reminded["metadata"]["annotations"] == {**anchor["metadata"]["annotations"], "runyard.io/reminded-at": at}
    assert reminded["spec"] == anchor["spec"]
    assert reminded["metadata"]["generation"] == anchor["metadata"]["generation"]
    with pytest.raises(Invalid):
        await send(client, Remind(**where, uid="another", at=at))


@pytest.mark.parametrize(("spec", "replicas"), [(SERVICE, 2), (IDLE, 0)], ids=["two replicas", "none by wish"])
async def test_service_says_why_it_has_no_replicas_when_patched_in_order(
    client: Client, spec: EffectiveSpec, replicas: int
) -> None:
    anchor = await create_anchor(client, spec, f"service-{replicas}")
    told = [(anchor["spec"]["replicas"], get_told(anchor))]
    for patch in (
        Release(replicas=replicas, **locate(anchor, seen=1, generation=1)),
        Stop(**locate(anchor, seen=1, generation=2)),
        Release(replicas=replicas, **locate(anchor, seen=2, generation=3)),
    ):
        patched = await send(client, patch)
        told.append((patched["spec"]["replicas"], get_told(patched)))

    assert told == [(0, ("1", "hold")), (replicas, ("1", "run")), (0, ("2", "stop")), (replicas, ("3", "run"))]


@pytest.mark.parametrize("spec", [JOB, SERVICE], ids=["job", "service"])
async def test_late_release_changes_nothing_when_a_newer_generation_was_told(
    client: Client, spec: EffectiveSpec
) -> None:
    anchor = await create_anchor(client, spec, f"late-{spec.action}")
    late = Release(replicas=spec.replicas, **locate(anchor, seen=1, generation=1))
    stopped = await send(client, Stop(**locate(anchor, seen=1, generation=2)))

    with pytest.raises(Invalid):
        await send(client, late)

    after = await read(client, anchor)
    assert get_told(after) == ("2", "stop")
    assert after["spec"] == stopped["spec"]


async def test_late_stop_changes_nothing_when_the_service_was_resumed_since(client: Client) -> None:
    anchor = await create_anchor(client, SERVICE, "late-stop")
    await send(client, Release(replicas=2, **locate(anchor, seen=1, generation=1)))
    late = Stop(**locate(anchor, seen=1, generation=2))
    await send(client, Stop(**locate(anchor, seen=1, generation=2)))
    await send(client, Release(replicas=2, **locate(anchor, seen=2, generation=3)))

    with pytest.raises(Invalid):
        await send(client, late)

    after = await read(client, anchor)
    assert (after["spec"]["replicas"], get_told(after)) == (2, ("3", "run"))


@pytest.mark.parametrize(
    ("spec", "make"),
    [
        (SERVICE, lambda where: Release(replicas=3, **where)),
        (JOB, lambda where: Settle(ttl_seconds=61, **where)),
        (make_spec(), lambda where: Settle(ttl_seconds=60, **where)),
    ],
    ids=["other replicas", "another TTL", "a TTL where none was admitted"],
)
async def test_figures_are_refused_when_they_were_not_admitted(
    client: Client, spec: EffectiveSpec, make: Any, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id.replace(" ", "-")
    anchor = await create_anchor(client, spec, f"figures-{name}")

    with pytest.raises(Invalid):
        await send(client, make(locate(anchor, seen=1, generation=1)))

    assert (await read(client, anchor))["spec"] == anchor["spec"]


async def test_stranger_is_not_touched_when_it_has_the_runs_name(client: Client) -> None:
    anchor = await create_anchor(client, JOB, "stranger")
    where = {**locate(anchor, seen=1, generation=2), "uid": "11111111-0000-4000-8000-000000000000"}
    for patch in (Release(**where), Stop(**where), Settle(ttl_seconds=60, **where)):
        with pytest.raises(Invalid):
            await send(client, patch)

    after = await read(client, anchor)
    assert (after["spec"], get_told(after)) == (anchor["spec"], ("1", "hold"))


async def test_pod_of_another_uid_is_not_ended_when_it_has_the_name(client: Client) -> None:
    container = {"name": "main", "image": "busybox:1.36"}
    pod: Object = {"metadata": {"name": "one"}, "spec": {"containers": [container]}}
    created = await client.create(PODS, pod, namespace=NAMESPACE)
    with pytest.raises(Invalid):
        await send(client, EndPod(name="one", namespace=NAMESPACE, uid="other"))
    ended = await send(client, EndPod(name="one", namespace=NAMESPACE, uid=created["metadata"]["uid"]))
    assert ended["spec"]["activeDeadlineSeconds"] == 1


async def test_nothing_stays_when_a_release_comes_after_its_anchor_is_gone(client: Client) -> None:
    spec = make_spec(
        action="serve",
        service_name="late",
        secrets=[SecretUse(name="TOKEN")],
        volumes=[
            claim(),
            claim(name="kept", mount_path="/kept", lifetime="keep"),
            make_volume("config_map", name="c", mount_path="/c", data={"a": "1"}),
        ],
    )
    identity = identify("after-the-end")
    anchor = await create_anchor(client, spec, "after-the-end")
    owner = Owner("Deployment", anchor["metadata"]["name"], anchor["metadata"]["uid"])
    await client.delete(DEPLOYMENTS, owner.name, namespace=NAMESPACE, propagation="Background")

    async def is_gone() -> bool:
        try:
            await read(client, anchor)
        except NotFound:
            return True
        return False

    await wait_until(is_gone)
    dependents = render_dependents(spec, identity, owner=owner, secret_values={"TOKEN": "t"})
    admitted = admit(
        dependents,
        unsent=[render_anchor(spec, identity), *render_kept_claims(spec, identity)],
        policy=Policy(),
        project="vision",
        platform_envs=get_platform_envs(identity),
        is_anchor=True,
    )
    for item in admitted:
        await client.create(RESOURCES[item.kind], json.loads(item.body))
    assert {item.kind for item in admitted} == {"Secret", "ConfigMap", "PersistentVolumeClaim", "Service"}
    with pytest.raises(NotFound):
        await send(client, Release(replicas=1, **locate(anchor, seen=1, generation=1)))

    async def is_clean() -> bool:
        selector = f"runyard.io/run-uid={identity.run_uid}"
        lists = [
            await client.list(resource, namespace=NAMESPACE, label_selector=selector) for resource in RESOURCES.values()
        ]
        return not any(found.items for found in lists)

    await wait_until(is_clean)


async def test_anchor_stays_held_when_somebody_removed_its_generation(client: Client) -> None:
    anchor = await create_anchor(client, JOB, "without-generation")
    notes = {"metadata": {"annotations": {"runyard.io/generation": None}}}
    await client.patch(JOBS, anchor["metadata"]["name"], notes, namespace=NAMESPACE)
    with pytest.raises(Invalid):
        await send(client, Release(**locate(anchor, seen=1, generation=1)))
    assert (await read(client, anchor))["spec"]["suspend"] is True
