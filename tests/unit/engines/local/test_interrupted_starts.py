"""A server that is killed while it starts a run: the next one starts it, once."""

from typing import Any

import pytest

from runyard.domain.outcomes import Seen
from runyard.engines.local import local_engine, run_starts, run_watch
from runyard.engines.local.folders.run_folders import RunFolder
from tests.contract.engine.lab import assign, assign_again, begin_and_see, make_anchor, see
from tests.contract.engine.local_lab import open_local_lab

STEPS = {
    "before its release is made": (RunFolder, "create_release"),
    "before its objects are written": (RunFolder, "write_objects"),
    "before its folders are made": (run_starts._Prepared, "make_folders"),
    "before the release is noted": (RunFolder, "write_wish"),
    "before its supervisor is started": (run_starts, "start"),
}


class Killed(BaseException):
    """Ends everything at once."""


@pytest.mark.parametrize("ending", ["stop", "remove"])
async def test_run_ends_when_the_server_is_killed_before_it_tells_the_supervisor(
    ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_local_lab() as lab:
        run = assign(lab, "sleep 1000")
        anchor = await begin_and_see(lab, run, Seen.RUNNING)
        with monkeypatch.context() as patch:
            for module in (local_engine, run_watch):
                patch.setattr(module, "request_stop", lambda *_arguments, **_options: True)
            if ending == "stop":
                await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
            else:
                await lab.engine.remove(anchor)
            await lab.engine.close()
        lab.engine = await lab.reopen()
        await see(lab, anchor, Seen.STOPPED if ending == "stop" else Seen.ABSENT)


@pytest.mark.parametrize("step", STEPS)
async def test_run_starts_once_when_the_server_is_killed(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = STEPS[step]

    def be_killed(*_arguments: Any, **_options: Any) -> None:
        raise Killed

    async with open_local_lab() as lab:
        run = assign(lab, "echo begun")
        uid = await lab.engine.ensure_anchor(run)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, be_killed)
            with pytest.raises(Killed):
                await lab.engine.release(run, uid)
        after = await lab.reopen()
        assert (await after.observe(make_anchor(run, uid))).seen is Seen.HELD
        await after.release(run, uid)
        lab.engine = after
        await see(lab, make_anchor(run, uid), Seen.SUCCEEDED)
        started = list((lab.place / "runs" / run.run_uid / "releases").glob("*/supervision/state.json"))
        assert len(started) == 1
