"""Steps of runs that meet: of two servers, or of one whose loops work side by side."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runyard.app.engine import Assignment, EngineUnavailable
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.namespaces import Namespaces
from runyard.engines.kubernetes.registry_secrets import RegistrySecrets
from runyard.engines.kubernetes.rendered_runs import RenderedRuns
from runyard.engines.kubernetes.run_steps import RunSteps
from runyard.engines.kubernetes.run_watch import RunWatch, view_anchor
from runyard.engines.kubernetes.service_names import ServiceNames
from runyard.engines.kubernetes.views import PodView, read_view
from runyard.kube import Client
from runyard.kube.resources import PODS
from runyard.manifests.identity import PlatformInputs
from runyard.spec.environment import SecretUse
from tests.contract.engine.lab import FixedAccess, Lab, assign, assign_again
from tests.unit.engines.kubernetes.fake_cluster import FakeClient, FakeCluster
from tests.unit.engines.kubernetes.test_cluster_cache import NAMESPACE, drop, make_cache, make_pod_body, put
from tests.unit.engines.kubernetes.test_run_watch import make_ended_pod
from tests.unit.manifests.samples import make_volume

PLATFORM = PlatformInputs(endpoint="http://server.test:8080", has_token=True)
GENERATION = "runyard.io/generation"


class Server:
    """The steps of one server, with a cache that shows what the server itself has read and written."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.client = FakeClient(cluster)
        client, namespaces = cast("Client", self.client), Namespaces(NAMESPACE, "here")
        writes = ClusterWrites(client, request_seconds=1)
        self.cache = make_cache()
        watch = RunWatch(client, self.cache, request_seconds=1)
        rendered = RenderedRuns(PLATFORM, installation="here")
        self.steps = RunSteps(
            client,
            cache=self.cache,
            watch=watch,
            writes=writes,
            rendered=rendered,
            registries=RegistrySecrets(client, writes, namespaces, installation="here"),
            names=ServiceNames(
                client, watch=watch, writes=writes, rendered=rendered, namespaces=namespaces, request_seconds=1
            ),
            namespaces=namespaces,
            request_seconds=1,
        )

    def watch(self) -> None:
        """Let its cache show the anchor as it is now."""
        anchor = self.cluster.find("Deployment") or self.cluster.find("Job")
        assert anchor is not None
        self.cache.note_written(view_anchor(anchor))


def make_run(**fields: Any) -> Assignment:
    """A run with a Secret and a ConfigMap."""
    lab = SimpleNamespace(
        project="vision", platform=PLATFORM, adapt=lambda spec: replace(spec, image="busybox:1.36", run_as_user=1000)
    )
    volumes = (make_volume("config_map", data={"a": "1"}),)
    spec = {"secrets": (SecretUse(name="KEY"),), "volumes": volumes, **fields}
    return assign(cast("Lab", lab), spec=spec, access=FixedAccess({"KEY": "value"}, token="token of release 1"))


def make_service(**fields: Any) -> Assignment:
    """A service with everything that an anchor owns."""
    return make_run(action="serve", **fields)


def renew(run: Assignment, generation: int) -> Assignment:
    """The run in a later generation. Each release has a token of its own."""
    access = FixedAccess({"KEY": "value"}, token=f"token of release {generation}")
    return replace(assign_again(run, generation=generation), access=access)


async def stop_running(server: Server, run: Assignment) -> str:
    """Start a service and stop it with generation 2; returns the UID of its anchor."""
    uid = await server.steps.ensure_anchor(run)
    await server.steps.release(run, uid)
    await server.steps.stop(renew(run, 2), uid)
    return uid


def find_secret_generation(cluster: FakeCluster) -> str | None:
    secret = cluster.find("Secret")
    return None if secret is None else secret["metadata"].get("annotations", {}).get(GENERATION)


def use_same(server: Server) -> Server:
    return server


def use_restarted(server: Server) -> Server:
    """A server that remembers nothing of the run; its cache shows it."""
    other = Server(server.cluster)
    other.watch()
    return other


async def test_nothing_is_sent_when_an_anchor_is_prepared() -> None:
    server, run = Server(FakeCluster()), make_run()
    create = await server.steps.prepare_anchor(run)
    assert server.client.requests == []
    uid = await create()
    assert server.client.requests == ["POST Job"]
    assert await server.steps.ensure_anchor(run) == uid


@pytest.mark.parametrize("choose", [use_same, use_restarted], ids=["same process", "another replica"])
async def test_secret_stays_when_an_older_settle_meets_a_release_that_has_replaced_it(
    choose: Callable[[Server], Server],
) -> None:
    cluster = FakeCluster()
    server, run = Server(cluster), make_service()
    uid = await stop_running(server, run)
    settling = choose(server)
    server.client.freeze_at("PATCH Deployment")
    releasing = asyncio.create_task(server.steps.release(renew(run, 3), uid))
    await server.client.reached.wait()
    assert not await settling.steps.settle(renew(run, 2), uid)
    server.client.thawed.set()
    await releasing
    assert find_secret_generation(cluster) == "3"
    # The Secret goes with the end of its own release.
    await server.steps.stop(renew(run, 4), uid)
    assert await server.steps.settle(renew(run, 4), uid)
    assert cluster.find("Secret") is None


@pytest.mark.parametrize("choose", [use_same, use_restarted], ids=["same process", "another replica"])
async def test_secret_is_deleted_when_the_release_that_wrote_it_never_started_the_service(
    choose: Callable[[Server], Server],
) -> None:
    cluster = FakeCluster()
    server, run = Server(cluster), make_service()
    uid = await stop_running(server, run)
    server.client.freeze_at("PATCH Deployment")
    releasing = asyncio.create_task(server.steps.release(renew(run, 3), uid))
    await server.client.reached.wait()
    releasing.cancel()
    await asyncio.gather(releasing, return_exceptions=True)
    settling = choose(server)
    await settling.steps.stop(renew(run, 4), uid)
    assert await settling.steps.settle(renew(run, 4), uid)
    assert cluster.find("Secret") is None


@pytest.mark.parametrize("text", [None, "", "-1", "3rd", "9" * 40])
async def test_secret_is_deleted_when_it_states_no_generation(text: str | None) -> None:
    cluster = FakeCluster()
    run = make_service()
    uid = await stop_running(Server(cluster), run)
    secret = cluster.find("Secret")
    assert secret is not None
    annotations = {key: value for key, value in secret["metadata"].get("annotations", {}).items() if key != GENERATION}
    secret["metadata"]["annotations"] = annotations if text is None else {**annotations, GENERATION: text}
    server = Server(cluster)
    assert await server.steps.settle(renew(run, 2), uid)
    assert cluster.find("Secret") is None


async def test_secret_without_a_generation_is_replaced_when_the_service_is_resumed() -> None:
    cluster = FakeCluster()
    run = make_service()
    uid = await stop_running(Server(cluster), run)
    secret = cluster.find("Secret")
    assert secret is not None
    secret["metadata"].get("annotations", {}).pop(GENERATION, None)
    server = Server(cluster)
    await server.steps.release(renew(run, 3), uid)
    assert find_secret_generation(cluster) == "3"
    assert not await Server(cluster).steps.settle(renew(run, 2), uid)
    assert find_secret_generation(cluster) == "3"


async def test_everything_stays_when_a_frozen_release_goes_on_after_the_service_was_resumed() -> None:
    cluster = FakeCluster()
    frozen, server, run = Server(cluster), Server(cluster), make_service()
    uid = await server.steps.ensure_anchor(run)
    frozen.client.freeze_at("PATCH Deployment")
    releasing = asyncio.create_task(frozen.steps.release(run, uid))
    await frozen.client.reached.wait()
    await server.steps.release(run, uid)
    await server.steps.stop(renew(run, 2), uid)
    await server.steps.release(renew(run, 3), uid)
    before = dict(cluster.objects)
    assert cluster.list_kinds() == ["ConfigMap", "Deployment", "Secret", "Service"]
    frozen.client.thawed.set()
    await releasing
    assert cluster.objects == before


async def test_secret_stays_when_a_frozen_release_finds_that_of_a_newer_one() -> None:
    cluster = FakeCluster()
    frozen, server, run = Server(cluster), Server(cluster), make_service()
    uid = await server.steps.ensure_anchor(run)
    frozen.client.freeze_at("POST Secret")
    releasing = asyncio.create_task(frozen.steps.release(run, uid))
    await frozen.client.reached.wait()
    await server.steps.release(run, uid)
    await server.steps.stop(renew(run, 2), uid)
    await server.steps.release(renew(run, 3), uid)
    before = dict(cluster.objects)
    frozen.client.thawed.set()
    await releasing
    assert cluster.objects == before


async def test_secret_stays_when_a_newer_release_replaced_it_between_the_look_and_the_put() -> None:
    cluster = FakeCluster()
    frozen, server, run = Server(cluster), Server(cluster), make_service()
    uid = await server.steps.ensure_anchor(run)
    await server.steps.release(run, uid)
    await server.steps.stop(renew(run, 2), uid)
    frozen.watch()
    frozen.client.freeze_at("PUT Secret")
    releasing = asyncio.create_task(frozen.steps.release(renew(run, 3), uid))
    await frozen.client.reached.wait()
    await server.steps.stop(renew(run, 4), uid)
    await server.steps.release(renew(run, 5), uid)
    before = dict(cluster.objects)
    frozen.client.thawed.set()
    with pytest.raises(EngineUnavailable):
        await releasing
    assert cluster.objects == before


async def test_no_secret_is_left_when_a_frozen_release_goes_on_after_the_service_was_stopped() -> None:
    cluster = FakeCluster()
    frozen, server, run = Server(cluster), Server(cluster), make_service()
    uid = await server.steps.ensure_anchor(run)
    frozen.client.freeze_at("PATCH Deployment")
    releasing = asyncio.create_task(frozen.steps.release(run, uid))
    await frozen.client.reached.wait()
    await server.steps.stop(renew(run, 2), uid)
    frozen.client.thawed.set()
    await releasing
    # The others hold no secret, and are what a resume needs; they go with their anchor.
    assert cluster.list_kinds() == ["ConfigMap", "Deployment", "Service"]


async def test_nothing_is_left_when_a_frozen_release_goes_on_after_the_anchor_was_removed() -> None:
    cluster = FakeCluster()
    frozen, server, run = Server(cluster), Server(cluster), make_service()
    uid = await server.steps.ensure_anchor(run)
    frozen.watch()
    frozen.client.freeze_at("POST Secret")
    releasing = asyncio.create_task(frozen.steps.release(run, uid))
    await frozen.client.reached.wait()
    anchor = cluster.find("Deployment")
    assert anchor is not None
    cluster.remove("Deployment", anchor["metadata"]["name"])
    frozen.client.thawed.set()
    await releasing
    assert cluster.objects == {}


async def test_no_secret_is_left_when_a_frozen_release_goes_on_after_the_job_was_settled() -> None:
    cluster = FakeCluster()
    frozen, server, run = Server(cluster), Server(cluster), make_run()
    uid = await server.steps.ensure_anchor(run)
    frozen.client.freeze_at("POST Secret")
    releasing = asyncio.create_task(frozen.steps.release(run, uid))
    await frozen.client.reached.wait()
    await server.steps.release(run, uid)
    job = cluster.find("Job")
    assert job is not None
    status = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
    cluster.store({**job, "status": status}, known=job)
    server.watch()
    assert await server.steps.settle(run, uid)
    frozen.client.thawed.set()
    await releasing
    assert cluster.list_kinds() == ["ConfigMap", "Job"]


async def test_stable_name_stays_when_a_frozen_release_finds_its_anchor_gone_and_another_run_has_the_name() -> None:
    cluster = FakeCluster()
    frozen, server, run = Server(cluster), Server(cluster), make_service(service_name="main")
    uid = await server.steps.ensure_anchor(run)
    frozen.client.freeze_at("PATCH Deployment")
    releasing = asyncio.create_task(frozen.steps.release(run, uid))
    await frozen.client.reached.wait()
    (alias,) = (item for (_, name), item in cluster.objects.items() if name == "svc-vision--main")
    taken = {**alias, "metadata": {**alias["metadata"], "ownerReferences": [{"uid": "uid of another run"}]}}
    cluster.store(taken, known=alias)
    anchor = cluster.find("Deployment")
    assert anchor is not None
    cluster.remove("Deployment", anchor["metadata"]["name"])
    frozen.client.thawed.set()
    await releasing
    assert [name for _, name in cluster.objects] == ["svc-vision--main"]


def list_requests(server: Server, *kinds: str) -> list[str]:
    return [request for request in server.client.requests if request.split()[1] in kinds]


async def test_a_settle_needs_no_look_at_the_secret_when_this_process_wrote_it() -> None:
    server, run = Server(FakeCluster()), make_service()
    uid = await stop_running(server, run)
    server.client.requests.clear()
    assert await server.steps.settle(renew(run, 2), uid)
    assert list_requests(server, "Secret", "Deployment") == ["DELETE Secret"]


def fail(run: Assignment, generation: int) -> Assignment:
    """The run after it has failed: nobody can resume it."""
    return replace(renew(run, generation), can_be_resumed=False)


async def start_job(server: Server, *, run: Assignment, exit_code: int) -> str:
    """A Job that runs, and whose only pod has ended; its controller does not say so yet. Returns its UID."""
    uid = await server.steps.ensure_anchor(run)
    await server.steps.release(run, uid)
    pod = make_ended_pod(exit_code, run_uid=run.run_uid)
    await create_pod(server, pod)
    put(server.cache, server.cache.pods, read_view(PodView, pod))
    return uid


async def create_pod(server: Server, pod: dict[str, Any]) -> None:
    """A pod that the watch does not show yet."""
    await server.client.send_encoded("POST", PODS, json.dumps({**pod, "kind": "Pod"}).encode())


def find_job_spec(server: Server) -> dict[str, Any]:
    job = server.cluster.find("Job")
    assert job is not None
    spec: dict[str, Any] = job["spec"]
    return spec


def end_job(server: Server, condition: str) -> None:
    """Its controller says that it has ended."""
    job = server.cluster.find("Job")
    assert job is not None
    job["status"] = {"conditions": [{"type": condition, "status": "True"}]}
    server.watch()


@pytest.mark.parametrize("exit_code", [0, 7])
async def test_job_is_ended_when_its_run_has_failed_and_its_controller_may_start_another_pod(exit_code: int) -> None:
    """A pod that is disrupted before the controller has counted its failure does not use up a retry."""
    server, run = Server(FakeCluster()), make_run()
    uid = await start_job(server, run=run, exit_code=exit_code)
    assert await server.steps.settle(run, uid)
    ended = {"backoffLimit": 0, "activeDeadlineSeconds": 0}
    assert (find_job_spec(server).items() >= ended.items()) is (exit_code == 7)
    server.client.requests.clear()
    end_job(server, "Failed" if exit_code else "Complete")
    assert await server.steps.settle(run, uid)
    assert list_requests(server, "Job") == []


@pytest.mark.parametrize("exit_code", [0, 7])
async def test_suspended_job_is_ended_when_its_run_was_stopped_after_a_pod_had_ended(exit_code: int) -> None:
    """Suspended it would never end: no TTL would delete it, and a release that comes late would start it again."""
    server, run = Server(FakeCluster()), make_run(backoff_limit=3)
    uid = await start_job(server, run=run, exit_code=exit_code)
    pod = read_view(PodView, make_ended_pod(exit_code, run_uid=run.run_uid))
    server.cluster.remove("Pod", pod.metadata.name)
    drop(server.cache, server.cache.pods, pod)
    await server.steps.stop(renew(run, 2), uid)
    assert find_job_spec(server)["suspend"]
    server.watch()
    assert await server.steps.settle(renew(run, 2), uid)
    ended = {"suspend": False, "backoffLimit": 0, "activeDeadlineSeconds": 0}
    assert find_job_spec(server).items() >= ended.items()


async def test_job_keeps_a_pod_that_took_the_place_of_another_until_its_output_is_read() -> None:
    """A Job that is ended deletes its pods, with their output."""
    server, run = Server(FakeCluster()), make_run()
    uid = await start_job(server, run=run, exit_code=7)
    server.client.requests.clear()
    await create_pod(server, make_pod_body(run.run_uid, "b", created="2026-01-01T00:00:09Z"))
    assert not await server.steps.settle(run, uid)
    assert list_requests(server, "Job") == []


@pytest.mark.parametrize("is_gone", [False, True])
async def test_job_is_settled_only_once_it_has_ended_when_a_pod_of_it_was_disrupted(is_gone: bool) -> None:
    server, run = Server(FakeCluster()), make_run()
    uid = await start_job(server, run=run, exit_code=7)
    disrupted = make_pod_body(run.run_uid, "b", created="2026-01-01T00:00:09Z")
    condition = {"type": "DisruptionTarget", "status": "True"}
    disrupted = {**disrupted, "status": {"phase": "Failed", "conditions": [condition]}}
    if is_gone:
        pod = read_view(PodView, disrupted)
        put(server.cache, server.cache.pods, pod)
        drop(server.cache, server.cache.pods, pod)
    else:
        await create_pod(server, disrupted)
    assert not await server.steps.settle(run, uid)
    assert find_job_spec(server)["activeDeadlineSeconds"] == 0
    end_job(server, "Failed")
    assert await server.steps.settle(run, uid)


@pytest.mark.parametrize("choose", [use_same, use_restarted], ids=["same process", "another replica"])
async def test_nothing_is_left_when_a_failed_service_is_settled(choose: Callable[[Server], Server]) -> None:
    cluster = FakeCluster()
    server, run = Server(cluster), make_service()
    uid = await stop_running(server, run)
    assert await choose(server).steps.settle(fail(run, 2), uid)
    assert cluster.objects == {}


async def test_service_that_never_ran_is_deleted_when_it_has_failed() -> None:
    cluster = FakeCluster()
    server, run = Server(cluster), make_service()
    uid = await server.steps.ensure_anchor(run)
    await server.steps.stop(fail(run, 2), uid)
    assert await server.steps.settle(fail(run, 2), uid)
    assert cluster.objects == {}


async def test_failed_service_stays_when_it_is_changed_between_the_look_and_the_deletion() -> None:
    cluster = FakeCluster()
    server, run = Server(cluster), make_service()
    uid = await stop_running(server, run)
    server.client.freeze_at("DELETE Deployment")
    settling = asyncio.create_task(server.steps.settle(fail(run, 2), uid))
    await server.client.reached.wait()
    anchor = cluster.find("Deployment")
    assert anchor is not None
    cluster.store({**anchor, "status": {"observedGeneration": 9}}, known=anchor)
    server.client.thawed.set()
    assert not await settling
    assert cluster.find("Deployment") is not None
    server.watch()
    assert await server.steps.settle(fail(run, 2), uid)
    assert cluster.objects == {}
