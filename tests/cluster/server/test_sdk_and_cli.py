"""The golden paths by `runyard` and by the SDK, with pods of a real cluster."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import runyard as ry
from testbed.cluster import Cluster
from tests.cluster.server.python_core import USER, run_python_core
from tests.core_process import CoreProcess
from tests.golden_paths import (
    SECONDS,
    Place,
    follow_a_log,
    follow_jobs,
    keep_what_a_secret_wrote,
    serve_a_trained_model,
    wait_until_gone,
)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def core(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    namespace = f"sdk-and-cli-{uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", namespace)
    try:
        cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
        with run_python_core(cluster, namespace, tmp_path_factory.mktemp("core")) as running:
            yield running
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def place(core: CoreProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("NO_PROXY", "*")
    name, password = USER
    environment = {"RUNYARD_ENDPOINT": core.url, "RUNYARD_USER": name, "RUNYARD_PASSWORD": password}
    with ry.Client(core.url, user=name, password=password) as client:
        more = {"fs_group": 1000}
        yield Place(client=client, environment=environment, folder=tmp_path, more=more)


def test_outcome_is_the_exit_code_when_a_job_ends_in_its_pod(place: Place) -> None:
    follow_jobs(place)


def test_every_line_of_a_pod_is_followed_when_a_run_is_stopped(place: Place) -> None:
    follow_a_log(place)


def test_model_of_a_pod_is_served_by_another_when_it_was_logged(place: Place) -> None:
    serve_a_trained_model(place)


def test_volume_has_what_a_pod_wrote_when_a_later_one_reads_it(place: Place) -> None:
    keep_what_a_secret_wrote(place)


def test_deployment_of_an_image_is_stopped_and_resumed_when_asked(place: Place) -> None:
    place.get_project()
    said = place.succeed("run", "--image", "busybox:1.36", "--yes", "--", "echo", "hello from a container")
    assert said.out == "hello from a container\n"
    words = ("--action", "deploy", "--yes", "--detach", "--", "sh", "-c", "trap 'exit 0' TERM; sleep 600 & wait")
    deployed = place.succeed("run", "--image", "busybox:1.36", *words).out.strip()
    place.succeed("wait", deployed, "--timeout", "90s")
    assert place.get_run(deployed).state == "RUNNING"
    place.succeed("stop", deployed, "--yes")
    assert place.get_run(deployed).state == "STOPPED"
    place.succeed("resume", deployed)
    place.succeed("wait", deployed, "--timeout", "90s")
    place.get_run(deployed).stop().wait(until="end", timeout=SECONDS)
    place.succeed("rm", deployed, "--yes")
    wait_until_gone(place, deployed)
