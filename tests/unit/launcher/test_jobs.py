"""A job from its source to its results, as a process of each Python on this machine."""

import base64
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.unit.launcher.interpreters import VERSIONS, find_interpreter
from tests.unit.launcher.lab import RUN, TOKEN, Lab

COUNTING = """
import asyncio
async def main():
    for x in range(3):
        await asyncio.sleep(0)
        yield {"x": x}
"""
CHAINED = """
def main():
    try:
        1 / 0
    except ZeroDivisionError as error:
        raise ValueError("v") from error
"""


INTERPRETERS = {version: found for version in VERSIONS if (found := find_interpreter(version)) is not None}
"""Those of this machine."""


@pytest.fixture(params=INTERPRETERS)
def python(request: pytest.FixtureRequest) -> str:
    return INTERPRETERS[request.param]


def test_results_are_stored_when_the_handler_returns_on_any_python(lab: Lab, python: str) -> None:
    lab.python = python
    code = "import sys\ndef main(x: int, name='y'):\n    print(sys.version_info[:2])\n    return x + 1, name\n"
    done = lab.launch(code, parameters={"x": "41"})
    assert (done.code, done.err) == (0, "")
    assert lab.server.status["results"] == {"output_0": 42, "output_1": "y"}
    assert done.termination.keys() == {"runyard", "peak_bytes"}
    assert 1 << 20 < done.termination["peak_bytes"] < 1 << 32


def test_async_jobs_failures_and_services_work_when_started_on_any_python(lab: Lab, python: str) -> None:
    lab.python = python
    assert lab.launch(COUNTING).code == 0
    assert lab.server.status["results"] == {"x": 2}
    done = lab.launch(CHAINED)
    assert (done.code, done.termination["message"]) == (1, "ValueError: v (main.py:6)")
    assert "launcher" not in done.err.replace("launcher.pyz", "")
    with lab.service("async def main(x: int):\n    return x\n") as service:
        assert service.call("/", {"x": "5"})[2] == 5
        assert service.stop().code == 143


def test_sdk_of_the_environment_is_imported_when_the_zipapp_runs(lab: Lab) -> None:
    (lab.folder / "runyard.py").write_text("WHO = 'the SDK'\n")
    done = lab.launch(
        "import runyard\ndef main():\n    return runyard.WHO\n", environment={"PYTHONPATH": str(lab.folder)}
    )
    assert done.code == 0, done.err
    assert lab.server.status["results"] == {"output_0": "the SDK"}


def test_token_goes_to_the_server_and_never_to_the_log_when_a_run_reports(lab: Lab) -> None:
    done = lab.launch("def main():\n    return 1\n")
    assert {request.headers["authorization"] for request in lab.server.requests} == {f"Bearer {TOKEN}"}
    assert TOKEN not in done.out + done.err + json.dumps(done.termination)


def test_other_results_of_the_run_stay_when_results_are_merged(lab: Lab) -> None:
    lab.server.status |= {"results": {"early": 1}, "outputs": {"model": "store://vision/model/m:1"}}
    assert lab.launch("def main():\n    return {'late': 2}\n").code == 0
    assert lab.server.status["results"] == {"early": 1, "late": 2}
    assert lab.server.status["outputs"] == {"model": "store://vision/model/m:1"}


def test_results_are_merged_again_when_the_run_changed_in_between(lab: Lab) -> None:
    def interfere(request: object) -> None:
        if getattr(request, "method", None) == "PUT" and lab.server.revision == 1:
            lab.server.revision = 2
            lab.server.status["results"] = {"other": 1}

    lab.server.answer = interfere
    assert lab.launch("def main():\n    return {'mine': 2}\n").code == 0
    assert lab.server.status["results"] == {"other": 1, "mine": 2}
    assert [each.method for each in lab.server.requests if each.path == RUN] == ["GET", "PUT", "GET", "PUT"]


def test_message_names_the_line_and_the_log_has_only_user_frames_when_the_handler_raises(lab: Lab) -> None:
    code = "def main():\n    inner()\ndef inner():\n    raise ValueError('x is\\nnegative')\n"
    done = lab.launch(code, source={"source": "train.py"})
    assert done.code == 1
    assert done.termination["message"] == "ValueError: x is negative (train.py:4)"
    assert "runyard_launcher" not in done.err
    assert 'train.py", line 2, in main' in done.err
    assert done.err.endswith("ValueError: x is\nnegative\nrunyard: ValueError: x is negative (train.py:4)\n")
    assert "results" not in lab.server.status


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"code": "def main(:\n"}, "SyntaxError: invalid syntax (main.py:1)"),
        ({"code": "1 / 0\n"}, "ZeroDivisionError: division by zero (main.py:1)"),
        ({"code": "def mian():\n    pass\n"}, "module main has no function `main`; nearest: mian"),
        (
            {"code": "import numpi\n"},
            (
                "module main imports `numpi`, which is not installed; "
                "add the package that provides it to the function's `requirements`"
            ),
        ),
        (
            {"code": "from digitalhub_runtime_python import handler\n"},
            (
                "the source imports digitalhub_runtime_python, which is not installed; "
                "add digitalhub-runtime-python to the function's `requirements`"
            ),
        ),
        ({"source": {"base64": "!!"}}, "`source.base64` is not valid base64"),
        (
            {"code": "x = 1", "handler": "other:main"},
            "the source has no module `other`; its modules: main; name the handler as `module:function`",
        ),
        ({"code": "main = 3"}, "main of module main is not a function"),
        ({}, "the function has no source; give `code`, `base64` or the address `source`"),
        (
            {"code": "def main(epochs): pass", "parameters": {"epoch": 1}},
            "the handler has no parameter epoch; nearest: epochs; the handler needs epochs",
        ),
        (
            {"code": "def main(n: int): pass", "parameters": {"n": "ten"}},
            'parameter n of the handler: "ten" is not a whole number',
        ),
    ],
)
def test_run_ends_with_2_and_says_why_when_it_cannot_be_prepared(
    lab: Lab, fields: dict[str, Any], message: str
) -> None:
    done = lab.launch(**fields)
    assert (done.code, done.termination["message"]) == (2, message)
    assert done.err.endswith(f"runyard: {message}\n")


def test_file_name_is_kept_and_module_imported_when_code_is_base64(lab: Lab) -> None:
    encoded = base64.b64encode(b"def f():\n    return __name__\n").decode()
    done = lab.launch(None, handler="f", source={"base64": encoded, "source": "src/train.py"})
    assert done.code == 0, done.err
    assert lab.server.status["results"] == {"output_0": "src.train"}


def test_source_is_imported_when_its_name_is_that_of_a_loaded_module(lab: Lab) -> None:
    done = lab.launch("def main():\n    return 'mine'\n", source={"source": "signal.py"})
    assert done.code == 0, done.err
    assert lab.server.status["results"] == {"output_0": "mine"}


def test_exit_code_is_the_handlers_when_it_calls_exit(lab: Lab) -> None:
    done = lab.launch("import sys\ndef main():\n    sys.exit(7)\n")
    assert (done.code, done.err) == (7, "runyard: the handler called sys.exit(7)\n")
    assert lab.launch("import sys\ndef main():\n    sys.exit(0)\n").code == 0


def test_lines_arrive_at_once_when_the_handler_prints(lab: Lab) -> None:
    lab.server.effective = {
        "source": {"code": "import time\ndef main():\n    print('first')\n    time.sleep(60)\n", "handler": "main"}
    }
    process = lab.start()
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    process.terminate()
    assert lab.finish(process).code == 143


def test_module_starts_when_it_is_run_from_an_installed_package(lab: Lab) -> None:
    lab.server.effective = {"source": {"code": "def main():\n    return 5\n", "handler": "main"}}
    done = subprocess.run(
        [sys.executable, "-m", "runyard.launcher"], env=lab.make_environment(), capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert lab.server.status["results"] == {"output_0": 5}
