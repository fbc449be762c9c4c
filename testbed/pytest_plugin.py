"""pytest fixtures that provide real clusters.

`cluster` is session-wide and has a real node; `control_plane` is a module's own, without a node, and may be
broken at will, as `own_cluster` may, which has one; `namespace` is a test's own. Safe with pytest-xdist: the first
worker that asks starts the session's cluster, and the session's end stops it, unless `RUNYARD_TESTBED_KEEP=1` keeps it
for the next.

A test marked `kubernetes` needs the compiled programs. It waits for them before its timeout begins, so another process
may compile them meanwhile. Under `RUNYARD_TESTBED_REQUIRED=1` a skipped test fails, whatever it lacks.

A test marked `traefik` is skipped until `make test-ingress` has compiled Traefik, also where nothing else may be.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

from testbed import build, doctor
from testbed.cluster import Cluster, prepare, remove_remains
from testbed.dump import write_dump
from testbed.errors import TestbedError
from testbed.site import Options, find_site, state_folder
from testbed.supervision import PROJECT_ROOT
from testbed.supervisor import process_start_ticks

SESSION_VARIABLE = "RUNYARD_TESTBED_SESSION"
KEEP_VARIABLE = "RUNYARD_TESTBED_KEEP"
VERSION_VARIABLE = "RUNYARD_TESTBED_KUBERNETES"
SESSION_GPUS = 4
READY_VARIABLE = "RUNYARD_TESTBED_READY"
_ARTIFACTS = PROJECT_ROOT / ".artifacts" / "failed-tests"

_failed_key = pytest.StashKey[bool]()


def kubernetes_version() -> str:
    """The Kubernetes that this session's tests run on."""
    return os.environ.get(VERSION_VARIABLE, Options().kubernetes)


def _session_cluster_name() -> str:
    """One name per checkout and version, so that two checkouts do not share a cluster."""
    digest = hashlib.sha256(f"{PROJECT_ROOT}\0{kubernetes_version()}".encode()).hexdigest()
    return f"test-{digest[:8]}"


def pytest_configure(config: pytest.Config) -> None:
    """Note once per session whether Kubernetes is compiled: all workers must order their tests alike."""
    config.addinivalue_line("markers", "kubernetes: needs the compiled Kubernetes, or a machine that can compile it")
    config.addinivalue_line("markers", "traefik: needs the compiled Traefik, which `make test-ingress` brings")
    if not hasattr(config, "workerinput"):
        os.environ[READY_VARIABLE] = "1" if build.is_cached(kubernetes_version()) else "0"


def is_kubernetes_ready() -> bool:
    """Whether Kubernetes was compiled when the session began."""
    return os.environ.get(READY_VARIABLE) == "1"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Mark the session, so that its end takes down what it started and nothing else."""
    if not hasattr(session.config, "workerinput"):
        os.environ[SESSION_VARIABLE] = f"{os.getpid()} {process_start_ticks(os.getpid())}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the session's cluster; only the controlling process does, after all workers ended."""
    if hasattr(session.config, "workerinput") or os.environ.get(KEEP_VARIABLE) == "1":
        return
    site = find_site(_session_cluster_name())
    if site and _read_session(site.directory) == os.environ.get(SESSION_VARIABLE):
        Cluster(site).down()


def _read_session(directory: Path) -> str | None:
    """The session that started a cluster: the pid of its controlling process, and when that was started."""
    try:
        return (directory / "session").read_text()
    except OSError:
        return None


def _is_alive(session: str | None) -> bool:
    pid, _, start_ticks = (session or "").partition(" ")
    return pid.isdigit() and str(process_start_ticks(int(pid))) == start_ticks


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Compile Kubernetes, or wait for the process that does, before the timeout of a test begins."""
    if item.get_closest_marker("kubernetes"):
        _ensure_programs(kubernetes_version())
    return (yield)


@cache
def _ensure_programs(version: str) -> None:
    """Compile whatever is missing; a fixture meets the same failure again, and reports it."""
    with contextlib.suppress(TestbedError, OSError):
        build.ensure_kube(version)
        if not doctor.missing(node=True, kubernetes=version):
            prepare(Options(kubernetes=version, metrics=True, gpus=1, fake_nodes=1))


def _lacks_traefik(item: pytest.Item) -> bool:
    return item.get_closest_marker("traefik") is not None and not build.is_traefik_cached()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test of Traefik before it has started a cluster."""
    if _lacks_traefik(item):
        pytest.skip("Traefik is not compiled here: run `make test-ingress`")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed, for the fixtures that then dump what they know."""
    report = yield
    if not hasattr(report, "wasxfail") and not _lacks_traefik(item):
        _fail_if_skipped(report)
    if report.failed:
        item.stash[_failed_key] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that skips itself counts like a test that does."""
    report = yield
    _fail_if_skipped(report)
    return report


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and os.environ.get(doctor.REQUIRED_VARIABLE) == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{doctor.REQUIRED_VARIABLE}=1 forbids to skip: {reason.removeprefix('Skipped: ')}"


def require_machine(*, node: bool, kubernetes: str | None = None) -> None:
    """Skip, with the reason, where this machine cannot run such a cluster."""
    missing = doctor.missing(node=node, kubernetes=kubernetes or kubernetes_version())
    if missing:
        pytest.skip("no cluster on this machine: it lacks " + ", ".join(finding.what for finding in missing))


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The session's cluster: a real node with four pretend GPUs, DNS and storage, and an audit log.

    Tests keep to their namespaces.
    """
    require_machine(node=True)
    options = Options(kubernetes=kubernetes_version(), gpus=SESSION_GPUS, audit=True)
    state_folder().mkdir(parents=True, exist_ok=True)
    name = _session_cluster_name()
    with (state_folder() / "session.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _find_usable(name, options)
        if found:
            return found
        remove_remains(name)
        started = Cluster.up(name, options)
        (started.directory / "session").write_text(os.environ.get(SESSION_VARIABLE, ""))
        return started


def _find_usable(name: str, options: Options) -> Cluster | None:
    """The session's cluster if it runs: this session's, or with KEEP one that fits and answers.

    One that another session is using right now is left alone, and this session told so.
    """
    try:
        found = Cluster.find(name)
    except TestbedError:
        return None
    owner, is_kept = _read_session(found.directory), os.environ.get(KEEP_VARIABLE) == "1"
    is_ours = owner == os.environ.get(SESSION_VARIABLE)
    if not (is_ours or is_kept) and _is_alive(owner):
        pytest.fail(f"another test run (pid {owner}) uses the cluster {name}: wait for it, or set {KEEP_VARIABLE}=1")
    if not (is_ours or is_kept) or found.site.options != options or not _is_healthy(found):
        return None
    is_same_program = (found.directory / "bin/kubectl").resolve() == build.ensure_kube(options.kubernetes).resolve()
    return found if is_same_program else None


def _is_healthy(cluster: Cluster) -> bool:
    try:
        cluster.check_alive()
    except TestbedError:
        return False
    return cluster.api.is_ready()


@pytest.fixture(scope="module")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A control plane of the module's own, without a node: to be killed, compacted and overloaded.

    When a test of the module failed, the components' logs are kept.
    """
    require_machine(node=False)
    options = Options(kubernetes=kubernetes_version(), node=False)
    cluster = Cluster.up(f"plane-{os.getpid()}", options, outlives_us=False)
    failed_before = request.session.testsfailed
    yield cluster
    if request.session.testsfailed > failed_before:
        folder = _ARTIFACTS / request.node.name.replace("/", "-")
        shutil.copytree(cluster.site.logs, folder, dirs_exist_ok=True)
        print(f"\ncomponent logs of the failed module: {folder}")
    cluster.down()


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """A cluster of the module's own, with a node: to be restored from a backup."""
    require_machine(node=True)
    options = Options(kubernetes=kubernetes_version(), dns=False, storage=False)
    cluster = Cluster.up(f"own-{os.getpid()}", options, outlives_us=False)
    yield cluster
    cluster.down()


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own on the session's cluster; when the test fails, what is in it is dumped."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    name = f"{words[:40].strip('-')}-{secrets.token_hex(3)}"
    cluster.api.apply(
        f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    yield name
    if request.node.stash.get(_failed_key, False):
        folder = write_dump(cluster, name, into=_ARTIFACTS / name)
        print(f"\npods, events and component logs of the failed test: {folder}")
    cluster.api.delete(f"/api/v1/namespaces/{name}")
