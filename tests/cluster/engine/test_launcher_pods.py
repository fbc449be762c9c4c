"""The launcher in pods of a real node: installed by its init container, as PID 1, under restricted Pod Security."""

import functools
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import PlatformInputs, RunIdentity
from runyard.spec.launcher import Launcher
from testbed.cluster import Cluster
from tests.certificates import write_certificate
from tests.cluster.contract.test_patches_on_node import list_pods, start
from tests.cluster.engine.python_images import PLAIN_PYTHON, load_launcher, load_python
from tests.unit.launcher.lab import TOKEN, FakeServer, serve
from tests.unit.launcher.test_requirements import make_wheel
from tests.unit.launcher.test_sources import git, listen
from tests.unit.manifests.samples import make_sides, make_spec, make_volume

SECONDS = 90.0
MIB = 1 << 20


@pytest.fixture(scope="module")
def launcher(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    return load_launcher(cluster, tmp_path_factory.mktemp("launcher"))


@pytest.fixture
def server(cluster: Cluster) -> Iterator[FakeServer]:
    with serve(FakeServer(effective={}, host=cluster.site.addresses.host_ip)) as running:
        yield running


class PodLab:
    """Starts functions in pods of one namespace, which report to a server of this machine."""

    def __init__(self, cluster: Cluster, namespace: str, server: FakeServer, launcher: Launcher) -> None:
        self.cluster, self.namespace, self.server = cluster, namespace, server
        self.package_index: str | None = None
        self._launcher = launcher

    def start(self, code: str | None = None, *, image: str = PLAIN_PYTHON, **fields: Any) -> None:
        source = {"handler": "main", **({} if code is None else {"code": code}), **fields.pop("source", {})}
        spec: EffectiveSpec = make_spec(
            kind="python",
            image=image,
            image_pull_policy="IfNotPresent",
            **{"run_as_user": 1000, "resources": {"mem": make_sides(limit="256Mi")}, **fields},
        )
        self.server.effective = {
            "kind": "python",
            "action": "job",
            "source": source,
            "requirements": list(spec.requirements),
            "command": list(spec.command),
        }
        platform = PlatformInputs(
            endpoint=self.server.endpoint, has_token=True, launcher=self._launcher, package_index=self.package_index
        )
        identity = RunIdentity(run_id="r1", run_uid="u1", project="vision", namespace=self.namespace, platform=platform)
        start(self.cluster, spec, identity, token=TOKEN)

    def finish(self) -> dict[str, Any]:
        """How the container ended, once it has."""
        wait_for(lambda: any("terminated" in each["state"] for each in self.list_statuses()))
        (status,) = self.list_statuses()
        end: dict[str, Any] = status["state"]["terminated"]
        return end

    def list_statuses(self) -> list[dict[str, Any]]:
        pods = list_pods(self.cluster, self.namespace)
        return [status for pod in pods for status in pod["status"].get("containerStatuses", [])]

    def read_log(self) -> str:
        (pod,) = list_pods(self.cluster, self.namespace)
        return self.cluster.kubectl("logs", "-n", self.namespace, pod["metadata"]["name"], "-c", "main")

    def execute(self, *command: str) -> str:
        (pod,) = list_pods(self.cluster, self.namespace)
        return self.cluster.kubectl("exec", "-n", self.namespace, pod["metadata"]["name"], "--", *command)


@pytest.fixture
def lab(cluster: Cluster, namespace: str, server: FakeServer, launcher: Launcher) -> PodLab:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    return PodLab(cluster, namespace, server, launcher)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def test_function_reports_and_tells_its_peak_when_it_runs_in_any_python_image(lab: PodLab) -> None:
    code = f"def main():\n    held = b'x' * {100 * MIB}\n    print('inside')\n    return len(held)\n"
    lab.start(code)
    end = lab.finish()
    assert (end["exitCode"], lab.read_log()) == (0, "inside\n")
    assert lab.server.status["results"] == {"output_0": 100 * MIB}
    assert 100 * MIB < json.loads(end["message"])["peak_bytes"] < 200 * MIB


def test_message_is_the_exception_when_the_handler_raises(lab: PodLab) -> None:
    lab.start("def main():\n    raise ValueError('x is negative')\n")
    end = lab.finish()
    assert end["exitCode"] == 1
    assert json.loads(end["message"])["message"] == "ValueError: x is negative (main.py:2)"
    assert lab.read_log().endswith("ValueError: x is negative\nrunyard: ValueError: x is negative (main.py:2)\n")


def test_peak_is_told_when_memory_runs_out(lab: PodLab) -> None:
    """PID 1 is not the function: it outlives what the kernel kills, and reads the group's peak."""
    lab.start(
        f"def main():\n    return len([b'x' * {MIB} for _ in range(1000)])\n",
        resources={"mem": make_sides(limit="96Mi")},
    )
    end = lab.finish()
    assert (end["reason"], end["exitCode"]) == ("OOMKilled", 137)
    assert 90 * MIB < json.loads(end["message"])["peak_bytes"] <= 96 * MIB


CLEANING_UP = """
import time
def main():
    try:
        print("begun")
        time.sleep(600)
    finally:
        print("cleaned up")
"""


def test_function_cleans_up_when_its_pod_is_told_to_end(lab: PodLab) -> None:
    """The kernel drops a SIGTERM that PID 1 does not handle: the grace period would pass in vain."""
    lab.start(CLEANING_UP, grace_period_seconds=30)
    wait_for(lambda: bool(lab.list_statuses()) and "running" in lab.list_statuses()[0]["state"])
    wait_for(lambda: "begun" in lab.read_log())
    (pod,) = list_pods(lab.cluster, lab.namespace)
    deadline = json.dumps([{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}])
    lab.cluster.kubectl("patch", "pod", "-n", lab.namespace, pod["metadata"]["name"], "--type=json", "-p", deadline)
    end = lab.finish()
    assert end["exitCode"] == 143
    assert json.loads(end["message"])["message"] == "stopped by SIGTERM"
    assert "cleaned up" in lab.read_log()


ORPHANING = """
import subprocess, time
def main():
    for _ in range(5):
        subprocess.run(["sh", "-c", "sleep 0.1 &"])
    own = subprocess.Popen(["sh", "-c", "sleep 0.2; exit 7"])
    for _ in range(300):
        listed = subprocess.run(["ps", "-o", "stat,comm"], capture_output=True, text=True).stdout
        if "sleep" not in listed:
            break
        time.sleep(0.1)
    return {"zombies": listed.count("sleep"), "own": own.wait()}
"""


def test_orphans_are_reaped_and_own_children_are_not_when_a_function_starts_daemons(lab: PodLab) -> None:
    lab.start(ORPHANING)
    assert lab.finish()["exitCode"] == 0
    assert lab.server.status["results"] == {"zombies": 0, "own": 7}


def test_packages_come_from_the_operators_index_when_a_function_has_requirements(lab: PodLab, tmp_path: Path) -> None:
    image = load_python(lab.cluster)
    make_wheel(tmp_path, "greeting", requires="politeness")
    make_wheel(tmp_path, "politeness", version="2.0")
    lab.server.answer = lambda request: answer_index(tmp_path, request.path)
    lab.package_index = f"{lab.server.endpoint}/simple"
    code = "import greeting, politeness\ndef main():\n    return politeness.VERSION\n"
    lab.start(code, image=image, requirements=["greeting"], run_as_user=None)
    end = lab.finish()
    assert end["exitCode"] == 0, lab.read_log()
    assert lab.server.status["results"] == {"output_0": "2.0"}
    assert "Successfully installed greeting-1.0 politeness-2.0" in lab.read_log()


def test_command_finds_its_requirements_when_the_run_has_a_command_of_its_own(lab: PodLab, tmp_path: Path) -> None:
    image = load_python(lab.cluster)
    make_wheel(tmp_path, "greeting")
    lab.server.answer = lambda request: answer_index(tmp_path, request.path)
    lab.package_index = f"{lab.server.endpoint}/simple"
    command = ["sh", "-c", "greeting && python3 -c 'import greeting; print(greeting.VERSION)' && echo $0 && exit 7"]
    lab.start(image=image, command=command, args=["$(RUNYARD_RUN_ID)"], requirements=["greeting"], run_as_user=None)
    end = lab.finish()
    assert end["exitCode"] == 7, lab.read_log()
    assert lab.read_log().endswith("script of greeting\n1.0\nr1\n")


def answer_index(folder: Path, path: str) -> tuple[int, dict[str, str], bytes] | None:
    """The simple repository API (PEP 503) over a folder of wheels."""
    if path.startswith("/simple/"):
        name = path.split("/")[2]
        links = [f'<a href="/wheels/{each.name}">{each.name}</a>' for each in folder.glob(f"{name}-*.whl")]
        page = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
        return (200 if links else 404), {"Content-Type": "text/html"}, page
    if path.startswith("/wheels/"):
        return 200, {"Content-Type": "application/zip"}, (folder / path.split("/")[2]).read_bytes()
    return None


def test_environment_failed_when_the_image_has_no_installer(lab: PodLab) -> None:
    lab.start("def main(): pass", requirements=["greeting"])
    end = lab.finish()
    said = json.loads(end["message"])
    assert (end["exitCode"], said["step"]) == (2, "requirements")
    assert said["message"].startswith("the function has requirements, and its image has neither pip nor uv")


def test_source_is_checked_out_when_it_is_in_git_behind_a_private_authority(lab: PodLab, tmp_path: Path) -> None:
    image, host = load_python(lab.cluster), lab.server.host
    write_certificate(tmp_path, host=host)
    work = tmp_path / "work"
    work.mkdir()
    git("init", "-q", "-b", "main", cwd=work)
    (work / "main.py").write_text("import helper\ndef main():\n    return helper.VALUE\n")
    (work / "helper.py").write_text("VALUE = 'from git'\n")
    git("add", ".", cwd=work)
    git("commit", "-q", "-m", "first", cwd=work)
    git("clone", "-q", "--bare", str(work), str(tmp_path / "served" / "repo.git"), cwd=tmp_path)
    git("update-server-info", cwd=tmp_path / "served" / "repo.git")
    handler = functools.partial(_QuietHandler, directory=str(tmp_path / "served"))
    authority = {"ca.pem": (tmp_path / "cert.pem").read_text()}
    with listen(handler, certificate=tmp_path, host=host) as address:
        lab.start(
            image=image,
            source={"source": f"git+{address}/repo.git#main"},
            envs={"GIT_SSL_CAINFO": "/authority/ca.pem"},
            volumes=[make_volume("config_map", name="authority", mount_path="/authority", data=authority)],
        )
        end = lab.finish()
    assert end["exitCode"] == 0, lab.read_log()
    assert lab.server.status["results"] == {"output_0": "from git"}


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


def test_source_is_extracted_when_it_is_an_archive_of_a_server_in_the_cluster(lab: PodLab) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("main.py", "def main():\n    return 'from an archive'\n")
    lab.server.answer = lambda request: (200, {}, archive.getvalue()) if request.path == "/code.zip" else None
    lab.start(source={"source": f"zip+{lab.server.endpoint}/code.zip"})
    assert lab.finish()["exitCode"] == 0, lab.read_log()
    assert lab.server.status["results"] == {"output_0": "from an archive"}
