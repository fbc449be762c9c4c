"""Objects that passed admission. Only `admit` makes them, and only they may be sent."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from runyard.domain.admission.objects import check_objects
from runyard.spec.problems import Refused

_SEAL = object()
"""Only this module has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedObject:
    """One object as it was checked: later changes of the dictionary do not reach `body`."""

    api_version: str
    kind: str
    name: str
    namespace: str | None
    body: bytes
    """The JSON to send."""


@final
class AdmittedObjects:
    """Objects that were checked together."""

    def __init__(self, objects: Sequence[AdmittedObject], *, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("only `admit` makes admitted objects")
        self._objects = tuple(objects)

    def __iter__(self) -> Iterator[AdmittedObject]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)


def admit(objects: Sequence[Mapping[str, Any]], **context: Any) -> AdmittedObjects:
    """Check objects that are sent together, with the context that `check_objects` takes; raises `Refused`."""
    bodies = [json.dumps(item, separators=(",", ":")).encode() for item in objects]
    problems = check_objects([json.loads(body) for body in bodies], **context)
    if problems:
        raise Refused(problems)
    return AdmittedObjects(
        [_make(json.loads(body), body) for body in bodies],
        seal=_SEAL,
    )


def _make(item: Mapping[str, Any], body: bytes) -> AdmittedObject:
    metadata = item["metadata"]
    return AdmittedObject(
        api_version=item["apiVersion"],
        kind=item["kind"],
        name=metadata["name"],
        namespace=metadata.get("namespace"),
        body=body,
    )
