"""Refusals as the exceptions that the SDK has for them, with the server's words in their text."""

from tests.e2e.sdk.scripts.driving import (
    PROJECT,
    attempt,
    dh,
    new_container,
    new_python,
    observe,
    open_project,
    read_path,
    resources,
)

MISSING = "0" * 32

project = open_project()
box = new_container(project, "box")
observe("project missing", **attempt(lambda: dh.get_project(f"{PROJECT}-x")))
observe("function missing", **attempt(lambda: dh.get_function("box", project=PROJECT, entity_id=MISSING)))
observe("run missing", **attempt(lambda: dh.get_run(MISSING, project=PROJECT)))
observe("delete missing", **attempt(lambda: dh.delete_function("box", project=PROJECT, entity_id=MISSING)))
observe("name missing", **attempt(lambda: dh.get_function("nothing", project=PROJECT)))
observe("project again", **attempt(lambda: dh.new_project(PROJECT)))
observe("id again", **attempt(lambda: new_container(project, "box", uuid=box.id)))
observe("kind missing", **attempt(lambda: read_path(project, "/api/v1/schemas/function/nonsense")))
observe("bad quantity", **attempt(lambda: box.run("job", resources=resources(mem="12zz"))))
observe("bad profile", **attempt(lambda: box.run("job", profile="no-such-profile")))
observe("bad secret", **attempt(lambda: box.run("job", secrets=["no-such-secret"])))
observe("no run of them", ids=[one.id for one in dh.list_runs(PROJECT)])
grow = new_python(project, "grow")
dh.delete_function("grow", project=PROJECT, entity_id=grow.id)
observe("deleted before", **attempt(grow.refresh))
