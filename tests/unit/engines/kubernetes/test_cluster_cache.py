"""The cache: objects by run, what is remembered of those that are gone, version and epoch, and what it all weighs."""

import gc
import json
import tracemalloc
from typing import Any, cast

import msgspec
import pytest

from runyard.engines.kubernetes import cluster_cache
from runyard.engines.kubernetes.cluster_cache import (
    MOST_GONE_RUNS,
    MOST_PODS,
    MOST_RUN_EVENTS,
    ClusterCache,
)
from runyard.engines.kubernetes.gone_pods import MOST_GONE_PODS
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings, Watermark
from runyard.engines.kubernetes.run_objects import get_run_uid
from runyard.engines.kubernetes.views import (
    LONGEST_EVENT_BYTES,
    DeploymentView,
    EventView,
    JobView,
    NodeView,
    PodView,
    read_view,
)
from runyard.engines.kubernetes.watched_resource import WatchedResource
from runyard.kube import Client, Transport
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import to_label_value
from runyard.manifests.names import run_name

NAMESPACE = "runs"
RUN_BYTES = 4 * 1024
"""What the cache may keep of a run with one pod. The whole server has 20 KB for it."""


def make_cache(watermark: Watermark | None = None, *, namespace: str | None = NAMESPACE) -> ClusterCache:
    """A cache whose reflectors do not run: tests put objects into their stores."""
    client = Client(cast("Transport", object()))
    settings = KubernetesSettings(installation="here", namespace=namespace, watermark=watermark or Watermark())
    return ClusterCache(client, settings, has_nodes=True)


def make_job(
    run_uid: str,
    *,
    uid: str = "job-1",
    version: int = 10,
    name: str | None = None,
    namespace: str = NAMESPACE,
    wish: str = "run",
    **more: Any,
) -> JobView:
    """The anchor of a run."""
    identity = RunIdentity(run_id="r1", run_uid=run_uid, project="p")
    annotations = {"runyard.io/generation": "1", "runyard.io/wish": wish}
    if to_label_value(run_uid) != run_uid:
        annotations["runyard.io/run-uid"] = run_uid
    metadata = {
        "name": name or run_name(identity),
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": make_labels(run_uid),
        "annotations": annotations,
    }
    return read_view(JobView, {"metadata": metadata, **more})


def make_labels(run_uid: str) -> dict[str, str]:
    return {
        "runyard.io/run-uid": to_label_value(run_uid),
        "runyard.io/run": "r1",
        "runyard.io/project": "p",
        "runyard.io/action": "job",
    }


def make_pod(run_uid: str, name: str, *, uid: str | None = None, created: str = "2026-01-01T00:00:01Z") -> PodView:
    return read_view(PodView, make_pod_body(run_uid, name, uid=uid, created=created))


def make_pod_body(run_uid: str, name: str, *, uid: str | None = None, created: str) -> dict[str, Any]:
    """A pod with one container, as a kubelet reports it."""
    condition = {"status": "True", "lastTransitionTime": created}
    names = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid or f"uid of {name}",
            "resourceVersion": "11",
            "creationTimestamp": created,
            "labels": make_labels(run_uid),
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.org/team/trainer:1.0",
                    "resources": {"limits": {"memory": "2Gi", "cpu": "1"}, "requests": {"memory": "1Gi"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "hostIP": "10.0.0.1",
            "startTime": created,
            "conditions": [{"type": each, **condition} for each in names],
            "containerStatuses": [
                {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": created}}}
            ],
        },
    }


def restart(pod: PodView, times: int) -> PodView:
    """The same pod, whose container ended that often, the last time with that number as its exit code."""
    body = json.loads(msgspec.json.encode(pod))
    body["status"]["containerStatuses"] = [
        {
            "name": "main",
            "restartCount": times,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": times}},
        }
    ]
    body["metadata"]["resourceVersion"] = str(20 + times)
    return read_view(PodView, body)


def make_event(number: int, *, kind: str, name: str, uid: str, message: str = "no") -> EventView:
    metadata = {"name": f"event-{number}", "namespace": NAMESPACE, "uid": f"event-{number}"}
    metadata["resourceVersion"] = str(9 + number)
    involved = {"kind": kind, "name": name, "uid": uid}
    at = f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z"
    body = {
        "metadata": metadata,
        "involvedObject": involved,
        "type": "Warning",
        "message": message,
        "lastTimestamp": at,
    }
    return read_view(EventView, body)


def put(cache: ClusterCache, watched: WatchedResource[Any], *views: Any) -> set[str]:
    """Let the watch show objects; returns the keys of the runs that changed."""
    changed: set[str] = set()
    for view in views:
        watched.reflector._store.upsert(view)
        changed.update(cache._take_changed(view))
    return changed


def drop(cache: ClusterCache, watched: WatchedResource[Any], view: Any) -> set[str]:
    """Let the watch show that an object is gone."""
    watched.reflector._store.remove(view)
    return set(cache._take_deleted(view, is_final=True))


def reach(cache: ClusterCache, watched: WatchedResource[Any], version: int) -> None:
    """Let the watch come so far."""
    watched.reflector._resource_version = str(version)
    cache._reach(watched)


def list_run_uids(cache: ClusterCache) -> list[str]:
    """The runs that have an anchor."""
    return [get_run_uid(anchor) for anchor in cache.iter_anchors()]


def test_objects_are_found_by_their_run_when_several_have_some() -> None:
    cache = make_cache()
    assert put(cache, cache.jobs, make_job("u1"), make_job("u2", uid="job-2")) == {"u1", "u2"}
    put(
        cache, cache.pods, make_pod("u1", "b", created="2026-01-01T00:00:09Z"), make_pod("u1", "a"), make_pod("u2", "c")
    )
    found = cache.find("u1")
    assert found is not None
    assert found.anchor.metadata.uid == "job-1"
    assert [pod.metadata.name for pod in found.pods] == ["a", "b"]
    assert cache.find("u3") is None
    assert sorted(list_run_uids(cache)) == ["u1", "u2"]


def test_run_is_found_by_its_exact_uid_when_its_label_is_a_hash() -> None:
    cache, run_uid = make_cache(), "a run of old: its id is its uid"
    put(cache, cache.jobs, make_job(run_uid))
    assert cache.find(run_uid) is not None
    assert list_run_uids(cache) == [run_uid]


def test_copy_of_an_anchor_is_none_when_it_has_another_name() -> None:
    cache = make_cache()
    assert put(cache, cache.jobs, make_job("u1", name="a-copy")) == set()
    assert cache.find("u1") is None
    assert list_run_uids(cache) == []


def test_anchor_does_not_count_when_it_is_outside_the_namespace_of_its_project() -> None:
    cache = make_cache(namespace=None)
    assert put(cache, cache.jobs, make_job("u1")) == set()
    assert cache.find("u1") is None
    assert put(cache, cache.jobs, make_job("u2", namespace="runyard-p")) == {"u2"}
    assert list_run_uids(cache) == ["u2"]


def test_pods_of_an_earlier_anchor_do_not_count_when_a_run_has_a_new_one() -> None:
    cache = make_cache()
    put(cache, cache.jobs, make_job("u1"))
    put(cache, cache.pods, make_pod("u1", "older", created="2025-12-31T23:59:59Z"), make_pod("u1", "own"))
    found = cache.find("u1")
    assert found is not None
    assert [pod.metadata.name for pod in found.pods] == ["own"]


def test_newest_pods_are_kept_when_a_run_has_too_many() -> None:
    cache = make_cache()
    put(cache, cache.pods, *(make_pod("u1", f"pod-{number:05}") for number in range(MOST_PODS + 3)))
    listed = cache.list_pods("u1")
    assert (len(listed), listed[-1].metadata.name) == (MOST_PODS, f"pod-{MOST_PODS + 2:05}")


def test_deleted_pods_are_remembered_when_their_run_is_known() -> None:
    cache = make_cache()
    put(cache, cache.jobs, make_job("u1"))
    pods = [make_pod("u1", f"pod-{number:03}") for number in range(MOST_GONE_PODS + 2)]
    for pod in pods:
        put(cache, cache.pods, pod)
        assert drop(cache, cache.pods, pod) == {"u1"}
    gone = [each.pod.metadata.name for each in cache.list_gone_pods("u1")]
    assert gone == [pod.metadata.name for pod in pods[2:]]
    stray = make_pod("unknown", "stray")
    put(cache, cache.pods, stray)
    drop(cache, cache.pods, stray)
    assert cache.list_gone_pods("unknown") == ()


def test_all_deleted_pods_are_remembered_when_many_went_at_once() -> None:
    cache = make_cache()
    put(cache, cache.jobs, make_job("u1"))
    pods = [make_pod("u1", f"pod-{number:03}") for number in range(50)]
    put(cache, cache.pods, *pods)
    for pod in pods:
        drop(cache, cache.pods, pod)
    gone = [each.pod.metadata.name for each in cache.list_gone_pods("u1")]
    assert gone == [pod.metadata.name for pod in pods]


def test_pods_and_ends_are_remembered_when_their_anchor_is_gone_and_forgotten_when_there_is_a_new_one() -> None:
    cache = make_cache()
    job, pod = make_job("u1"), make_pod("u1", "a")
    put(cache, cache.jobs, job)
    put(cache, cache.pods, restart(pod, 1), restart(pod, 2))
    drop(cache, cache.jobs, job)
    drop(cache, cache.pods, restart(pod, 2))
    assert cache.find_gone_anchor("u1") == job
    assert len(cache.list_gone_pods("u1")) == 1
    assert [end.exit_code for end in cache.list_past_ends("u1")] == [1, 2]
    put(cache, cache.jobs, make_job("u1", uid="job-2"))
    assert cache.find_gone_anchor("u1") is None
    assert cache.list_gone_pods("u1") == ()
    assert cache.list_past_ends("u1") == ()


def lose(cache: ClusterCache, number: int) -> None:
    """Let a run and its pod come and go."""
    job, pod = make_job(f"u{number}", uid=f"job-{number}"), make_pod(f"u{number}", f"pod-{number}")
    put(cache, cache.jobs, job)
    put(cache, cache.pods, pod)
    drop(cache, cache.pods, pod)
    drop(cache, cache.jobs, job)


def test_oldest_runs_are_forgotten_when_too_many_are_gone_by_the_word_of_the_cluster() -> None:
    cache = make_cache()
    for number in range(MOST_GONE_RUNS + 1):
        lose(cache, number)
        if number != 1:
            cache.note_absent(f"u{number}", uid=f"job-{number}")
    assert cache.find_gone_anchor("u0") is not None
    lose(cache, MOST_GONE_RUNS + 1)
    cache.note_absent(f"u{MOST_GONE_RUNS + 1}", uid="another")
    assert cache.find_gone_anchor("u0") is not None
    cache.note_absent(f"u{MOST_GONE_RUNS + 1}", uid=f"job-{MOST_GONE_RUNS + 1}")
    assert (cache.find_gone_anchor("u0"), cache.list_gone_pods("u0")) == (None, ())
    # The cluster was not asked about it yet.
    assert cache.find_gone_anchor("u1") is not None
    assert len(cache.list_gone_pods("u1")) == 1


def test_runs_are_bounded_when_the_cluster_cannot_be_asked_about_those_that_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_cache, "MOST_UNCONFIRMED_RUNS", 20)
    cache = make_cache()
    for number in range(22):
        lose(cache, number)
    assert [cache.find_gone_anchor(f"u{number}") is None for number in range(4)] == [True, True, False, False]
    assert (cache.list_gone_pods("u1"), len(cache._gone_anchors)) == ((), 20)


def test_each_instance_is_remembered_when_a_container_restarts_many_times() -> None:
    cache = make_cache()
    put(cache, cache.jobs, make_job("u1"))
    for times in range(1, 61):
        put(cache, cache.pods, restart(make_pod("u1", "a"), times))
    found = cache.find("u1")
    assert found is not None
    assert [end.exit_code for end in found.past_ends] == list(range(11, 61))


def test_own_write_is_seen_when_the_watch_does_not_show_it_yet() -> None:
    cache = make_cache()
    cache.note_written(make_job("u1", version=10))
    assert cache.find("u1") is not None
    assert cache.version == 10
    put(cache, cache.jobs, make_job("u1", version=8))
    found = cache.find_anchor("u1")
    assert found is not None
    assert found.metadata.resource_version == "10"
    put(cache, cache.jobs, make_job("u1", version=12))
    found = cache.find_anchor("u1")
    assert found is not None
    assert found.metadata.resource_version == "12"


def test_own_write_is_not_believed_when_the_watch_has_shown_its_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = make_cache()
    cache.note_written(make_job("u1", version=10))
    put(cache, cache.jobs, make_job("u1", version=9))
    drop(cache, cache.jobs, make_job("u1", version=11))
    assert cache.find("u1") is None
    cache.note_written(make_job("u2", uid="job-2"))
    later = 1e9
    monkeypatch.setattr("runyard.engines.kubernetes.cluster_cache.time.monotonic", lambda: later)
    assert cache.find("u2") is None


def test_events_are_those_of_the_run_when_they_are_about_its_objects() -> None:
    cache = make_cache()
    put(cache, cache.jobs, make_job("u1"))
    pod = f"{make_job('u1').metadata.name}-abcde"
    put(cache, cache.pods, make_pod("u1", pod))
    about_pod = [make_event(number, kind="Pod", name=pod, uid=f"uid of {pod}") for number in range(MOST_RUN_EVENTS + 5)]
    assert put(cache, cache.events, *about_pod) == {"u1"}
    assert put(cache, cache.events, make_event(900, kind="Pod", name="other", uid="x")) == set()
    found = cache.find("u1")
    assert found is not None
    assert found.events == tuple(about_pod[5:])
    assert len(cache.events.store) == MOST_RUN_EVENTS


def test_warnings_of_strangers_take_no_memory_when_the_cluster_has_many() -> None:
    cache = make_cache()
    kinds = ("Pod", "Node", "Job", "Deployment", "PersistentVolumeClaim")
    names = ("web-7c9c4b8c99-nrzm4", "run-away-job", "runner-0", "run-r1-0123456789abcd-x", "node-1")
    for number in range(2000):
        kind, name = kinds[number % len(kinds)], names[number // len(kinds) % len(names)]
        put(cache, cache.events, make_event(number, kind=kind, name=name, uid=f"uid-{number}"))
    put(cache, cache.events, make_event(1, kind="Node", name=make_job("u1").metadata.name, uid="n"))
    put(cache, cache.events, make_event(2, kind="Job", name=make_job("u1").metadata.name, uid=""))
    assert len(cache.events.store) == 0


def test_memory_of_warnings_is_bounded_when_somebody_writes_them_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 300
    monkeypatch.setattr(cluster_cache, "MOST_EVENTS", most)
    cache = make_cache()
    jobs = [make_job(f"u{number}").metadata.name for number in range(40)]
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(3000):
            job = jobs[number % len(jobs)]
            put(cache, cache.events, make_event(number, kind="Job", name=job, uid=job, message="x" * 5000))
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(cache.events.store) == most
    assert used / most <= LONGEST_EVENT_BYTES + 2048, f"{used / most:.0f} bytes per warning"


def test_newest_warnings_of_each_run_are_kept_when_all_are_listed_anew() -> None:
    store = make_cache().events.reflector._store
    jobs = [make_job(f"u{number}").metadata.name for number in range(2)]
    events = [make_event(number, kind="Job", name=jobs[number % 2], uid=jobs[number % 2]) for number in range(3000)]
    staged: dict[Any, EventView] = {}
    for event in reversed(events):
        store.stage(staged, event)
    store.replace(staged)
    kept = sorted(store.views(), key=lambda event: int(event.metadata.resource_version))
    assert kept == events[-2 * MOST_RUN_EVENTS :]


def test_refusal_of_a_replica_set_is_seen_when_it_is_of_the_deployment_of_a_run() -> None:
    cache = make_cache()
    body = json.loads(msgspec.json.encode(make_job("u1")))
    deployment = read_view(DeploymentView, {"metadata": body["metadata"]})
    put(cache, cache.deployments, deployment)
    event = make_event(1, kind="ReplicaSet", name=f"{deployment.metadata.name}-5d9c7b", uid="rs")
    assert put(cache, cache.events, event) == {"u1"}
    found = cache.find("u1")
    assert found is not None
    assert found.events == (event,)


def test_message_of_an_event_is_cut_when_somebody_wrote_a_long_one() -> None:
    event = make_event(1, kind="Pod", name="a", uid="x", message="é" * 100_000)
    assert len(event.message.encode()) <= LONGEST_EVENT_BYTES


def test_runs_on_a_node_are_told_when_it_becomes_unready_and_ready() -> None:
    cache = make_cache()
    assert cache.nodes is not None
    put(cache, cache.jobs, make_job("u1"))
    put(cache, cache.pods, make_pod("u1", "a"))

    def make_node(status: str, since: str, version: int) -> NodeView:
        conditions = [{"type": "Ready", "status": status, "lastTransitionTime": since}]
        metadata = {"name": "node-1", "resourceVersion": str(version)}
        return read_view(NodeView, {"metadata": metadata, "status": {"conditions": conditions}})

    assert put(cache, cache.nodes, make_node("True", "t0", 1)) == set()
    assert put(cache, cache.nodes, make_node("Unknown", "t1", 2)) == {"u1"}
    assert put(cache, cache.nodes, make_node("Unknown", "t1", 3)) == set()
    found = cache.find("u1")
    assert found is not None
    assert found.unready_nodes == (("node-1", "t1"),)
    assert put(cache, cache.nodes, make_node("True", "t2", 4)) == {"u1"}


def test_version_is_the_largest_when_watches_have_come_differently_far() -> None:
    cache = make_cache()
    reach(cache, cache.jobs, 100)
    reach(cache, cache.pods, 90)
    assert (cache.epoch, cache.version) == (0, 100)
    reach(cache, cache.pods, 110)
    assert (cache.epoch, cache.version) == (0, 110)


def test_epoch_grows_once_when_all_watches_show_smaller_versions() -> None:
    cache = make_cache()
    for watched in (cache.jobs, cache.pods, cache.services):
        reach(cache, watched, 1000)
    reach(cache, cache.jobs, 500)
    assert (cache.epoch, cache.version) == (1, 500)
    # What the others show is of before the restore, until they are listed again.
    reach(cache, cache.pods, 1001)
    assert (cache.epoch, cache.version) == (1, 500)
    reach(cache, cache.jobs, 520)
    for watched, version in ((cache.pods, 505), (cache.services, 510)):
        watched.reflector.counters.lists += 1
        reach(cache, watched, version)
    assert (cache.epoch, cache.version) == (1, 520)


def test_list_is_not_believed_when_a_kind_was_not_listed_since_a_restore() -> None:
    cache = make_cache()
    for watched in cache._run_kinds:
        watched.reflector._has_synced = True
        reach(cache, watched, 1000)
    believed = [cache.is_current]
    reach(cache, cache.jobs, 500)
    believed.append(cache.is_current)
    for watched in cache._run_kinds:
        watched.reflector.counters.lists += 1
    believed.append(cache.is_current)
    assert believed == [True, False, True]


def test_anchor_as_it_was_written_is_forgotten_when_the_cluster_was_restored() -> None:
    cache = make_cache()
    reach(cache, cache.jobs, 1000)
    written = make_job("u1", version=1001)
    cache.note_written(written)
    assert cache.find_anchor("u1") is written
    reach(cache, cache.jobs, 500)
    assert cache.find_anchor("u1") is None


@pytest.mark.parametrize(("version", "epoch"), [(999, 4), (1000, 3), (5000, 3)])
def test_epoch_grows_when_the_database_has_seen_larger_versions(version: int, epoch: int) -> None:
    cache = make_cache(Watermark(epoch=3, version=1000))
    reach(cache, cache.jobs, version)
    reach(cache, cache.pods, version + 1)
    assert (cache.epoch, cache.version) == (epoch, version + 1)


def test_epoch_stays_when_events_and_nodes_count_for_themselves() -> None:
    cache = make_cache(Watermark(epoch=3, version=1000))
    assert cache.nodes is not None
    for watched, version in ((cache.events, 7), (cache.nodes, 8), (cache.jobs, 1001), (cache.events, 5000)):
        reach(cache, watched, version)
    reach(cache, cache.events, 6)
    assert (cache.epoch, cache.version) == (3, 1001)


@pytest.mark.parametrize(("reached", "is_stale", "expected"), [(9, False, False), (10, False, True), (10, True, False)])
def test_pods_are_gone_when_the_watch_has_come_as_far_as_the_anchor(
    reached: int, is_stale: bool, expected: bool
) -> None:
    cache = make_cache()
    reach(cache, cache.pods, reached)
    if is_stale:
        reach(cache, cache.jobs, 1000)
        reach(cache, cache.jobs, 500)
    assert cache.has_pods_of(make_job("u1", version=10)) is expected


def test_memory_of_a_run_is_small_when_there_are_thousands() -> None:
    count = 2000
    jobs = [msgspec.json.encode(make_job(f"{number:032x}", uid=f"{number:036}")) for number in range(count)]
    created = "2026-01-01T00:00:01Z"
    pods = [
        msgspec.json.encode(make_pod_body(f"{number:032x}", f"run-r1-{number:015x}-abcde", created=created))
        for number in range(count)
    ]
    cache = make_cache()
    gc.collect()
    tracemalloc.start()
    try:
        for job in jobs:
            put(cache, cache.jobs, msgspec.json.decode(job, type=JobView))
        for pod in pods:
            put(cache, cache.pods, msgspec.json.decode(pod, type=PodView))
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(list_run_uids(cache)) == count
    assert used / count <= RUN_BYTES, f"{used / count:.0f} bytes per run"
