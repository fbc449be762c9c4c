"""`make demo-cluster`: the demo on real pods does what it says, and leaves nothing in the cluster or on the machine."""

import re
from pathlib import Path

import pytest

from testbed.cluster import Cluster
from tests.e2e.test_demo import assert_nothing_is_left, start_demo

pytestmark = pytest.mark.kubernetes
LONGEST_SECONDS = 500.0
"""About 50 s on an idle machine; the cluster is shared with other tests."""


@pytest.fixture(scope="module")
def told(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints when nothing disturbs it."""
    folder = tmp_path_factory.mktemp("told")
    with start_demo(folder, "--cluster", cluster.name) as demo:
        printed = demo.communicate(timeout=LONGEST_SECONDS)[0]
    assert demo.returncode == 0, printed[-3000:]
    assert_nothing_is_left(folder)
    return printed


def get_step(told: str, title: str) -> str:
    (step,) = re.findall(rf"== {title}.*?(?=\n== )", told, re.DOTALL)
    return str(step)


@pytest.mark.timeout(LONGEST_SECONDS + 60)
def test_model_is_trained_and_served_by_pods_when_the_demo_runs(told: str) -> None:
    trained = get_step(told, "Train a model")
    assert "    result  accuracy 0.9583\n" in trained
    assert "    loss 0.338 0.267 0.235 0.217 0.205 0.197 0.191 0.186 0.183 0.180\n" in trained
    served = get_step(told, "Serve the model")
    address = re.search(r"^    url     (run-predict-1-\w+\.runyard-demo-\w+:8080)$", served, re.MULTILINE)
    assert address is not None
    assert f"    {address[1]} answers {{'state': 'failing', 'probability': 0.9978}}\n" in served


def test_profile_wins_and_typos_are_refused_when_the_demo_runs(told: str) -> None:
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert "resources.mem.requests 256Mi profile small instead of 6Gi (you)" in lines
    assert any(line.startswith("spec.profile: ") and line.endswith("did you mean: small") for line in lines)


def test_advice_works_when_a_pod_of_the_demo_ran_out_of_memory(told: str) -> None:
    step = get_step(told, "A run that needs more memory")
    assert "    ERROR  memory.exceeded\n" in step
    advice = re.search(r"its limit is about 70.4Mi; try resources.mem: (\w+)\n", step)
    assert advice is not None
    assert f'"resources": {{"mem": "{advice[1]}"}}' in step
    assert "    result  distance 0.000379\n" in step
    assert re.search(r"^    run-nearest-\d-\w+ +Complete +1/1 .* nearest-\d$", step, re.MULTILINE)


def test_run_is_stopped_and_policy_rehearsed_when_the_demo_runs(told: str) -> None:
    stopped = get_step(told, "Stop a run")
    assert re.search(r"^    stopped after \d+ guesses; the best is off by ", stopped, re.MULTILINE)
    assert "    STOPPED  user.stop\n" in stopped
    assert re.search(r"^    1 refused, \d changed$", get_step(told, "Rehearse a stricter policy"), re.MULTILINE)


def test_commands_are_executed_as_printed_and_no_password_is_shown_when_the_demo_runs(
    told: str, cluster: Cluster
) -> None:
    (folder,) = set(re.findall(r"--data (\S+/runyard-demo-\w+)/data", told))
    commands = [line.removeprefix("  $ ") for line in told.splitlines() if line.startswith("  $ ")]
    created = f"runyard user create ada --admin --password-stdin --data {folder}/data < {folder}/password"
    assert created in commands
    assert any(each.startswith(f"python -m testbed load-image --name {cluster.name} /") for each in commands)
    (defined,) = [each for each in commands if each.startswith("api() {")]
    assert f"--netrc-file {folder}/netrc " in defined
    assert not any(word in told for word in ("podman build", "--user ", "ada:"))


def test_namespace_is_gone_when_the_demo_has_ended(told: str, cluster: Cluster) -> None:
    (namespace,) = set(re.findall(r"kubectl create namespace (runyard-demo-\w+)", told))
    assert namespace not in cluster.kubectl("get", "namespaces", "-o", "name")
    assert told.rstrip().endswith("Every process has ended, and no file is left.")


def test_demo_fails_with_a_sentence_when_the_folder_to_stop_is_not_one(tmp_path: Path) -> None:
    with start_demo(tmp_path, "--cluster", "x", "--stop", str(tmp_path)) as demo:
        printed = demo.communicate(timeout=60)[0]
    assert demo.returncode == 1
    assert f"{tmp_path} is not the folder of a demo that was kept" in printed
