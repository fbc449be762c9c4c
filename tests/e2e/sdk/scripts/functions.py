"""Functions of both kinds, and their versions: newest first, all of them, by name and by id, deleted one by one."""

import base64
import uuid

from tests.e2e.sdk.scripts.driving import (
    LINE,
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
chosen_id = str(uuid.uuid4())
first = new_python(project, "grow", code="def main():\n    return 1\n", requirements=["six==1.17.0"], labels=["calm"])
second = new_python(project, "grow", code="def main():\n    return 2\n", description="the second")
third = new_python(project, "grow", code="def main():\n    return 3\n", uuid=chosen_id)
box = new_container(project, "box", image_pull_policy="IfNotPresent", labels=["calm", "loud"])
observe("made", versions=[first.id, second.id, third.id], chosen_id=chosen_id, box=box.id)

python, container = dh.get_function(first.key), dh.get_function(box.key)
observe("python", entity=plain(python), code=base64.b64decode(plain(python)["spec"]["source"]["base64"]).decode())
observe("container", entity=plain(container))

observe("newest", ids=[one.id for one in project.list_functions()])
observe("all", ids=[one.id for one in dh.list_functions(PROJECT, **narrow(versions="all"))])
observe("versions", ids=[one.id for one in project.get_function_versions("grow")])
observe("by name", id=project.get_function("grow").id)
observe("by id", id=project.get_function("grow", entity_id=first.id).id)
observe("by key", id=dh.get_function(second.key).id, description=dh.get_function(second.key).metadata.description)
observe("by kind", names=[one.name for one in dh.list_functions(PROJECT, **narrow(kind="container"))])
observe("by exact name", names=[one.name for one in dh.list_functions(PROJECT, **narrow(name="grow"))])
observe("by part of a name", names=[one.name for one in dh.list_functions(PROJECT, **narrow(name="gro"))])
if LINE >= (0, 16):
    observe("by labels", names=[one.name for one in dh.list_functions(PROJECT, labels=["calm", "loud"])])

observe("same id", **attempt(lambda: new_python(project, "grow", uuid=chosen_id)))
observe("no such name", **attempt(lambda: project.get_function("shrink")))
observe("no such id", **attempt(lambda: project.get_function("grow", entity_id="0" * 32)))

project.delete_function("grow", entity_id=third.id)
observe("one deleted", newest=project.get_function("grow").id)
again = new_python(project, "grow", uuid=chosen_id)
observe("id used again", id=again.id, newest=project.get_function("grow").id)
project.delete_function("grow", delete_all_versions=True)
observe("all deleted", names=[one.name for one in dh.list_functions(PROJECT, **narrow(versions="all"))])
