"""`runyard` whose runs have a log at once: there is no engine yet that would bring one."""

import sys
from typing import Any
from unittest.mock import patch

from runyard.app.core import Core
from runyard.app.log_store import Stream
from runyard.app.runs.submission import submit_run
from runyard.cli.main import main
from tests.e2e.sdk.stub_routes import LOG_TEXT


async def submit_and_log(core: Core, *arguments: Any, **options: Any) -> Any:
    """Submit a run, and leave its log in the server's own store."""
    run, transitions = await submit_run(core, *arguments, **options)
    stream = Stream(run_uid=run.uid, pod=f"run-{run.id}", container="main")
    await core.logs.append(stream, LOG_TEXT.encode(), offset=0, at=core.clock.now())
    return run, transitions


if __name__ == "__main__":
    with patch("runyard.api.routes.runs.submit_run", submit_and_log):
        sys.exit(main())
