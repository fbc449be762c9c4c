"""A python job that runs in this very process: the client drives it through its states, the server keeps them."""

from tests.e2e.sdk.scripts.driving import PROJECT, attempt, dh, new_python, observe, open_project, plain

NAMED = """
from digitalhub_runtime_python import handler

@handler(outputs=["total", "words"])
def main(x, y):
    return x + y, f"{x} and {y}"
"""

project = open_project()
run = new_python(project, "grow").run("job", parameters={"x": 41}, local_execution=True)
observe("ended", state=run.status.state, results=plain(dh.get_run(run.key))["status"].get("results"))
observe("stored", entity=plain(dh.get_run(run.key)))

named = new_python(project, "named", code=NAMED).run("job", parameters={"x": 2, "y": 3}, local_execution=True)
observe("named", status=plain(dh.get_run(named.key))["status"])

failing = new_python(project, "failing", code="def main():\n    raise ValueError('on purpose')\n")
observe("raised", **attempt(lambda: failing.run("job", local_execution=True)))
(left,) = failing.list_runs()
observe("failed", status=plain(left)["status"])
observe("listed", states=sorted(one.status.state for one in dh.list_runs(PROJECT)))
