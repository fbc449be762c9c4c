"""Objects that passed admission, as the bytes that are sent. Only `admit` makes them.

An object is serialised first, and the check reads what a parser reads from those bytes. So a dictionary that changes
afterwards, or that answers differently on each read (TOCTOU: time of check to time of use), cannot change what is sent.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, overload

from runyard.domain.admission.objects import MOST_OBJECTS, check_objects
from runyard.domain.admission.project_objects import check_project_objects
from runyard.spec.figures import format_bytes
from runyard.spec.launcher import Launcher
from runyard.spec.policy import Policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.profile import Profile

LARGEST_OBJECT_BYTES = 3 << 20
"""One object as JSON: the apiserver reads no larger body."""

_SEAL = object()
"""Whoever has it can make admitted objects. It never leaves this module."""
_NO_ENVS: Mapping[str, str] = MappingProxyType({})


class _Sealed:
    """Immutable; made with the seal only, and neither copied, pickled nor extended."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:
            raise TypeError("admitted objects cannot be extended")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"admitted objects cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"admitted objects cannot be changed: {name}")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("admitted objects cannot be copied or pickled")


class AdmittedObject(_Sealed):
    """One object that may be sent: where it goes, and its JSON. Its text for people shows no value of a Secret."""

    __slots__ = ("api_version", "body", "kind", "name", "namespace")

    api_version: str
    kind: str
    name: str
    namespace: str | None
    body: bytes
    """The JSON to send, byte for byte."""

    def __init__(self, body: bytes, *, parsed: Mapping[str, Any], seal: object) -> None:
        _check_seal(seal)
        values = {
            "api_version": parsed["apiVersion"],
            "kind": parsed["kind"],
            "name": parsed["metadata"]["name"],
            "namespace": parsed["metadata"].get("namespace"),
            "body": body,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"<admitted {self.kind} {self.name}>"


class AdmittedObjects(_Sealed, Sequence[AdmittedObject]):
    """The objects that `admit` was asked to admit, in that order."""

    __slots__ = ("_objects",)

    _objects: tuple[AdmittedObject, ...]

    def __init__(self, serialised: Sequence[tuple[bytes, Any]], *, seal: object) -> None:
        _check_seal(seal)
        admitted = tuple(AdmittedObject(body, parsed=parsed, seal=seal) for body, parsed in serialised)
        object.__setattr__(self, "_objects", admitted)

    @overload
    def __getitem__(self, index: int) -> AdmittedObject: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[AdmittedObject]: ...

    def __getitem__(self, index: int | slice) -> AdmittedObject | Sequence[AdmittedObject]:
        return self._objects[index]

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[AdmittedObject]:
        return iter(self._objects)

    def __repr__(self) -> str:
        return f"<admitted: {', '.join(f'{item.kind} {item.name}' for item in self._objects)}>"


def _check_seal(seal: object) -> None:
    if seal is not _SEAL:
        raise TypeError("only `admit` makes admitted objects")


def admit(
    objects: Sequence[Mapping[str, Any]],
    *,
    policy: Policy,
    project: str,
    unsent: Sequence[Mapping[str, Any]] = (),
    profile: Profile | None = None,
    kubernetes_version: str = "latest",
    project_claims: frozenset[str] = frozenset(),
    shared_claims: frozenset[str] = frozenset(),
    platform_envs: Mapping[str, str] = _NO_ENVS,
    is_anchor: bool = False,
    platform_secrets: frozenset[str] = frozenset(),
    launcher: Launcher | None = None,
    has_registry_secret: bool = False,
    run_uid: str | None = None,
) -> AdmittedObjects:
    """The objects as they may be sent; raises `Refused` with every reason not to send them.

    `unsent` are objects of the same run that are sent at another time. They are checked with the others, which may
    refer to them, and are not part of the result. The other arguments are those of `check_objects`.
    """
    serialised = _serialise([*objects, *unsent])
    problems = check_objects(
        [parsed for _, parsed in serialised],
        policy=policy,
        project=project,
        profile=profile,
        kubernetes_version=kubernetes_version,
        project_claims=project_claims,
        shared_claims=shared_claims,
        platform_envs=platform_envs,
        is_anchor=is_anchor,
        platform_secrets=platform_secrets,
        launcher=launcher,
        has_registry_secret=has_registry_secret,
        run_uid=run_uid,
    )
    if problems:
        raise Refused(problems)
    return AdmittedObjects(serialised[: len(objects)], seal=_SEAL)


def admit_project_objects(objects: Sequence[Mapping[str, Any]], *, project: str, installation: str) -> AdmittedObjects:
    """Objects of a project that outlive its runs, as they may be sent; raises `Refused`.

    Only claims of kept volumes, and the Secret with registry credentials. The policy was applied when the volume was
    entered into the ledger.
    """
    serialised = _serialise(objects)
    problems = check_project_objects([parsed for _, parsed in serialised], project=project, installation=installation)
    if problems:
        raise Refused(problems)
    return AdmittedObjects(serialised, seal=_SEAL)


def _serialise(objects: Sequence[Mapping[str, Any]]) -> list[tuple[bytes, Any]]:
    """The JSON of each object, and what a parser reads from it; written again, that gives the same bytes."""
    if len(objects) > MOST_OBJECTS:
        raise Refused([Problem(Code.ADMISSION_TYPE, ("objects",), f"must be a list of at most {MOST_OBJECTS} objects")])
    problems: list[Problem] = []
    serialised: list[tuple[bytes, Any]] = []
    for index, item in enumerate(objects):
        path = ("objects", index)
        try:
            body = json.dumps(item, separators=(",", ":"), allow_nan=False).encode()
            parsed = json.loads(body)
            # Keys that differ only in their type, as 1 and "1", become one key given twice.
            is_same = json.dumps(parsed, separators=(",", ":")).encode() == body
        except (TypeError, ValueError, RecursionError) as error:
            problems.append(Problem(Code.ADMISSION_TYPE, path, f"not plain JSON: {type(error).__name__}"))
            continue
        if not is_same:
            problems.append(Problem(Code.ADMISSION_TYPE, path, "not plain JSON: a key is given twice"))
        elif len(body) > LARGEST_OBJECT_BYTES:
            allowed = f"at most {format_bytes(LARGEST_OBJECT_BYTES)}"
            problems.append(Problem(Code.ADMISSION_SIZE, path, "too large to send", allowed=allowed))
        serialised.append((body, parsed))
    if problems:
        raise Refused(problems)
    return serialised
