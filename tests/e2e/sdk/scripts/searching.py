"""Search over a project's entities by type, name, kind, description, labels and words."""

from typing import Any

from tests.e2e.sdk.scripts.driving import LINE, PROJECT, dh, new_container, new_python, observe, open_project

project = open_project()
new_python(project, "grow", description="makes things larger", labels=["calm", "slow"])
new_container(project, "box", description="holds things", labels=["calm"])
project.new_artifact(name="weights", kind="artifact", path="s3://bucket/weights.bin", description="of a model")


def names(**wanted: Any) -> list[str]:
    """What a search finds; since 0.15 the entities come with those that could not be read."""
    found = project.search_entity(**wanted)
    living = found[0] if LINE >= (0, 15) else found
    return sorted(f"{one.ENTITY_TYPE}/{one.name}" for one in living)


observe("functions", names=names(entity_types=["function"]))
observe("two types", names=names(entity_types=["function", "artifact"]))
observe("name", names=names(entity_types=["function"], name="grow"))
observe("kind", names=names(entity_types=["function"], kind="container"))
observe("description", names=names(entity_types=["function"], description="larger"))
observe("labels", names=names(entity_types=["function"], labels=["calm", "slow"]))
observe("words", names=names(entity_types=["function"], query="box"))
observe("nothing", names=names(name="no-such-name"))
found = dh.search_entity(PROJECT, entity_types=["artifact"])
observe("by module", count=len(found[0] if LINE >= (0, 15) else found))
