"""The recorded statuses of a real cluster as the caches would have them (tests/cluster/engine/record_statuses.py)."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runyard.engines.kubernetes.run_objects import AnchorView, RunObjects
from runyard.engines.kubernetes.views import ClaimView, DeploymentView, EventView, JobView, PodView, ServiceView
from tests.unit.engines.kubernetes.observations.objects import decode

FOLDER = Path(__file__).parents[4] / "data" / "kubernetes" / "statuses"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def read_recorded(name: str) -> dict[str, Any]:
    """The JSON of one scenario."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def make_recorded(name: str, **fields: Any) -> RunObjects:
    """The objects of one scenario."""
    return replace(make_objects(read_recorded(name)), **fields)


def make_objects(found: Mapping[str, Any]) -> RunObjects:
    """The objects of a run, from the JSON of a scenario."""
    anchor: AnchorView
    if "backoffLimit" in found["anchor"]["spec"]:
        anchor = decode(JobView, found["anchor"])
    else:
        anchor = decode(DeploymentView, found["anchor"])
    return RunObjects(
        anchor=anchor,
        pods=tuple(decode(PodView, pod) for pod in found.get("pods", [])),
        services=tuple(decode(ServiceView, service) for service in found.get("services", [])),
        claims=tuple(decode(ClaimView, claim) for claim in found.get("claims", [])),
        events=tuple(decode(EventView, event) for event in found.get("events", [])),
    )
