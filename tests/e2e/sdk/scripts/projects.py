"""Projects: create or get, describe, list, change, delete, and create again under the same name."""

from tests.e2e.sdk.scripts.driving import (
    LINE,
    PROJECT,
    attempt,
    dh,
    list_project_names,
    new_container,
    observe,
    plain,
    save_changes,
    wait_for,
)

words = {"description": "first words", "labels": ["blue", "green"]}
# In 0.13.4 get_or_create_project hands a description to the GET, which cannot take one.
project = (dh.get_or_create_project if LINE >= (0, 14) else dh.new_project)(PROJECT, **words)
observe("created", entity=plain(project))
observe("got again", entity=plain(dh.get_or_create_project(PROJECT)))
observe("got", entity=plain(dh.get_project(PROJECT)))
observe("listed", names=list_project_names())
observe("new again", **attempt(lambda: dh.new_project(PROJECT)))

project.metadata.description = "other words"
save_changes(project)
observe("changed", description=dh.get_project(PROJECT).metadata.description)

new_container(project, "leftover")
project.new_secret(name="leftover", secret_value="old value")
dh.delete_project(PROJECT)
observe("gone", is_gone=wait_for(lambda: attempt(lambda: dh.get_project(PROJECT))["error"] is not None))
observe("got after delete", **attempt(lambda: dh.get_project(PROJECT)))
observe("listed after delete", names=list_project_names())
observe("deleted again", **attempt(lambda: dh.delete_project(PROJECT)))

reborn = dh.get_or_create_project(PROJECT)
observe(
    "created again",
    description=plain(reborn)["metadata"].get("description"),
    functions=[one.name for one in reborn.list_functions()],
    secrets=[one.name for one in reborn.list_secrets()],
)
