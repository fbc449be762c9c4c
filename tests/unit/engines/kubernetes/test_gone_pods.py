"""Deleted pods: how many are kept, of which runs, and what they weigh."""

import gc
import tracemalloc
from typing import Any

import pytest

from runyard.app.engine import LogSource
from runyard.engines.kubernetes import gone_pods
from runyard.engines.kubernetes.gone_pods import MOST_GONE_PODS, GonePods
from runyard.engines.kubernetes.log_gaps import Cause, explain_removal
from runyard.engines.kubernetes.log_sources import find_span, has_ended, is_never_restarted, list_sources
from runyard.engines.kubernetes.run_objects import GonePod
from runyard.engines.kubernetes.views import PodView
from tests.unit.engines.kubernetes.logs.played_pods import RUN, ended, make_pod

POD_BYTES = 3 * 1024
LONG = 100_000 * "m"
SPEC = {"restartPolicy": "Never", "containers": [{"name": "main", "image": LONG}]}


def make_long_pod(number: int) -> PodView:
    """An evicted pod, with messages as long as an apiserver takes."""
    status: dict[str, Any] = ended()
    status["state"]["terminated"] |= {"message": LONG, "exitCode": 3}
    status["lastState"] = {"waiting": {"message": LONG}}
    conditions = [{"type": kind, "status": "True", "message": LONG} for kind in ("Ready", "PodScheduled")]
    return make_pod(
        status,
        name=f"pod-{number:03}",
        spec=SPEC,
        phase="Failed",
        reason="Evicted",
        message=LONG,
        conditions=conditions,
    )


def lose(pods: GonePods, run_key: str, count: int) -> None:
    """So many pods live at once, and are deleted one after the other."""
    pods.note_living(run_key, count)
    for number in range(count):
        pods.add(run_key, GonePod(make_pod(ended(), name=f"pod-{number:03}"), is_final=True))


def test_newest_are_kept_when_a_run_loses_more_pods_than_it_had_at_once() -> None:
    pods = GonePods()
    lose(pods, "u1", 30)
    lose(pods, "u1", 30)
    pods.note_living("u1", 1)
    assert [gone.pod.metadata.name for gone in pods.list("u1")] == [f"pod-{number:03}" for number in range(30)]
    pods.forget("u1")
    assert pods.list("u1") == ()
    lose(pods, "u1", MOST_GONE_PODS)
    lose(pods, "u1", 1)
    assert len(pods.list("u1")) == MOST_GONE_PODS


def test_runs_that_lost_theirs_first_keep_fewer_when_all_together_have_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gone_pods, "MOST_EXTRA_GONE_PODS", 50)
    pods = GonePods()
    for run_key in ("a", "b", "c"):
        lose(pods, run_key, MOST_GONE_PODS + 20)
    assert [len(pods.list(run_key)) for run_key in ("a", "b", "c")] == [MOST_GONE_PODS] + 2 * [MOST_GONE_PODS + 20]


def test_output_and_cause_are_known_when_a_pod_is_kept_without_its_messages() -> None:
    pods = GonePods()
    pods.note_living("u1", 30)
    whole = [make_long_pod(number) for number in range(30)]
    for pod in whole:
        pods.add("u1", GonePod(pod, is_final=False))
    kept = pods.list("u1")
    assert [gone.pod for gone in kept[10:]] == whole[10:]
    assert all(not gone.is_final for gone in kept)
    assert list_sources(RUN, [], kept) == list_sources(RUN, [], [GonePod(pod, is_final=False) for pod in whole])
    source = LogSource(run_uid=RUN, pod="pod-000", container="main")
    for read in (find_span, has_ended, is_never_restarted):
        assert read(kept[0].pod, source) == read(whole[0], source)
    assert explain_removal(kept[0].pod, Cause.DELETED) is Cause.EVICTED


def test_memory_of_a_kept_pod_is_small_when_its_messages_were_long() -> None:
    count, pods = 300, GonePods()
    pods.note_living("u1", count)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            pods.add("u1", GonePod(make_long_pod(number), is_final=True))
        for number in range(count, count + MOST_GONE_PODS):  # push the whole ones out by small ones
            pods.add("u1", GonePod(make_pod(name=f"pod-{number:03}"), is_final=True))
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used / count <= POD_BYTES, f"{used / count:.0f} bytes per pod"
