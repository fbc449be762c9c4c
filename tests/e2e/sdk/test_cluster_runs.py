"""Each line of the published SDK against a server with the Kubernetes engine: runs are pods of a real cluster.

One server for all lines, which run side by side. The SDK's user is at a machine that resolves names by the cluster's
DNS, as a notebook in the cluster does: only there is the URL of a service of use.
"""

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from testbed.cluster import Cluster
from tests.core_process import call_runyard, run_core
from tests.e2e.sdk.core import Core
from tests.e2e.sdk.driver import Driver
from tests.e2e.sdk.environments import LINES, NoNetworkError, ensure_environment

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(600)]

SCRIPT_SECONDS = 300
"""All lines share the processors with a whole cluster."""
USER = {"DHCORE_USER": "ada", "DHCORE_PASSWORD": "the password of ada"}
RESOLVER = "nameserver {address}\nsearch svc.cluster.local\noptions ndots:5\n"
WITH_RESOLVER = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"')


@pytest.fixture(scope="module")
def core(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    """A server with the Kubernetes engine, and an account."""
    folder: Path = tmp_path_factory.mktemp("core")
    name, password = USER.values()
    data = ("--data", str(folder / "data"))
    done = call_runyard("user", "create", name, "--password-stdin", *data, given=password)
    assert done.code == 0, done.err
    engine = ("--engine", "kubernetes", "--kubeconfig", str(cluster.kubeconfig), "--namespace-per-project")
    with run_core(*engine, "--auth", "accounts", "--max-requests", "100000", folder=folder) as server:
        yield Core(endpoint=server.url, credentials=USER)


@pytest.fixture(scope="module")
def all_seen(
    cluster: Cluster, core: Core, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, dict[str, Any]]]:
    """What a user of each line saw."""
    folder: Path = tmp_path_factory.mktemp("sdk")
    resolver = folder / "resolv.conf"
    resolver.write_text(RESOLVER.format(address=cluster.node_ip))
    try:
        for line in LINES:
            ensure_environment(line)
    except NoNetworkError as error:
        pytest.skip(f"no environments of the SDK: {error}")
    projects = {line: f"sdk-{line.replace('.', '-')}-{secrets.token_hex(3)}" for line in LINES}

    def drive(line: str) -> dict[str, Any]:
        wrapper = (*WITH_RESOLVER, str(resolver))
        driver = Driver(core=core, line=line, folder=folder, wrapper=wrapper, script_seconds=SCRIPT_SECONDS)
        return driver.run("cluster_runs", project=projects[line])

    with ThreadPoolExecutor(len(LINES)) as pool:
        yield dict(zip(LINES, pool.map(drive, LINES), strict=True))
    for project in projects.values():
        cluster.api.delete(f"/api/v1/namespaces/runyard-{project}")


@pytest.fixture(params=LINES)
def seen(request: pytest.FixtureRequest, all_seen: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What a user of one line saw."""
    return all_seen[request.param]


def read_status(seen: dict[str, Any], step: str, state: str) -> dict[str, Any]:
    """The status of a run that is in this state."""
    status: dict[str, Any] = seen[step]["run"]["status"]
    assert status["state"] == state, status
    return status


def test_job_completes_with_its_log_when_it_uses_a_volume_a_secret_and_a_variable(seen: dict[str, Any]) -> None:
    read_status(seen, "job", "COMPLETED")
    assert seen["job"]["log"] == "hello from 1000:2000\ns3cr3t\nover\n"


def test_exit_code_is_told_and_the_log_kept_when_a_job_fails(seen: dict[str, Any]) -> None:
    assert "exit code 7" in read_status(seen, "failed", "ERROR")["message"]
    assert seen["failed"]["log"] == "before\n"


def test_last_words_are_in_the_log_when_a_job_is_stopped(seen: dict[str, Any]) -> None:
    assert seen["endless"]["is_begun"]
    read_status(seen, "stopped", "STOPPED")
    assert seen["stopped"]["log"] == "begun\nlast words\n"


def test_service_answers_when_it_is_invoked(seen: dict[str, Any]) -> None:
    assert read_status(seen, "served", "RUNNING")["service"]["url"].endswith(":8080")
    assert seen["invoked"] == {"status": 200, "text": "served by a pod\n"}


def test_runs_are_gone_when_they_were_deleted(seen: dict[str, Any]) -> None:
    assert seen["deleted"] == {"are_gone": [True, True, True], "is_silent": True}
    assert seen["listed"]["states"] == ["ERROR"]
