"""A run's end: stop, wait, logs, resume, delete."""

import base64
from typing import Any

from tests.e2e.sdk.scripts.driving import LINE, PROJECT, attempt, dh, new_container, observe, open_project, wait_for

FINAL = ("COMPLETED", "ERROR", "STOPPED")


def texts(run: Any) -> list[str]:
    """What a run said, as far as the line decodes it itself."""
    if LINE >= (0, 16):
        return list(run.logs())
    if LINE >= (0, 15):
        return [log.text for log in run.logs()]
    if LINE >= (0, 14):
        return [log["content"] for log in run.logs()]
    return [base64.b64decode(log["content"]).decode() for log in run.logs()]


def delete(run: Any) -> None:
    """Delete a run as the line's own documentation does."""
    if LINE == (0, 14):
        dh.delete_run(run.key, project=PROJECT, entity_id=run.id)
    else:
        dh.delete_run(run.id, project=PROJECT)


project = open_project()
box = new_container(project, "box")
run = box.run("job", args=["-c", "echo hi"])
observe("submitted", state=run.refresh().status.state)
observe("logs", texts=texts(run))

observe("stop", **attempt(run.stop))
if LINE >= (0, 14):
    is_final = wait_for(lambda: run.refresh().status.state in FINAL)
    observe("stopped", state=run.status.state)
    if is_final:
        observe("waited", state=run.wait(log_info=False).status.state)
    observe("stopped again", **attempt(run.stop), state=run.refresh().status.state)
    observe("resumed", **attempt(run.resume), state=run.refresh().status.state)

delete(run)
observe("deleted", is_gone=wait_for(lambda: attempt(lambda: dh.get_run(run.key))["error"] is not None))
observe("got after delete", **attempt(lambda: dh.get_run(run.key)))
observe("listed after delete", ids=[one.id for one in dh.list_runs(PROJECT)])
