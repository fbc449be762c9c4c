"""Finding parts of rendered objects."""

from collections.abc import Iterator, Mapping
from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import RunIdentity
from runyard.manifests.render import render_run
from tests.unit.manifests.samples import IDENTITY, SECRET_VALUES

Object = dict[str, Any]


def render(spec: EffectiveSpec, identity: RunIdentity = IDENTITY) -> list[Object]:
    return render_run(spec, identity, secret_values=SECRET_VALUES)


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [obj for obj in objects if obj["kind"] == kind]


def get_workload(objects: list[Object]) -> Object:
    (workload,) = (obj for obj in objects if obj["kind"] in ("Job", "Deployment"))
    return workload


def get_pod(spec: EffectiveSpec) -> Object:
    """The pod's spec in the rendered run."""
    pod: Object = get_workload(render(spec))["spec"]["template"]["spec"]
    return pod


def get_container(spec: EffectiveSpec) -> Object:
    (container,) = get_pod(spec)["containers"]
    assert isinstance(container, dict)
    return container


def iter_metadata(value: Any) -> Iterator[Object]:
    """Every metadata in an object: its own, its pod template's, those of its claim templates."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "metadata":
                yield item
            yield from iter_metadata(item)
    elif isinstance(value, list):
        for item in value:
            yield from iter_metadata(item)


def iter_nodes(value: Any) -> Iterator[Any]:
    """Every dictionary and list."""
    if isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from iter_nodes(item)
