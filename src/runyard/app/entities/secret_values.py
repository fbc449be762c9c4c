"""Values of secrets: encrypted on arrival, decrypted only for owners, editors and the runs that name them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.entities.crud import enter_project, require_project
from runyard.app.entities.inventory import list_secret_names
from runyard.app.entities.project_places import mark_registries_changed
from runyard.app.errors import Forbidden
from runyard.app.locks import lock_of_project, lock_of_secret_values
from runyard.app.model import Principal
from runyard.app.ports import UnitOfWork
from runyard.spec.figures import format_bytes
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused, find_nearest, list_words
from runyard.spec.readers import Findings, describe_type, expect_mapping, refuse
from runyard.spec.registries import REGISTRIES_SECRET, read_registries

MOST_BYTES = 1 << 20
"""The limit of a Kubernetes Secret, for all values together."""
MOST_ASKED = 256
"""Secrets whose values one request asks for."""
NAMED_AT_ONCE = 20
"""Names of secrets in one entry of the audit."""


async def put_secret_values(core: Core, who: Principal, project: str, given: Any) -> None:
    """Encrypt and store new values of existing secrets, all or none. A problem never shows a value."""
    values = await compute(lambda: _read_values(given), over=given)
    has_registries = REGISTRIES_SECRET in values
    async with core.store.begin() as unit:
        if has_registries:  # the project's row is written too
            await unit.lock(lock_of_project(project))
        await enter_project(unit, project)
        # Keeps two concurrent writers from taking the same version number.
        await unit.lock(lock_of_secret_values(project))
        known = await list_secret_names(unit, project)
        if unknown := [name for name in values if name not in known]:
            allowed = list_words(sorted(known)) if known else "the project has no secrets"
            raise Refused([_unknown(name, known, allowed=allowed) for name in unknown])
        for name, text in values.items():
            stored = await unit.secrets.find(project, name)
            version = stored.version + 1 if stored is not None else 1
            await unit.secrets.put(core.vault.seal(project, name, version, text))
        if has_registries:
            await mark_registries_changed(unit, project)
        await _note(core, unit, who, "secret.put_values", project=project, names=values)
        await unit.commit()
    if has_registries:
        core.signals.notify_registries(project)


async def get_secret_values(core: Core, who: Principal, project: str, names: Sequence[str]) -> dict[str, str]:
    """The values of the secrets that have one. A run's token gets only secrets that the run's spec names."""
    asked = dict.fromkeys(names)
    if len(asked) > MOST_ASKED:
        raise refuse(
            Code.SIZE_ENTRIES, f"asks for {len(asked)} secrets", path=("keys",), allowed=f"at most {MOST_ASKED}"
        )
    async with core.store.begin() as unit:
        await require_project(unit, project)
        if who.run_id is not None:
            await _check_named(unit, who, who.run_id, project, names)
        found = [value for name in asked if (value := await unit.secrets.find(project, name)) is not None]
        known = [value.name for value in found]
        missing = len(asked) - len(found)
        await _note(core, unit, who, "secret.get_values", project=project, names=known, missing=missing)
        await unit.commit()
    return {value.name: core.vault.open(value) for value in found}


async def _note(
    core: Core, unit: UnitOfWork, who: Principal, action: str, *, project: str, names: Iterable[str], missing: int = 0
) -> None:
    """Only names of existing secrets: values never appear in the audit, not even those sent by mistake as a name.

    All of them: an entry with many would be large, so there are several.
    """
    known = sorted(set(names))
    for start in range(0, max(1, len(known)), NAMED_AT_ONCE):
        told = {"names": known[start : start + NAMED_AT_ONCE]}
        details = {**told, **({"missing": missing} if missing and start == 0 else {})}
        await note_act(core, unit, who, action, of=("secret", None), project=project, details=details)


async def _check_named(unit: UnitOfWork, who: Principal, run_id: str, project: str, names: Sequence[str]) -> None:
    run = await unit.runs.find(run_id, project=project)
    effective = None if run is None or run.uid != who.run_uid else run.find_effective()
    named = set() if effective is None else {use.name for use in effective.secrets}
    if others := set(names) - named:
        # Without the names asked for: the message is kept in the audit, and a value may stand there by mistake.
        allowed = f"only {list_words(sorted(named))}" if named else "none"
        raise Forbidden(f"this run's spec does not name {len(others)} of the secrets asked for; it names {allowed}")


def _read_values(given: Any) -> Mapping[str, str]:
    if not isinstance(given, dict):
        # Without the given document, which contains the values.
        raise refuse(
            Code.TYPE_MAPPING, f"must be a mapping from names of secrets to values, not {describe_type(given)}"
        )
    document = expect_mapping(given, of="values by the names of secrets")
    findings = Findings()
    for name, value in document.items():
        findings.read(_check_value, value, name)
        if name == REGISTRIES_SECRET and isinstance(value, str):
            findings.read(read_registries, value, name)
    findings.finish()
    if sum(len(value.encode()) for value in document.values()) > MOST_BYTES:
        raise refuse(
            Code.SIZE_BYTES, "the values are too large", allowed=f"at most {format_bytes(MOST_BYTES)} together"
        )
    return document


def _check_value(value: Any) -> None:
    if not isinstance(value, str):
        raise refuse(Code.TYPE_TEXT, f"a secret's value must be text, not {describe_type(value)}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise refuse(Code.TEXT_CONTROL, "a secret's value must not contain a NUL or an unpaired surrogate")


def _unknown(name: str, known: frozenset[str], *, allowed: str) -> Problem:
    return Problem(
        Code.SECRET_UNKNOWN,
        (name,),
        "missing secrets: create the secret before its value",
        value=name,
        allowed=allowed,
        suggestion=find_nearest(name, known),
    )
