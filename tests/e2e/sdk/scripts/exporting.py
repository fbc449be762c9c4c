"""A project goes out into files and comes back: under its old ids, twice, and by load."""

from tests.e2e.sdk.scripts.driving import (
    PROJECT,
    attempt,
    dh,
    narrow,
    new_container,
    new_python,
    observe,
    open_project,
    plain,
)

project = open_project()
grow = new_python(project, "grow", description="kept")
box = new_container(project, "box")
embedded = new_container(project, "inside", embedded=True)
artifact = project.new_artifact(name="weights", kind="artifact", path="s3://bucket/weights.bin")
file = project.export()
observe("exported", file=file, ids=[grow.id, box.id, embedded.id], artifact=artifact.id)

dh.delete_project(PROJECT)
back = dh.import_project(file)
observe(
    "imported",
    ids=[one.id for one in back.list_functions()],
    artifacts=[one.id for one in back.list_artifacts()],
    description=back.get_function("grow").metadata.description,
    source=plain(back.get_function("grow"))["spec"]["source"],
    expected=plain(grow)["spec"]["source"],
)
observe("imported again", **attempt(lambda: dh.import_project(file)))
observe("ids after that", ids=[one.id for one in dh.get_project(PROJECT).list_functions(**narrow(versions="all"))])
observe("loaded", **attempt(lambda: dh.load_project(file)))

path = dh.get_function(grow.key).export()
dh.delete_function(grow.key)
observe("function gone", names=[one.name for one in back.list_functions()])
observe("function loaded", id=dh.load_function(path).id, newest=back.get_function("grow").id)
observe("function imported again", **attempt(lambda: dh.import_function(path)))
