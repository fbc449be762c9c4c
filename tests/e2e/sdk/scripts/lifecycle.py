"""A run's end: stop, wait, logs, resume, delete."""

from tests.e2e.sdk.scripts.driving import (
    LINE,
    PROJECT,
    attempt,
    delete_run,
    dh,
    new_container,
    observe,
    open_project,
    read_texts,
    wait_for,
)

FINAL = ("COMPLETED", "ERROR", "STOPPED")

project = open_project()
box = new_container(project, "box")
run = box.run("job", args=["-c", "echo hi"])
observe("submitted", state=run.refresh().status.state)
observe("logs", texts=read_texts(run))

observe("stop", **attempt(run.stop))
if LINE >= (0, 14):
    is_final = wait_for(lambda: run.refresh().status.state in FINAL)
    observe("stopped", state=run.status.state)
    if is_final:
        observe("waited", state=run.wait(log_info=False).status.state)
    observe("stopped again", **attempt(run.stop), state=run.refresh().status.state)
    observe("resumed", **attempt(run.resume), state=run.refresh().status.state)

delete_run(run)
observe("deleted", is_gone=wait_for(lambda: attempt(lambda: dh.get_run(run.key))["error"] is not None))
observe("got after delete", **attempt(lambda: dh.get_run(run.key)))
observe("listed after delete", ids=[one.id for one in dh.list_runs(PROJECT)])
