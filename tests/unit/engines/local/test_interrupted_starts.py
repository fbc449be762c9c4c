"""A server that is killed while it starts a run: the next one starts it, once."""

from typing import Any

import pytest

from runyard.domain.outcomes import Seen
from runyard.engines.local import run_starts
from runyard.engines.local.run_folders import RunFolder
from tests.contract.engine.lab import assign, make_anchor, see
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
