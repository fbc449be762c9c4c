"""Ports, readiness, hooks and the termination file."""

import json
import os
import socket
import sys
import time
from pathlib import Path

import pytest

from runyard.procs import Command, Hooks, Plan, Readiness, read_state, request_stop
from tests.unit.procs.lab import IS_ROOT, STRANGER, Lab, read_log, shell, wait_for

SERVER = """
import http.server, os, sys, time
time.sleep(float(sys.argv[2]))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ok" and not os.path.exists(sys.argv[3]) else 503)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def serve(lab: Lab, *, delay: float = 0.0) -> Command:
    return Command(name="main", argv=(sys.executable, "-c", SERVER, "$(PORT_8080)", str(delay), f"{lab.folder}/broken"))


def test_service_is_ready_when_it_answers_over_http(lab: Lab) -> None:
    readiness = Readiness(port=8080, path="/ok", period_seconds=0.1, failure_threshold=2)
    folder = lab.start(Plan(main=serve(lab, delay=0.5), is_restarted=True, ports={8080: None}, readiness=readiness))
    state = lab.wait(folder, lambda state: state.phase == "running")
    assert not state.is_ready
    state = lab.wait(folder, lambda state: state.is_ready)
    assert len(state.instances) == 1
    (lab.folder / "broken").touch()
    lab.wait(folder, lambda state: not state.is_ready)
    (lab.folder / "broken").unlink()
    lab.wait(folder, lambda state: state.is_ready)
    with socket.create_connection(("127.0.0.1", state.ports[8080]), timeout=5):
        pass
    request_stop(folder)
    assert not lab.wait(folder).is_ready


@pytest.mark.skipif(not IS_ROOT, reason="only root can execute commands as other users")
def test_service_is_not_ready_when_a_stranger_has_taken_its_port(lab: Lab) -> None:
    main = shell("sleep 60", identity=STRANGER)
    readiness = Readiness(port=8080, period_seconds=0.1)
    folder = lab.start(Plan(main=main, ports={8080: None}, readiness=readiness))
    state = lab.wait(folder, lambda state: state.phase == "running")
    with socket.create_server(("127.0.0.1", state.ports[8080])):
        time.sleep(0.6)
        seen = read_state(folder)
        assert seen is not None
        assert not seen.is_ready


@pytest.mark.skipif(not IS_ROOT, reason="only root can execute commands as other users")
def test_service_is_ready_when_its_own_user_listens(lab: Lab) -> None:
    server = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"
    main = Command(name="main", argv=(sys.executable, "-c", server, "$(PORT_8080)"), identity=STRANGER)
    readiness = Readiness(port=8080, period_seconds=0.1)
    reachable = (sys.prefix, sys.base_prefix)
    folder = lab.start(Plan(main=main, ports={8080: None}, readiness=readiness, reachable=reachable))
    assert lab.wait(folder, lambda state: state.is_ready).phase == "running"


def test_service_is_not_ready_when_it_answers_with_an_error(lab: Lab) -> None:
    (lab.folder / "broken").touch()
    http = Readiness(port=8080, path="/ok", period_seconds=0.1)
    tcp = Readiness(port=8080, period_seconds=0.1)
    one = lab.start(Plan(main=serve(lab), ports={8080: None}, readiness=http), name="http")
    two = lab.start(Plan(main=serve(lab), ports={8080: None}, readiness=tcp), name="tcp")
    lab.wait(two, lambda state: state.is_ready)
    state = read_state(one)
    assert state is not None
    assert not state.is_ready


def test_ports_differ_when_several_services_prefer_the_same(lab: Lab) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        preferred = probe.getsockname()[1]
    plans = {name: Plan(main=shell("sleep 60"), ports={8080: preferred, 9090: preferred}) for name in "abc"}
    folders = [lab.start(plan, name=name) for name, plan in plans.items()]
    states = [lab.wait(folder, lambda state: state.phase == "running") for folder in folders]
    chosen = [port for state in states for port in state.ports.values()]
    assert len(set(chosen)) == 6
    assert preferred in chosen


def test_port_stays_when_a_service_is_started_again(lab: Lab) -> None:
    main = shell("echo $PORT; exit 1", env={"PORT": "$(PORT_8080)"})
    folder, state = lab.run(Plan(main=main, ports={8080: None}, retries=1))
    assert read_log(folder) == read_log(folder, instance=1) == f"{state.ports[8080]}\n"


def test_container_is_ended_by_its_hooks_when_stopped(lab: Lab) -> None:
    """The "container" is a process that only the hooks know how to end."""
    trace, pid = lab.folder / "trace", lab.folder / "pid"
    hooks = Hooks(
        stop=("sh", "-c", f"echo stop >> {trace}; kill -9 $(cat {pid})"),
        inspect=(
            "sh",
            "-c",
            f'echo inspect >> {trace}; echo \'{{"exit_code": 143, "peak_bytes": 4711, "oom": true}}\'',
        ),
        cleanup=("sh", "-c", f"echo cleanup >> {trace}"),
        env={"PATH": os.environ["PATH"]},
    )
    folder = lab.start(Plan(main=shell(f"trap '' TERM; echo $$ > {pid}; sleep 61"), hooks=hooks))
    wait_for(lambda: pid.exists() and pid.read_text().strip() != "")
    request_stop(folder)
    instance = lab.wait(folder).instances[0]
    assert trace.read_text().split() == ["stop", "inspect", "cleanup"]
    assert (instance.exit_code, instance.peak_bytes, instance.is_out_of_memory) == (143, 4711, True)


@pytest.mark.parametrize("answer", ["", "[]", "{", '{"exit_code": "x"}'])
def test_end_of_main_counts_when_inspection_says_nothing(lab: Lab, answer: str) -> None:
    hooks = Hooks(inspect=("echo", answer), cleanup=("no-such-program",), env={"PATH": os.environ["PATH"]})
    _, state = lab.run(Plan(main=shell("exit 3"), hooks=hooks))
    assert state.instances[0].exit_code == 3


def make_folder(lab: Lab) -> Path:
    folder = lab.folder / "work"
    folder.mkdir()
    if IS_ROOT:
        os.chown(folder, STRANGER.uid, STRANGER.gid)
        lab.folder.chmod(0o755)
    return folder


def run_with_termination(lab: Lab, script: str) -> str | None:
    path = make_folder(lab) / "termination"
    main = shell(script, env={"FILE": str(path)}, identity=STRANGER if IS_ROOT else None)
    _, state = lab.run(Plan(main=main, termination_path=str(path), reachable=(str(path.parent),)))
    assert state.failure is None
    return state.termination


def test_message_is_kept_when_a_command_leaves_one(lab: Lab) -> None:
    assert run_with_termination(lab, "echo ' ValueError: x ' > $FILE; exit 1") == "ValueError: x"


def test_message_is_none_when_a_command_leaves_none(lab: Lab) -> None:
    assert run_with_termination(lab, "exit 1") is None


def test_message_is_cut_when_it_is_long(lab: Lab) -> None:
    message = run_with_termination(lab, "head -c 10000000 /dev/zero | tr '\\0' x > $FILE; printf end >> $FILE")
    assert message == "x" * 4093 + "end"


@pytest.mark.parametrize(
    "script",
    [
        "rm $FILE; ln -s /etc/passwd $FILE",
        "rm $FILE; mkfifo $FILE",
        "rm $FILE; mkdir $FILE",
        "echo x > $FILE.2; rm $FILE; ln $FILE.2 $FILE",
    ],
    ids=["symbolic-link", "fifo", "folder", "hard-link"],
)
def test_message_is_not_read_when_the_file_is_not_a_plain_one(lab: Lab, script: str) -> None:
    assert run_with_termination(lab, script) is None


def test_state_is_json_when_others_read_it(lab: Lab) -> None:
    folder, _ = lab.run(Plan(main=shell("true")))
    assert json.loads((folder / "state.json").read_text())["phase"] == "ended"
