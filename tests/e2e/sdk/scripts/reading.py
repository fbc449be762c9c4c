"""Every list of the projects in `RUNYARD_SDK_READ`, each filled by another line."""

import os
from collections.abc import Callable
from typing import Any

from tests.e2e.sdk.scripts.driving import attempt, dh, list_project_names, observe

LISTS: tuple[Callable[[str], Any], ...] = (
    dh.list_functions,
    dh.list_tasks,
    dh.list_runs,
    dh.list_secrets,
    dh.list_artifacts,
    dh.list_dataitems,
    dh.list_models,
)

for name in os.environ["RUNYARD_SDK_READ"].split(","):
    found: dict[str, Any] = {"project": attempt(lambda: dh.get_project(name))}  # noqa: B023 - called at once
    for listing in LISTS:
        entities: list[Any] = []
        ended = attempt(lambda: entities.extend(listing(name)))  # noqa: B023 - called at once
        found[listing.__name__] = {**ended, "kinds": sorted(one.kind for one in entities)}
    observe(name, **found)
observe("projects", names=list_project_names())
