"""Files of a run in, an observation out."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from runyard.app.engine import LARGEST_DETAILS_BYTES, LONGEST_MESSAGE_BYTES, STATUS_KEYS
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.engines.local.folders.run_folders import AnchorRecord, ReleaseRecord, WishRecord
from runyard.engines.local.observations import RunFiles, Waiting, is_live, observe_run
from runyard.procs import Failure, Instance, State

NOW = datetime(2026, 11, 16, tzinfo=UTC)
ANCHOR = AnchorRecord(
    place="a", uid="u", run_uid="r", run_id="r1", project="p", action="job", name="run-r1", sequence=1
)


def make_instance(**fields: Any) -> Instance:
    return Instance(**{"command": "main", "instance": 0, "pid": 7, "started_at": NOW, **fields})


def make_state(phase: Any, *instances: Instance, **fields: Any) -> State:
    return State(**{"version": 5, "phase": phase, "mark": "m", "instances": instances, "supervisor_pid": 6, **fields})


def make_files(wish: Any = "run", state: State | None = None, *, action: str = "job", **fields: Any) -> RunFiles:
    release = 0 if state is None and not fields.get("is_supervised") else 1
    return RunFiles(
        **{
            "anchor": replace(ANCHOR, action=action),
            "wish": WishRecord(generation=3, wish=wish, version=10, release=release),
            "state": state,
            "is_supervised": state is not None and not state.is_ended,
            "release": ReleaseRecord(demand={}),
            **fields,
        }
    )


DONE = make_instance(ended_at=NOW, exit_code=0)
FAILED = make_instance(ended_at=NOW, exit_code=3)


@pytest.mark.parametrize(
    ("files", "seen"),
    [
        (make_files("hold"), Seen.HELD),
        (make_files("stop"), Seen.STOPPED),
        (make_files("run"), Seen.HELD),
        (make_files("run", None, is_supervised=True), Seen.PENDING),
        (make_files("hold", waiting=Waiting("resources.waiting", "waits")), Seen.PENDING),
        (make_files("run", make_state("setup")), Seen.PENDING),
        (make_files("run", make_state("starting")), Seen.PENDING),
        (make_files("run", make_state("running", is_ready=True)), Seen.RUNNING),
        (make_files("run", make_state("running"), action="serve"), Seen.PENDING),
        (make_files("run", make_state("restarting", FAILED), action="serve"), Seen.PENDING),
        (make_files("stop", make_state("stopping")), Seen.RUNNING),
        (make_files("remove", make_state("stopping")), Seen.RUNNING),
        (make_files("run", make_state("ended", DONE)), Seen.SUCCEEDED),
        (make_files("run", make_state("ended", FAILED)), Seen.FAILED),
        (make_files("run", make_state("ended", FAILED, DONE)), Seen.SUCCEEDED),
        (make_files("stop", make_state("ended", DONE)), Seen.SUCCEEDED),
        (make_files("stop", make_state("ended", DONE, is_stop_requested=True)), Seen.STOPPED),
        (make_files("run", make_state("ended", DONE), action="serve"), Seen.FAILED),
        (make_files("run", make_state("ended", is_stop_requested=True)), Seen.STOPPED),
        (make_files("hold", make_state("ended", DONE, is_stop_requested=True), action="serve"), Seen.HELD),
        (
            make_files("run", make_state("ended", failure=Failure(code="mount.impossible", message="no"))),
            Seen.FAILED,
        ),
        (
            make_files(
                "stop",
                make_state("ended", is_stop_requested=True, failure=Failure(code="step.failed", message="killed")),
            ),
            Seen.STOPPED,
        ),
    ],
)
def test_state_follows_from_the_files_when_they_are_read(files: RunFiles, seen: Seen) -> None:
    observation = observe_run(files)
    assert observation.seen is seen
    assert (observation.run_uid, observation.uid, observation.generation) == ("r", "u", 3)


def test_version_is_that_of_wish_and_state_together_when_both_are_there() -> None:
    assert observe_run(make_files("hold")).version == 10
    assert observe_run(make_files("run", make_state("running"))).version == 15


def test_run_is_live_when_its_state_has_not_ended() -> None:
    assert is_live(make_files("run", make_state("running")))
    assert is_live(make_files("run", make_state("running"), is_supervised=False))
    assert is_live(make_files("run", None, is_supervised=True))
    assert not is_live(make_files("run", make_state("ended"), is_supervised=True))
    assert not is_live(make_files("hold"))


def test_waiting_is_told_in_the_engines_words_when_there_is_no_room() -> None:
    seen = observe_run(make_files("hold", waiting=Waiting("resources.waiting", "waits for cpu")))
    assert (seen.reason, seen.message) == ("resources.waiting", "waits for cpu")


@pytest.mark.parametrize(
    ("state", "reason", "message"),
    [
        (make_state("ended", FAILED), Reason.RUN_FAILED, "the process ended with exit code 3"),
        (
            make_state("ended", make_instance(ended_at=NOW, signal=9)),
            Reason.RUN_FAILED,
            "the process was killed by SIGKILL",
        ),
        (
            make_state("ended", make_instance(ended_at=NOW, signal=63)),
            Reason.RUN_FAILED,
            "the process was killed by signal 63",
        ),
        (make_state("ended", FAILED, termination="boom\n"), Reason.RUN_FAILED, "boom"),
        (
            make_state("ended", FAILED, termination='{"runyard": 1, "message": "ValueError: x", "peak_bytes": 7}'),
            Reason.RUN_FAILED,
            "ValueError: x",
        ),
        (
            make_state("ended", failure=Failure(code="user.impossible", message="not root")),
            Reason.USER_IMPOSSIBLE,
            "not root",
        ),
        (make_state("ended", failure=Failure(code="unheard.of", message="odd")), Reason.RUN_FAILED, "odd"),
    ],
)
def test_failure_says_why_when_a_run_has_failed(state: State, reason: str, message: str) -> None:
    seen = observe_run(make_files("run", state))
    assert (seen.reason, seen.message) == (reason, message)


def test_last_lines_are_the_message_when_a_step_failed() -> None:
    step = make_instance(command="environment", ended_at=NOW, exit_code=1)
    state = make_state("ended", step, failure=Failure(code="step.failed", message="environment exited with code 1"))
    seen = observe_run(make_files("run", state, step_log=b"resolving\nno such package: nunpy\n"))
    assert seen.reason == Reason.ENVIRONMENT_FAILED
    assert "no such package: nunpy" in (seen.message or "")
    assert [(end.container, end.exit_code) for end in seen.ends] == [("environment", 1)]


def test_image_is_missing_when_the_step_that_looks_for_it_failed() -> None:
    step = make_instance(command="image", ended_at=NOW, exit_code=1)
    state = make_state("ended", step, failure=Failure(code="step.failed", message="image exited with code 1"))
    seen = observe_run(make_files("run", state, step_log=b"Error: manifest unknown\n"))
    assert seen.reason == Reason.IMAGE_MISSING
    assert seen.message == "the image could not be pulled:\nError: manifest unknown"


def test_next_request_is_proposed_when_memory_ran_out() -> None:
    end = make_instance(ended_at=NOW, signal=9, is_out_of_memory=True, peak_bytes=100 << 20)
    release = ReleaseRecord(demand={"memory": 100 << 20}, memory_limit_bytes=100 << 20)
    seen = observe_run(make_files("run", make_state("ended", end), release=release))
    assert seen.reason == Reason.MEMORY_EXCEEDED
    assert seen.message == "out of memory: it used 100Mi and its limit is 100Mi; try resources.mem: 128Mi"
    assert seen.ends[0].is_out_of_memory


def test_steps_that_went_well_are_no_ends_when_a_run_has_ended() -> None:
    step = make_instance(command="environment", ended_at=NOW, exit_code=0)
    seen = observe_run(make_files("run", make_state("ended", step, DONE)))
    assert [(end.pod, end.container, end.exit_code) for end in seen.ends] == [("run-r1-1", "main", 0)]


def test_peak_is_the_launchers_when_the_machine_measured_none() -> None:
    told = '{"runyard": 1, "peak_bytes": 4711}'
    seen = observe_run(make_files("run", make_state("ended", DONE, termination=told)))
    assert seen.ends[0].peak_bytes == 4711


def test_message_is_cut_when_a_program_wrote_much() -> None:
    seen = observe_run(make_files("run", make_state("ended", FAILED, termination="ä" * 5000)))
    assert seen.message is not None
    assert len(seen.message.encode()) <= LONGEST_MESSAGE_BYTES


def test_service_has_the_url_of_its_first_port_when_it_runs() -> None:
    ports = [{"name": "http", "port": 80, "target_port": 8080}, {"name": "admin", "port": 81, "target_port": 8081}]
    release = ReleaseRecord(demand={}, service={"type": "ClusterIP", "name": "run-r1", "ports": ports})
    state = make_state("running", is_ready=True, ports={8080: 40001, 8081: 40002})
    service = observe_run(make_files("run", state, action="serve", release=release)).details["service"]
    assert (service["url"], service["urls"]) == ("127.0.0.1:40001", ["127.0.0.1:40001", "127.0.0.1:40002"])
    assert [port["host_port"] for port in service["ports"]] == [40001, 40002]
    ended = observe_run(
        make_files("stop", make_state("ended", is_stop_requested=True), action="serve", release=release)
    )
    assert "service" not in ended.details


def test_details_say_what_is_not_enforced_and_stay_small_when_there_is_much() -> None:
    notes = tuple(f"{number}: {'x' * 1000}" for number in range(100))
    release = ReleaseRecord(demand={}, not_enforced=notes)
    state = make_state("running", enforced={"memory": "watchdog", "cpu": "no"})
    details = observe_run(make_files("run", state, release=release)).details
    assert set(details) <= set(STATUS_KEYS)
    assert len(json.dumps(details)) <= LARGEST_DETAILS_BYTES
    assert details["events"][0] == {"type": "Warning", "reason": "NotEnforced", "message": notes[0]}
    few = observe_run(make_files("run", state)).details["events"]
    assert [event["message"] for event in few] == [
        "the limit of CPU time is not enforced: the machine gives the server no cgroup"
    ]
