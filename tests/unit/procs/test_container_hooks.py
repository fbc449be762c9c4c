"""What a supervisor does for a main command that only represents a container."""

from pathlib import Path

from runyard.procs import Hooks, Limits, Plan, request_stop
from tests.unit.procs.lab import PATH, Lab, read_log, shell


def _hook(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def test_standard_input_is_the_plans_text_when_a_command_has_one(lab: Lab) -> None:
    text = "a secret of two lines\n" * 20_000
    folder, state = lab.run(Plan(main=shell("wc -l; ls -l /proc/self/fd/0", stdin=text)))
    assert state.instances[-1].exit_code == 0
    assert read_log(folder).splitlines()[0] == "20000"
    assert not [path for path in folder.rglob("*") if path.is_file() and b"a secret of two" in path.read_bytes()]


def test_hooks_run_in_order_while_the_tree_lives_when_main_ends(lab: Lab, tmp_path: Path) -> None:
    story = tmp_path / "story"
    hooks = Hooks(
        inspect=_hook(f"""echo inspect >> {story}; echo '{{"exit_code": 7, "oom": true, "peak_bytes": 123456}}'"""),
        cleanup=_hook(f"pgrep -f 'sleep 3[0]99' > /dev/null && echo cleanup while it lives >> {story}"),
        env={"PATH": PATH},
    )
    _, state = lab.run(Plan(main=shell("setsid sleep 3099 & exit 1"), hooks=hooks))
    assert story.read_text() == "inspect\ncleanup while it lives\n"
    last = state.instances[-1]
    assert (last.exit_code, last.is_out_of_memory, last.peak_bytes) == (7, True, 123456)


def test_peak_is_unknown_when_the_inspect_hook_does_not_know_it(lab: Lab) -> None:
    hooks = Hooks(inspect=_hook("""echo '{"exit_code": 0, "oom": false, "peak_bytes": null}'"""), env={"PATH": PATH})
    _, state = lab.run(Plan(main=shell("true"), hooks=hooks))
    assert state.instances[-1].peak_bytes is None


def test_stop_hook_is_told_the_grace_when_a_request_shortens_it(lab: Lab, tmp_path: Path) -> None:
    said = tmp_path / "said"
    main = shell(f"trap 'exit 3' USR1; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done")
    hooks = Hooks(
        stop=(*_hook(f"echo $0 > {said}; kill -USR1 $(cat {tmp_path}/pid)"), "$(GRACE_SECONDS)"), env={"PATH": PATH}
    )
    folder = lab.start(Plan(main=main, hooks=hooks, grace_seconds=30))
    lab.wait(folder, lambda _: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
    request_stop(folder, grace_seconds=4)
    assert lab.wait(folder).instances[-1].exit_code == 3
    assert said.read_text() == "4\n"


def test_main_is_starting_when_its_container_does_not_run_yet(lab: Lab, tmp_path: Path) -> None:
    started = tmp_path / "started"
    folder = lab.start(Plan(main=shell("sleep 61"), hooks=Hooks(started_path=str(started))))
    state = lab.wait(folder, lambda state: bool(state.instances))
    assert (state.phase, state.is_ready) == ("starting", False)
    started.touch()
    state = lab.wait(folder, lambda state: state.phase == "running")
    assert state.is_ready


def test_end_is_known_when_a_container_ends_before_it_was_seen_to_run(lab: Lab, tmp_path: Path) -> None:
    _, state = lab.run(Plan(main=shell("exit 4"), hooks=Hooks(started_path=str(tmp_path / "never"))))
    assert state.instances[-1].exit_code == 4


def test_signal_is_recorded_when_the_inspect_hook_tells_one(lab: Lab) -> None:
    hooks = Hooks(inspect=_hook("""echo '{"signal": 9, "oom": false}'"""), env={"PATH": PATH})
    _, state = lab.run(Plan(main=shell("exit 137"), hooks=hooks))
    last = state.instances[-1]
    assert (last.exit_code, last.signal) == (None, 9)


def test_inspection_does_not_count_when_the_supervisor_killed_all_for_memory(lab: Lab) -> None:
    hooks = Hooks(
        inspect=_hook("""echo '{"exit_code": 0, "oom": false, "peak_bytes": null}'"""),
        runtime_bytes=32 << 20,
        env={"PATH": PATH},
    )
    main = shell("head -c 300m /dev/zero | tail -c 290m | sleep 20")
    _, state = lab.run(Plan(main=main, hooks=hooks, limits=Limits(memory_bytes=32 << 20)), name="container")
    last = state.instances[-1]
    assert (last.exit_code, last.signal, last.is_out_of_memory) == (None, 9, True)
    if state.enforced["memory"] == "watchdog":
        assert last.peak_bytes is not None
        assert last.peak_bytes > 32 << 20
