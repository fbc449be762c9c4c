"""`runyard` whose runs have a log at once: there is no engine yet that would bring one."""

import sys
from typing import Any

from runyard.api.routes import runs
from runyard.app.core import Core
from runyard.app.ports import Stream
from runyard.cli.main import main
from tests.e2e.sdk.stub_routes import LOG_TEXT


def write_logs() -> None:
    """Let every run that is submitted leave its log in the server's own store."""
    submit = runs.submit_run

    async def submit_and_log(core: Core, *arguments: Any, **options: Any) -> Any:
        run, transitions = await submit(core, *arguments, **options)
        stream = Stream(run_id=run.id, pod=f"run-{run.id}", container="main")
        await core.logs.append(stream, LOG_TEXT.encode(), offset=0, at=core.clock.now())
        return run, transitions

    runs.submit_run = submit_and_log


if __name__ == "__main__":
    write_logs()
    sys.exit(main())
