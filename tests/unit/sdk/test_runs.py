"""Waiting for runs and reading their logs, over scripted answers."""

from typing import Any

import httpx2
import pytest

import runyard as ry

MARKER = {"X-Log-Marker": "#runyard-1", "X-Log-Stream": "p/main"}


def make_run(state: str, *, kind: str = "container+job:run", logs: str = "complete", **status: Any) -> dict[str, Any]:
    return {"id": "r1", "kind": kind, "project": "demo", "status": {"state": state, "logs": {"state": logs}, **status}}


class Server:
    """Answers `GET runs/r1` with runs and `…/log` with texts, each in order; the last one stays."""

    def __init__(self, *runs: dict[str, Any], texts: tuple[str, ...] = ()) -> None:
        self.runs, self.texts = list(runs), list(texts)
        self.offsets: list[str | None] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/log"):
            offset = request.url.params.get("offset")
            self.offsets.append(offset)
            text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
            return httpx2.Response(
                200, headers={**MARKER, "X-Log-Offset": offset or "0"}, text=text[int(offset or 0) :]
            )
        if request.url.path.endswith("/runs/r1"):
            return httpx2.Response(200, json=self.runs.pop(0) if len(self.runs) > 1 else self.runs[0])
        return httpx2.Response(200, json={"id": "demo", "name": "demo", "kind": "project"})


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.sdk.retry.FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("runyard.sdk.sync.run.FIRST_POLL_SECONDS", 0.0)


def get_run(server: Server) -> ry.Run:
    return ry.Client("http://server", transport=httpx2.MockTransport(server)).get_project("demo").get_run("r1")


def test_log_goes_on_when_a_proxy_ended_the_response_properly() -> None:
    runs = [make_run(state) for state in ("RUNNING", "RUNNING", "COMPLETED")]
    server = Server(*runs, make_run("COMPLETED"), texts=("one\ntw", "one\ntwo\nthree\n"))
    assert list(get_run(server).logs(follow=True)) == ["one", "two", "three"]
    assert server.offsets == [None, "6"]


def test_log_goes_on_when_the_run_has_ended_and_its_log_is_draining() -> None:
    server = Server(
        make_run("RUNNING"), make_run("COMPLETED", logs="draining"), make_run("COMPLETED"), texts=("a\n", "a\nb\n")
    )
    assert list(get_run(server).logs(follow=True)) == ["a", "b"]


def test_end_of_a_log_is_kept_when_it_is_very_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.sdk.sync.run.MOST_LOG_CHARACTERS", 10)
    server = Server(make_run("COMPLETED"), texts=("".join(f"line{number}\n" for number in range(5)),))
    assert get_run(server).logs() == "[3 lines are left out; `iter_log` has all]\nline3\nline4\n"


def test_service_is_waited_for_until_it_runs_when_nothing_else_is_said() -> None:
    states = [
        make_run(state, kind="python+serve:run", service={"url": "h:1"}) for state in ("PENDING", "PENDING", "RUNNING")
    ]
    run = get_run(Server(*states)).wait()
    assert (run.state, run.service_url, run.has_ended) == ("RUNNING", "http://h:1", False)
    stopped = get_run(Server(make_run("STOPPED", kind="python+serve:run"))).wait()
    assert not stopped.has_failed


def test_states_are_printed_when_progress_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make_run("READY"), make_run("PENDING", message="no room"), make_run("PENDING", message="no room")]
    get_run(Server(*runs, make_run("ERROR", reason="run.failed"))).wait(progress=True)
    assert capsys.readouterr().err == "r1: PENDING: no room\nr1: ERROR: run.failed\n"


def test_run_is_a_table_when_a_notebook_shows_it() -> None:
    shown = get_run(Server(make_run("COMPLETED", results={"<b>": "<i>"})))._repr_html_()
    assert "<th>result &lt;b&gt;</th><td>&lt;i&gt;</td>" in shown
