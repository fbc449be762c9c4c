"""Runs that are really launched: handlers as DigitalHub's users write them, run to their end."""

import time
from typing import Any

from tests.e2e.sdk.scripts.driving import new_python, observe, open_project, plain

DECORATED = """
import digitalhub as dh
from digitalhub_runtime_python import handler

@handler(outputs=["total", "name"])
def main(project, x, y=1):
    print("project", project.name)
    return x + y, project.name
"""
WITH_CONTEXT = """
from digitalhub_runtime_python import handler

@handler()
def main(project, context, run):
    context.logger.info("from the logger")
    return context.project.name, context.run.id, run.id
"""
PLAIN = """
def main(project, x):
    return x * 2
"""
ASYNC = """
import asyncio
from digitalhub_runtime_python import handler

@handler(outputs=["late"])
async def main(x):
    await asyncio.sleep(0.01)
    return x
"""
ENTITY = """
def main(project):
    return project.new_artifact(name="made", kind="artifact", path="s3://bucket/made.txt")
"""
WITH_INPUT = """
def main(project, item):
    return item.name, item.kind
"""
FAILING = """
from digitalhub_runtime_python import handler

@handler()
def main(project):
    raise ValueError("as written")
"""


def finish(run: Any) -> Any:
    """The run at its end, asked more often than the SDK's own `wait` does."""
    deadline = time.monotonic() + 60
    while run.status.state not in ("COMPLETED", "ERROR", "STOPPED") and time.monotonic() < deadline:
        time.sleep(0.3)
        run.refresh()
    return run


project = open_project()
jobs = {
    "decorated": (DECORATED, {"parameters": {"x": 41}}),
    "context": (WITH_CONTEXT, {}),
    "plain": (PLAIN, {"parameters": {"x": 21}}),
    "async": (ASYNC, {"parameters": {"x": 5}}),
    "entity": (ENTITY, {}),
    "failing": (FAILING, {}),
}
ended = {}
for name, (code, fields) in jobs.items():
    ended[name] = finish(new_python(project, name, code=code).run("job", **fields))
    observe(name, run=plain(ended[name]))
item = project.get_artifact(ended["entity"].status.outputs["output_0"])
run = finish(new_python(project, "input", code=WITH_INPUT).run("job", inputs={"item": item.key}))
observe("input", run=plain(run), result=run.results() if callable(run.results) else run.results)
