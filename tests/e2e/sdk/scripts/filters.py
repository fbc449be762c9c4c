"""Lists of runs, narrowed by state, kind, function, task, action and name."""

from tests.e2e.sdk.scripts.driving import (
    PROJECT,
    dh,
    narrow,
    new_container,
    new_python,
    observe,
    open_project,
    run_kind,
)

project = open_project()
box, grow = new_container(project, "box"), new_python(project, "grow")
in_box = [box.run("job"), box.run("job")]
grown = grow.run("job", parameters={"x": 1})
local = grow.run("job", parameters={"x": 2}, local_execution=True)
observe("made", box=[run.id for run in in_box], grown=grown.id, local=local.id, state=grown.refresh().status.state)

references = {one.name: f"{one.kind}://{PROJECT}/{one.name}:{one.id}" for one in (box, grow)}


def ids(**filters: str) -> list[str]:
    """The runs that a list with these filters answers."""
    return [run.id for run in dh.list_runs(PROJECT, **narrow(**filters))]


observe("all", ids=ids())
observe("completed", ids=ids(state="COMPLETED"))
observe("as the others", ids=ids(state=grown.status.state))
observe("stopped", ids=ids(state="STOPPED"))
observe("kind", ids=ids(kind=run_kind("container", "job")))
observe("function", ids=ids(function=references["grow"]))
observe("function and state", ids=ids(function=references["grow"], state="COMPLETED"))
observe("task", ids=ids(task=in_box[0].spec.task))
observe("action", ids=ids(action="job"))
observe("another action", ids=ids(action="serve"))
observe("name", ids=ids(name=grown.name if hasattr(grown, "name") else grown.id))
observe("by the function", ids=[run.id for run in box.list_runs()])
