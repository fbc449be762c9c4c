"""The order of tests on workers, and the report of their times."""

import re
from pathlib import Path

import pytest

from tests.inner_pytest import InnerSession

READY = "from testbed import build\nbuild.is_cached = lambda _version: {}\n"


@pytest.fixture
def session(tmp_path: Path) -> InnerSession:
    session = InnerSession(tmp_path, plugins=("xdist", "testbed.pytest_plugin", "tests.schedule", "tests.time_report"))
    session.write("tests/unit/spec/test_a.py", "def test_a(): ...\ndef test_b(): ...\n")
    session.write("tests/unit/spec/yaml/test_b.py", "def test_c():\n    import time; time.sleep(0.3)\n")
    session.write("tests/unit/test_c.py", "import pytest\n\n@pytest.mark.long\ndef test_d(): ...\n")
    session.write("tests/cluster/test_d.py", "import pytest\n\n@pytest.mark.kubernetes\ndef test_e(): ...\n")
    session.write("tests/contract/test_e.py", "def test_f(): ...\n")
    return session


def run_order(session: InnerSession, *arguments: str, is_compiled: bool = True) -> str:
    """The letters of the tests in the order in which one worker, or no worker, ran them."""
    session.write("fake_build.py", READY.format(is_compiled))
    printed = session.run("-v", "-p", "fake_build", *arguments, environment={"RUNYARD_TESTBED_READY": ""})
    found = re.findall(r"PASSED \S+::test_(\w)|::test_(\w) PASSED", printed)
    return "".join(with_workers or without for with_workers, without in found)


def test_long_and_waiting_files_come_first_when_workers_share_them(session: InnerSession) -> None:
    arguments = ("-n", "1", "--dist", "loadfile", "--no-loadscope-reorder")
    assert run_order(session, *arguments) == "defabc"


def test_tests_of_kubernetes_come_last_when_it_is_not_compiled_yet(session: InnerSession) -> None:
    arguments = ("-n", "1", "--dist", "loadfile", "--no-loadscope-reorder")
    assert run_order(session, *arguments, is_compiled=False) == "dfabce"


def test_order_stays_when_there_are_no_workers(session: InnerSession) -> None:
    assert run_order(session) == "efabcd"


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "workers"])
def test_run_ends_with_the_time_of_each_folder_when_it_is_over(
    session: InnerSession, arguments: tuple[str, ...]
) -> None:
    printed = session.run("-q", *arguments)

    rows = re.findall(r"^ +(\d+\.\d) s +(\d+)% +(\d+) tests  (\S+)$", printed, re.MULTILINE)
    assert {folder: int(tests) for _, _, tests, folder in rows} == {
        "tests/unit/spec": 3,
        "tests/unit": 1,
        "tests/cluster": 1,
        "tests/contract": 1,
    }
    seconds, share, _, slowest = rows[0]
    assert slowest == "tests/unit/spec"
    assert float(seconds) >= 0.3
    assert int(share) > 50
    assert re.search(r"^ +\d+\.\d s in 6 tests; \d+ s of wall time$", printed, re.MULTILINE)
    assert re.search(r"^ +\d+\.\d s of processor time on this machine, \d+% of \d+ cores$", printed, re.MULTILINE)
