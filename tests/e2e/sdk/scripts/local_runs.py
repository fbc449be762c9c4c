"""Runs that a server with the local engine executes: jobs, a stop, a service, containers; in their users' own words."""

import json
import os
import time
from typing import Any

from tests.e2e.sdk.scripts.driving import (
    LINE,
    PROJECT,
    attempt,
    delete_run,
    dh,
    new_container,
    new_python,
    observe,
    open_project,
    plain,
    read_texts,
    requests,
    resources,
    wait_for,
)

PLAIN = """
import os
import sys

def main(x, deep, word="none"):
    print("x is", x)
    print("to the other side", file=sys.stderr)
    return x + 1, {"deep": deep, "word": word, "variable": os.environ["GREETING"]}
"""
WRITTEN_FOR_DIGITALHUB = """
import digitalhub as dh
from digitalhub_runtime_python import handler

@handler(outputs=["total", "project", "run", "item"])
def main(project, context, item, x, y=1):
    context.logger.info("from the logger of the context")
    return x + y, project.name, context.run.id, item.name
"""
FAILING = """
def main(x):
    raise ValueError(f"as written: {x}")
"""
ENDLESS = """
import time

def main():
    print("begun", flush=True)
    time.sleep(3600)
"""
SERVING = """
def main(x=1):
    return {"next": x + 1}
"""
FINAL = ("COMPLETED", "ERROR", "STOPPED")
SECONDS = 90
REQUIREMENTS = json.loads(os.environ["RUNYARD_SDK_REQUIREMENTS"])
IMAGE = os.environ.get("RUNYARD_SDK_IMAGE")
SMALL = resources(cpu="50m", mem="256Mi")


def finish(run: Any) -> Any:
    """The run at its end, asked more often than the SDK's own `wait` does."""
    deadline = time.monotonic() + SECONDS
    while run.refresh().status.state not in FINAL and time.monotonic() < deadline:
        time.sleep(0.3)
    return run


project = open_project()
item = project.new_artifact(name="item", kind="artifact", path="s3://bucket/item.txt")

# All begin at once: the environment with the packages of the line takes longest to build.
written = new_python(project, "written", code=WRITTEN_FOR_DIGITALHUB, requirements=REQUIREMENTS).run(
    "job", parameters={"x": 40, "y": 2}, inputs={"item": item.key}, resources=SMALL
)
served = new_python(project, "served", code=SERVING).run("serve", resources=SMALL)
endless = new_python(project, "endless", code=ENDLESS).run("job", resources=SMALL)
failed = new_python(project, "failed", code=FAILING).run("job", parameters={"x": 3}, resources=SMALL)
job = new_python(project, "plain", code=PLAIN).run(
    "job",
    parameters={"x": 41, "deep": {"list": [1, "two", None]}},
    envs=[{"name": "GREETING", "value": "hello"}],
    resources=SMALL,
)
box = new_container(project, "box", image=IMAGE).run("job", args=["-c", "echo from a box"]) if IMAGE else None

finish(job)
wait_for(lambda: "to the other side" in "".join(read_texts(job)))
observe(
    "job", run=plain(job), results=job.results() if callable(job.results) else job.results, log="".join(read_texts(job))
)
observe("failed", run=plain(finish(failed)))

wait_for(lambda: endless.refresh().status.state == "RUNNING" and "begun" in "".join(read_texts(endless)))
observe("endless", state=endless.status.state, stop=attempt(endless.stop))
if LINE <= (0, 13):  # this line calls its own client wrongly: a user stops the run by other means
    user = (os.environ["DHCORE_USER"], os.environ["DHCORE_PASSWORD"])
    requests.post(
        f"{os.environ['DHCORE_ENDPOINT']}/api/v1/-/{PROJECT}/runs/{endless.id}/stop", auth=user, timeout=30
    ).raise_for_status()
observe("stopped", run=plain(finish(endless)))

wait_for(lambda: served.refresh().status.state == "RUNNING" and bool(served.status.service))
url = served.status.service["url"]
observe("served", run=plain(served))
invoked = served.invoke(json={"x": 41})
direct = requests.post(f"http://{url}", json={"x": 1}, timeout=30)
observe("invoked", status=invoked.status_code, answer=invoked.json(), direct=direct.json())
delete_run(served)
observe(
    "deleted",
    is_gone=wait_for(lambda: attempt(lambda: dh.get_run(served.key))["error"] is not None),
    is_silent=wait_for(lambda: attempt(lambda: requests.get(f"http://{url}", timeout=5))["error"] is not None),
)

if box is not None:
    finish(box)
    wait_for(lambda: "from a box" in "".join(read_texts(box)))
    observe("box", run=plain(box), log="".join(read_texts(box)))
finish(written)
wait_for(lambda: "from the logger" in "".join(read_texts(written)))
observe("written", run=plain(written), item=item.name, log="".join(read_texts(written)))
observe("listed", states=sorted(one.status.state for one in dh.list_runs(PROJECT)), line=LINE)
