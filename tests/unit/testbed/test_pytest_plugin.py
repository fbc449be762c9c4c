"""A run that must not skip fails where one that may skip says why; compiling Kubernetes costs no test its time."""

from pathlib import Path

import pytest

from tests.inner_pytest import InnerSession

SKIPPING = """
import pytest

@pytest.fixture
def absent():
    pytest.skip("no such server")

def test_that_skips_itself():
    pytest.skip("not today")

def test_whose_fixture_skips(absent): ...

@pytest.mark.skipif(True, reason="no curl on this machine")
def test_that_is_marked(): ...

@pytest.mark.xfail(reason="known", strict=True)
def test_that_is_known_to_fail():
    assert False

def test_that_passes(): ...
"""
SKIPPING_MODULE = 'import pytest\npytest.skip("not here", allow_module_level=True)\n'

# What a machine lacks that has no PostgreSQL, no package index and no Go.
BARE_MACHINE = """
import os
import pytest
from testbed import build, doctor
from tests import postgres as postgresql
from tests.s3 import server as s3
from tests.contract.conftest import s3_server
from tests.integration.oracle import version
from tests.postgres import postgres

def _uninstallable(*_):
    raise s3.NoS3Server("no package index")

postgresql._HOME = postgresql.Path("/nowhere")
os.geteuid = lambda: 1000
s3._ensure_environment = _uninstallable
build.is_cached = lambda _version: False
doctor.examine_build = lambda: [doctor.Finding("Go", False, "install it")]
"""
BARE_MACHINE_TESTS = """
def test_store(postgres): ...
def test_logs(s3_server): ...
def test_demand(version): ...
"""

SLOW_BUILD = """
import time
import pytest
from testbed import build, doctor

build.is_cached = lambda _version: False
build.ensure_kube = lambda _version: time.sleep(3.0)
doctor.missing = lambda **_: ["a node"]
"""
SLOW_BUILD_TESTS = """
import pytest

@pytest.mark.kubernetes
@pytest.mark.timeout(2)
def test_that_needs_the_program(): ...
"""

NO_TRAEFIK = """
from testbed import build

build.is_traefik_cached = lambda: False
"""
TRAEFIK_TESTS = """
import pytest

@pytest.mark.traefik
def test_of_an_ingress_controller(): ...
"""


@pytest.fixture
def session(tmp_path: Path) -> InnerSession:
    return InnerSession(tmp_path, plugins=("testbed.pytest_plugin", "pytest_timeout"))


def test_skipped_tests_fail_with_their_reasons_when_nothing_may_be_skipped(session: InnerSession) -> None:
    session.write("test_a.py", SKIPPING)
    session.write("test_b.py", SKIPPING_MODULE)

    printed = session.run("-q", "-rA", "--continue-on-collection-errors", is_required=True)

    # A skip outside of the test itself is an error, as any failure there is.
    assert "1 failed, 1 passed, 1 xfailed, 3 errors in " in printed
    for reason in ("not today", "no such server", "no curl on this machine", "not here"):
        assert f"RUNYARD_TESTBED_REQUIRED=1 forbids to skip: {reason}" in printed


def test_skipped_tests_stay_skipped_when_they_may(session: InnerSession) -> None:
    session.write("test_a.py", SKIPPING)
    session.write("test_b.py", SKIPPING_MODULE)

    printed = session.run("-q", "-rA")

    assert "1 passed, 4 skipped, 1 xfailed" in printed
    assert "forbids to skip" not in printed


@pytest.mark.parametrize(("is_required", "counts"), [(True, "3 errors"), (False, "3 skipped")])
def test_databases_and_oracles_count_like_clusters_when_the_machine_lacks_them(
    session: InnerSession, is_required: bool, counts: str
) -> None:
    session.write("conftest.py", BARE_MACHINE)
    session.write("test_a.py", BARE_MACHINE_TESTS)

    printed = session.run("-q", "-rA", is_required=is_required)

    assert f"{counts} in " in printed
    for reason in (
        "no PostgreSQL: PostgreSQL is not installed: apt-get install postgresql",
        "no S3-compatible server: no package index",
        "Kubernetes cannot be built on this machine: it lacks Go",
    ):
        assert reason in printed


def test_timeout_of_a_test_begins_when_kubernetes_is_compiled(session: InnerSession) -> None:
    session.write("conftest.py", SLOW_BUILD)
    session.write("test_a.py", SLOW_BUILD_TESTS)

    assert "1 passed in " in session.run("-q")


@pytest.mark.parametrize("is_required", [True, False])
def test_tests_of_traefik_name_their_target_when_it_is_not_compiled(session: InnerSession, is_required: bool) -> None:
    session.write("conftest.py", NO_TRAEFIK)
    session.write("test_a.py", TRAEFIK_TESTS)

    printed = session.run("-q", "-rA", is_required=is_required)

    assert "1 skipped in " in printed
    assert "Traefik is not compiled here: run `make test-ingress`" in printed
