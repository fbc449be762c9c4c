"""Sync and async functions and generators, SIGTERM, metrics, retries: as a process, against a real socket."""

import signal
import threading
import time
from typing import Any

import pytest

from runyard.launcher.metric_log import SEND_SECONDS
from tests.unit.launcher.lab import RUN, FakeServer, Lab, Recorded, serve

SYNC = """
import time
def main():
    try:
        print("begun")
        time.sleep(60)
    finally:
        print("cleaned")
"""
ASYNC = """
import asyncio
async def main():
    try:
        print("begun")
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.1)
        print("cleaned")
"""
GENERATOR = """
import time
def main():
    try:
        print("begun")
        while True:
            yield time.sleep(0.1)
    finally:
        print("cleaned")
"""
FORTY_POINTS = """
import time
def main(context):
    for i in range(40):
        context.log_metric("m", i)
        time.sleep(0.1)
    print("done")
"""


@pytest.mark.parametrize(
    ("code", "results"),
    [
        ("async def main():\n    return 1\n", {"output_0": 1}),
        ("def main():\n    yield 1\n    yield {'loss': 2}\n    yield 3\n", {"output_0": 1, "loss": 2, "output_1": 3}),
        ("def main():\n    yield 1\n    return {'best': 9}\n", {"best": 9}),
        ("async def main():\n    yield 1\n    yield 2\n", {"output_0": 1, "output_1": 2}),
        ("def main():\n    return None\n", {}),
        ("def main():\n    return {'a': [1, (2, {3})], 'b': float('nan')}\n", {"a": [1, [2, [3]]], "b": "NaN"}),
        ("def main():\n    return [1, 2]\n", {"output_0": [1, 2]}),
        ("class Model:\n    def fit(self, x=1):\n        return x\nmain = Model().fit\n", {"output_0": 1}),
        ("def main():\n    return 1, 2\nmain.__runyard_outputs__ = ['first']\n", {"first": 1, "output_1": 2}),
        (
            "import collections\nP = collections.namedtuple('P', 'x y')\ndef main():\n    return P(1, 2)\n",
            {"x": 1, "y": 2},
        ),
    ],
)
def test_results_are_named_when_a_handler_returns(lab: Lab, code: str, results: dict[str, Any]) -> None:
    done = lab.launch(code)
    assert (done.code, done.err) == (0, "")
    assert lab.server.status.get("results", {}) == results


def test_run_fails_and_names_the_result_when_it_is_not_json(lab: Lab) -> None:
    done = lab.launch("def main():\n    return {'model': object()}\n")
    assert done.code == 1
    assert done.termination["message"] == (
        "result model is of type object, which JSON cannot hold; return numbers, text, lists or dicts, or write it to "
        "a file and return its pathlib.Path"
    )


def test_run_fails_with_the_size_when_results_are_too_large(lab: Lab) -> None:
    done = lab.launch("def main():\n    return 'x' * (4 << 20)\n")
    assert done.code == 1
    assert done.termination["message"].startswith("the results are 4194320 bytes of JSON; at most 3145728 are allowed")


@pytest.mark.parametrize(
    "code",
    [
        SYNC,
        ASYNC,
        GENERATOR,
    ],
    ids=["sync", "async", "generator"],
)
def test_finally_blocks_run_and_the_code_is_143_when_sigterm_arrives(lab: Lab, code: str) -> None:
    lab.server.effective = {"source": {"code": code, "handler": "main"}}
    process = lab.start()
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.terminate()
    process.send_signal(signal.SIGTERM)
    done = lab.finish(process)
    assert (done.code, done.out) == (143, "cleaned\n")
    assert done.termination["message"] == "stopped by SIGTERM"


def test_results_arrive_when_the_server_is_away_and_comes_back(lab: Lab) -> None:
    """The server goes away while the handler runs; the result waits for it."""
    gate = lab.folder / "gate"
    waiting = f"    while not os.path.exists('{gate}'):\n        time.sleep(0.05)\n"
    code = f"import os, time\ndef main():\n    print('begun')\n{waiting}    print('ended')\n    return 42\n"
    other = FakeServer(effective={"source": {"code": code, "handler": "main"}})
    lab.server = other
    with serve(other):
        process = lab.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
    gate.touch()
    assert process.stdout.readline() == "ended\n"
    time.sleep(2)
    assert process.poll() is None
    with serve(other):
        done = lab.finish(process)
    assert (done.code, other.status["results"]) == (0, {"output_0": 42})
    assert done.err == "runyard: GET to the server failed, trying again: Connection refused\n"


@pytest.mark.parametrize("status", [500, 502, 503, 408, 425, 429])
def test_report_is_repeated_when_the_server_fails_for_a_while(lab: Lab, status: int) -> None:
    seen: list[str] = []

    def answer(request: Recorded) -> Any:
        if request.method == "PUT" and len(seen) < 2:
            seen.append(request.path)
            return status, {"Retry-After": "1"} if status == 429 else {}, {"message": "busy"}
        return None

    lab.server.answer = answer
    assert lab.launch("def main():\n    return 1\n").code == 0
    assert lab.server.status["results"] == {"output_0": 1}


def test_run_is_prepared_when_the_first_answer_is_a_page_of_a_proxy(lab: Lab) -> None:
    pages: list[Any] = [(200, {}, b"<html>"), (503, {}, b"<html>")]
    lab.server.answer = lambda request: pages.pop() if pages else None
    assert lab.launch("def main():\n    return 1\n").code == 0


@pytest.mark.parametrize("status", [400, 403, 413, 422])
def test_run_fails_with_the_servers_message_when_a_report_is_refused(lab: Lab, status: int) -> None:
    lab.server.answer = lambda request: (status, {}, {"message": "too much"}) if request.method == "PUT" else None
    done = lab.launch("def main():\n    return 1\n")
    assert done.code == 1
    assert done.termination["message"] == f"the server refused the PUT of this run: HTTP {status}: too much"


def test_run_ends_when_it_was_deleted(lab: Lab) -> None:
    lab.server.answer = lambda request: 404 if request.path == RUN else None
    done = lab.launch("def main():\n    return 1\n")
    assert done.code == 1
    assert done.termination["message"] == "the server does not know this run; it was deleted (HTTP 404: no: 404)"


def test_retries_end_when_sigterm_arrives(lab: Lab) -> None:
    lab.server.answer = lambda request: 503 if request.method == "PUT" else None
    lab.server.effective = {"source": {"code": "def main():\n    return 1\n", "handler": "main"}}
    process = lab.start()
    deadline = time.monotonic() + 30
    while not any(request.method == "PUT" for request in lab.server.requests):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    assert lab.finish(process, 30).code == 143


def test_metrics_are_sent_while_the_handler_runs_and_at_its_end_when_it_logs_them(lab: Lab) -> None:
    code = """
import time
def main(context):
    for step in range(30):
        context.log_metric("loss", 1 / (step + 1))
        time.sleep(0.1)
    context.log_metrics({"accuracy": 0.5, "nan": float("nan")})
    raise RuntimeError("after the metrics")
"""
    begun = time.monotonic()
    done = lab.launch(code)
    most = 2 + (time.monotonic() - begun) / SEND_SECONDS
    assert done.code == 1
    assert lab.server.metrics == {"loss": [1 / (step + 1) for step in range(30)], "accuracy": [0.5]}
    puts = [request for request in lab.server.requests if request.path == f"{RUN}/metrics/loss"]
    assert 2 <= len(puts) <= most
    assert "runyard: metric nan: nan is not a finite number and is left out\n" in done.err


def test_message_is_noted_at_once_when_a_handler_fails_and_its_metrics_cannot_be_sent(lab: Lab) -> None:
    lab.server.answer = lambda request: 503 if "/metrics/" in request.path else None
    code = "def main(context):\n    context.log_metric('m', 1)\n    raise ValueError('early')\n"
    lab.server.effective = {"source": {"code": code, "handler": "main"}}
    process = lab.start()
    assert process.stderr is not None
    while process.stderr.readline() != "runyard: ValueError: early (main.py:3)\n":
        assert process.poll() is None
    process.terminate()
    done = lab.finish(process)
    assert (done.code, done.termination["message"]) == (1, "ValueError: early (main.py:3)")


def test_run_is_reported_once_when_the_handler_forks(lab: Lab) -> None:
    code = """
import os, time
def main():
    child = os.fork()
    if child == 0:
        return "child"
    failing = os.fork()
    if failing == 0:
        raise ValueError("in the child")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.waitstatus_to_exitcode(os.waitpid(failing, 0)[1])
"""
    done = lab.launch(code)
    assert done.code == 0, done.err
    assert "ValueError: in the child" in done.err
    assert lab.server.status["results"] == {"output_0": 0, "output_1": 1}
    assert sum(request.method == "PUT" for request in lab.server.requests) == 1


def test_workers_of_multiprocessing_end_by_sigterm_when_they_are_told(lab: Lab) -> None:
    code = """
import multiprocessing, time
def work():
    time.sleep(60)
def main():
    worker = multiprocessing.get_context("fork").Process(target=work)
    worker.start()
    time.sleep(0.3)
    worker.terminate()
    worker.join()
    spawned = multiprocessing.get_context("spawn").Pool(1)
    squares = spawned.map(square, [1, 2])
    spawned.terminate()
    return worker.exitcode, squares
def square(x):
    return x * x
"""
    done = lab.launch(code)
    assert (done.code, done.err) == (0, "")
    assert lab.server.status["results"] == {"output_0": -15, "output_1": [1, 4]}


def test_project_is_text_when_a_handler_asks_for_it(lab: Lab) -> None:
    done = lab.launch("def main(project: str, run: str):\n    return project, run, project.upper()\n")
    assert done.code == 0, done.err
    assert lab.server.status["results"] == {"output_0": "vision", "output_1": "r1", "output_2": "VISION"}


def test_handler_does_not_wait_when_metrics_are_logged_and_the_server_is_away(lab: Lab) -> None:
    begun = threading.Event()

    def answer(request: Recorded) -> Any:
        if "/metrics/" in request.path and not begun.is_set():
            return 503
        return None

    lab.server.answer = answer
    lab.server.effective = {"source": {"code": FORTY_POINTS, "handler": "main"}}
    process = lab.start()
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    begun.set()
    assert lab.finish(process).code == 0
    assert lab.server.metrics == {"m": list(range(40))}


def test_context_has_logger_project_and_run_when_a_job_asks_for_it(lab: Lab) -> None:
    code = """
def main(context, project, run):
    context.logger.info("hello")
    return {"project": str(project), "run": run.id, "uid": context.run.uid}
"""
    done = lab.launch(code)
    assert done.code == 0, done.err
    assert done.out.endswith(" INFO hello\n")
    assert lab.server.status["results"] == {"project": "vision", "run": "r1", "uid": "u1"}


def test_init_runs_before_the_handler_when_a_job_names_one(lab: Lab) -> None:
    code = "def init(context, n: int):\n    context.n = n\ndef main(context):\n    return context.n\n"
    done = lab.launch(code, source={"init_function": "init"}, init_parameters={"n": "4"})
    assert done.code == 0, done.err
    assert lab.server.status["results"] == {"output_0": 4}
