"""Jobs and Deployments."""

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
    assert job["spec"] == {"completions": 1, "parallelism": 1, "backoffLimit": 0, "podReplacementPolicy": "Failed"}


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
    del job["spec"]["ttlSecondsAfterFinished"]
    assert anchor == job


@pytest.mark.parametrize("action", ["serve", "deploy"])
def test_anchor_is_a_deployment_of_no_replicas_when_the_run_stays(action: str) -> None:
    spec = make_spec(action=action, replicas=3)
    anchor, deployment = render_anchor(spec, IDENTITY), get_workload(render(spec))
    assert (anchor["spec"].pop("replicas"), deployment["spec"].pop("replicas")) == (0, 3)
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
    assert not {"activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit", "suspend"} & deployment.keys()
