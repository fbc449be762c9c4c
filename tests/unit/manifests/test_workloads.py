"""Jobs and Deployments."""

from dataclasses import replace

import pytest

from runyard.manifests.render import render_anchor
from tests.unit.manifests.object_views import get_workload, render
from tests.unit.manifests.samples import IDENTITY, SPECS, claim, make_spec, make_volume

TIMES = SPECS["job with times"]


def test_job_never_retries_and_has_no_end_when_nothing_is_said() -> None:
    job = get_workload(render(make_spec()))
    assert (job["apiVersion"], job["kind"], job["metadata"]["name"]) == ("batch/v1", "Job", "run-r1-bb82030dbc2bcab")
    template = job["spec"].pop("template")
    assert template["spec"]["restartPolicy"] == "Never"
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert job["spec"] == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [rule]},
    }


def test_job_has_deadline_ttl_and_retries_when_they_are_given() -> None:
    job = get_workload(render(TIMES))
    assert job["spec"]["backoffLimit"] == 3
    assert job["spec"]["activeDeadlineSeconds"] == 3600
    assert job["spec"]["ttlSecondsAfterFinished"] == 60
    assert job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 0
    assert job["metadata"]["annotations"] == {"runyard.io/pending-timeout": "90"}


def test_anchor_is_a_suspended_job_without_ttl_when_the_run_is_a_job() -> None:
    anchor, job = render_anchor(TIMES, IDENTITY), get_workload(render(TIMES))
    assert "suspend" not in job["spec"]
    assert anchor["spec"].pop("suspend") is True
    assert anchor["metadata"].pop("annotations") == {
        **job["metadata"].pop("annotations"),
        "runyard.io/generation": "1",
        "runyard.io/wish": "hold",
        "runyard.io/timeout": "3600",
        "runyard.io/ttl": "60",
    }
    del job["spec"]["ttlSecondsAfterFinished"]
    del anchor["spec"]["activeDeadlineSeconds"], job["spec"]["activeDeadlineSeconds"]
    assert anchor == job


@pytest.mark.parametrize(("grace", "deadline"), [(None, 3600 + 30 + 3600), (0, 3600 + 3600), (600, 3600 + 600 + 3600)])
def test_anchors_own_deadline_is_a_late_backstop_when_the_run_has_a_timeout(grace: int | None, deadline: int) -> None:
    spec = make_spec(timeout_seconds=3600, grace_period_seconds=grace)
    assert render_anchor(spec, IDENTITY)["spec"]["activeDeadlineSeconds"] == deadline
    assert get_workload(render(spec))["spec"]["activeDeadlineSeconds"] == 3600


def test_anchor_has_no_deadline_when_the_run_has_no_timeout() -> None:
    anchor = render_anchor(make_spec(), IDENTITY)
    assert "activeDeadlineSeconds" not in anchor["spec"]
    assert anchor["metadata"]["annotations"] == {"runyard.io/generation": "1", "runyard.io/wish": "hold"}


@pytest.mark.parametrize(("disruptions", "is_ignored"), [(None, True), ("ignore", True), ("count", False)])
def test_disruptions_use_up_no_retry_when_they_are_not_counted(disruptions: str | None, is_ignored: bool) -> None:
    job = get_workload(render(make_spec(disruptions=disruptions, backoff_limit=2)))
    assert ("podFailurePolicy" in job["spec"]) is is_ignored


@pytest.mark.parametrize("replicas", [0, 3])
def test_held_service_is_told_from_one_without_replicas_when_both_have_none(replicas: int) -> None:
    anchor = render_anchor(make_spec(action="serve", replicas=replicas), replace(IDENTITY, generation=7))
    assert anchor["spec"]["replicas"] == 0
    assert anchor["metadata"]["annotations"] == {
        "runyard.io/generation": "7",
        "runyard.io/wish": "hold",
        "runyard.io/replicas": str(replicas),
    }
    assert "annotations" not in anchor["spec"]["template"]["metadata"]


@pytest.mark.parametrize("action", ["serve", "deploy"])
def test_anchor_is_a_deployment_of_no_replicas_when_the_run_stays(action: str) -> None:
    spec = make_spec(action=action, replicas=3)
    anchor, deployment = render_anchor(spec, IDENTITY), get_workload(render(spec))
    assert (anchor["spec"].pop("replicas"), deployment["spec"].pop("replicas")) == (0, 3)
    del anchor["metadata"]["annotations"]
    assert anchor == deployment


def test_deployment_has_one_replica_and_no_history_when_nothing_is_said() -> None:
    deployment = get_workload(render(make_spec(action="deploy")))
    assert (deployment["apiVersion"], deployment["metadata"]["name"]) == ("apps/v1", "run-r1-bb82030dbc2bcab")
    template = deployment["spec"].pop("template")
    assert template["spec"]["restartPolicy"] == "Always"
    assert deployment["spec"] == {
        "replicas": 1,
        "selector": {"matchLabels": {"runyard.io/installation": "local", "runyard.io/run-uid": "u1"}},
        "strategy": {"type": "RollingUpdate"},
        "revisionHistoryLimit": 0,
    }
    assert deployment["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_deployment_keeps_zero_replicas_when_they_are_asked_for() -> None:
    assert get_workload(render(make_spec(action="deploy", replicas=0)))["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    "volume", [claim(), claim(lifetime="keep"), make_volume("shared_volume", claim_name="c")], ids=lambda v: v.type
)
def test_deployment_is_recreated_when_a_claim_is_mounted(volume: object) -> None:
    deployment = get_workload(render(make_spec(action="serve", volumes=[volume])))
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def test_deployment_rolls_when_its_volumes_are_the_pods_own() -> None:
    volumes = [make_volume("ephemeral", size="1Gi"), make_volume("empty_dir", name="e", mount_path="/e")]
    deployment = get_workload(render(make_spec(action="serve", volumes=volumes)))
    assert deployment["spec"]["strategy"] == {"type": "RollingUpdate"}


def test_deployment_has_a_progress_deadline_when_a_pending_timeout_is_given() -> None:
    deployment = get_workload(render(make_spec(action="serve", pending_timeout_seconds=90)))
    assert deployment["spec"]["progressDeadlineSeconds"] == 90
    assert deployment["metadata"]["annotations"] == {"runyard.io/pending-timeout": "90"}
    none = get_workload(render(make_spec(action="serve", pending_timeout_seconds=0)))
    assert "progressDeadlineSeconds" not in none["spec"]
    assert none["metadata"]["annotations"] == {"runyard.io/pending-timeout": "0"}


def test_jobs_only_fields_are_absent_when_the_run_is_a_deployment() -> None:
    spec = make_spec(action="deploy", timeout_seconds=5, ttl_seconds=6, backoff_limit=7)
    deployment = get_workload(render(spec))["spec"]
    assert (
        not {"activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit", "suspend", "podFailurePolicy"}
        & deployment.keys()
    )
