"""Entities as clients send them: the fields that all types share, read strictly. `spec_checks.py` checks the spec."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from runyard.app.entities.entity_types import STATES
from runyard.app.entities.ownership import KEPT
from runyard.app.model import Json
from runyard.spec.digitalhub.original_fields import restore_spec
from runyard.spec.document_size import check_values, count_values
from runyard.spec.figures import format_bytes
from runyard.spec.names import check_slug
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from runyard.spec.readers import (
    MOST_ENTRIES,
    Findings,
    describe_type,
    expect_mapping,
    expect_option,
    expect_text,
    refuse,
)

MOST_NAME = 256
MOST_NAME_BYTES = 600
"""Limit for indexed texts: rows of an index are limited in bytes."""
MOST_DEPTH = 60
"""Levels of nesting in metadata, spec and status; recursive code walks them."""
MOST_VALUES = 50_000
"""Values in an entity, nested ones included: it is parsed and written at a stretch whenever it is read."""
MOST_CHARACTERS = 8 << 20
"""Texts and keys in the status of an entity: updates add to it, and each is as large as a body may be."""
MOST_METADATA_BYTES = 1 << 15
"""Size of metadata as JSON: lists and searches show the metadata of a thousand entities."""
MOST_METADATA_VALUES = 1000
"""Values in metadata, nested ones included: a page counts bytes, and a value of two bytes takes fifty in memory."""

FIELDS = ("id", "kind", "name", "project", "key", "user", "metadata", "spec", "status", "extensions")
_CLIENTS_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SERVERS_METADATA = frozenset({"created", "updated", "created_by", "updated_by", "triggers", "triggers_root", *KEPT})


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityDraft:
    """An entity as a client sent it, without the values that only the server sets (key, user, times)."""

    kind: str
    id: str | None = None
    name: str | None = None
    project: str | None = None
    metadata: Json = field(default_factory=dict)
    spec: Json = field(default_factory=dict)
    status: Json = field(default_factory=dict)
    """Without the state."""
    state: str | None = None
    extensions: tuple[Json, ...] = ()

    @property
    def requested_id(self) -> str:
        """The client's id, or a new one."""
        return self.id or uuid4().hex


def read_draft(given: Any) -> EntityDraft:
    """Read the common fields; raises `Refused` with every problem."""
    findings = Findings()
    document = expect_mapping(given, of="an entity's fields")
    check_values(document, most=MOST_VALUES)
    for key in document:
        if key not in FIELDS:
            findings.read(lambda name: expect_option(name, what="field", options=FIELDS), key, key)
    values: dict[str, Any] = {
        name: findings.read(reader, document[name], name)
        for name, reader in _READERS.items()
        if document.get(name) is not None
    }
    if document.get("kind") is None:
        findings.add(Code.FIELD_MISSING, ("kind",), "missing spec: an entity needs its `kind`")
    findings.finish()
    status = values.pop("status", {})
    state = status.pop("state", None)
    return EntityDraft(**values, status=status, state=state)


def read_restored_draft(given: Any, type_name: str) -> EntityDraft:
    """Read the common fields, and the spec with the fields of its `original`, if a client sends a response back."""
    draft, findings = read_draft(given), Findings()
    spec = findings.read(lambda written: restore_spec(type_name, draft.kind, written), draft.spec, "spec")
    findings.finish()
    return replace(draft, spec=spec or {})


def check_id(draft: EntityDraft) -> list[Problem]:
    """Check that every client can read a new id: any other id makes the lists of SDKs fail."""
    if draft.id is None or _CLIENTS_ID.fullmatch(draft.id):
        return []
    folded = re.sub("[^a-z0-9]+", "-", draft.id.lower()).strip("-")
    allowed = "lower-case letters and digits, single dashes between them"
    message = "not a valid id: some clients cannot read it"
    return [Problem(Code.ID_INVALID, ("id",), message, value=draft.id, allowed=allowed, suggestion=folded or None)]


def check_project(draft: EntityDraft, project: str) -> list[Problem]:
    """Check that the document does not name another project than the URL."""
    named = [(("project",), draft.project), (("metadata", "project"), draft.metadata.get("project"))]
    return [
        Problem(Code.PROJECT_OTHER, path, f"invalid project: the URL names `{project}`", value=given)
        for path, given in named
        if given is not None and given != project
    ]


def check_merged(*, metadata: Json, status: Json) -> None:
    """Check what an update would store, with what earlier ones left there. Raises `Refused` if that is too much."""
    findings = Findings()
    findings.read(_check_metadata_size, metadata, "metadata")
    findings.read(lambda given: expect_mapping(given, of="fields"), status, "status")
    findings.read(lambda given: check_values(given, most=MOST_VALUES), status, "status")
    if not findings.problems and count_values(status, most=MOST_VALUES, most_characters=MOST_CHARACTERS) > MOST_VALUES:
        message, allowed = "has too many characters, those of earlier updates included", f"at most {MOST_CHARACTERS}"
        findings.add(Code.SIZE_CHARACTERS, ("status",), message, allowed=allowed)
    findings.finish()


def _check_metadata_size(metadata: Json) -> None:
    check_values(metadata, most=MOST_METADATA_VALUES)
    if (size := len(json.dumps(metadata, ensure_ascii=False).encode(errors="surrogatepass"))) > MOST_METADATA_BYTES:
        raise refuse(
            Code.SIZE_BYTES, f"has {format_bytes(size)}", allowed=f"at most {format_bytes(MOST_METADATA_BYTES)} as JSON"
        )


def expect_name(given: Any, *, what: str, most: int = MOST_NAME) -> str:
    """Read a text that is indexed: limited in characters, for people, and in bytes, for the index."""
    text = expect_text(given, what=what, most=most)
    if (size := len(text.encode())) > MOST_NAME_BYTES:
        raise refuse(Code.TEXT_LONG, f"{what} has {size} bytes in UTF-8", allowed=f"at most {MOST_NAME_BYTES}")
    return text


def drop_nulls(value: Any, *, keep: frozenset[str] = frozenset({"parameters", "init_parameters"})) -> Any:
    """Remove nulls from mappings, which break clients. Users' own parameters keep them."""
    if isinstance(value, Mapping):
        return {
            key: item if key in keep else drop_nulls(item, keep=keep) for key, item in value.items() if item is not None
        }
    if isinstance(value, list):
        return [drop_nulls(item, keep=keep) for item in value]
    return value


def is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and mappings are nested deeper than that. Does not recurse."""
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for item in layer
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not layer:
            return False
    return any(isinstance(item, dict | list) for item in layer)


def _read_slug(given: Any) -> str:
    text = expect_text(given, what="the name", most=MOST_NAME)
    if error := check_slug(text):
        raise refuse(Code.NAME_INVALID, error, value=text)
    return text


def _read_kind(given: Any) -> str:
    text = expect_text(given, what="the kind", most=MOST_NAME)
    if not text or not all(character.isascii() and (character.isalnum() or character in "._+-:") for character in text):
        raise refuse(Code.KIND_INVALID, "not a kind", value=text, allowed="letters, digits and `. _ + - :`")
    return text


def _read_document(given: Any) -> Json:
    document = expect_mapping(given, of="fields")
    if is_deeper(document, MOST_DEPTH):
        raise refuse(Code.TOO_DEEP, f"is nested in more than {MOST_DEPTH} levels")
    return dict(drop_nulls(document))


def _read_metadata(given: Any) -> Json:
    metadata = _read_document(given)
    findings = Findings()
    for name in ("labels", "relationships"):
        findings.read(_check_list, metadata.get(name, []), name)
    findings.read(_check_metadata_size, metadata)
    for index, label in enumerate(metadata.get("labels", []) if not findings.problems else []):
        findings.read(lambda text: expect_name(text, what="a label"), label, "labels", index)
    for index, relationship in enumerate(metadata.get("relationships", []) if not findings.problems else []):
        findings.read(_check_relationship, relationship, "relationships", index)
    for name in ("name", "description", "version"):
        if not isinstance(metadata.get(name, ""), str):
            findings.add(Code.TYPE_TEXT, (name,), f"must be text, not {describe_type(metadata[name])}")
    findings.finish()
    return {key: value for key, value in metadata.items() if key not in _SERVERS_METADATA}


def _check_list(given: Any) -> None:
    if not isinstance(given, list):
        raise refuse(Code.TYPE_LIST, f"must be a list, not {describe_type(given)}")
    if len(given) > MOST_ENTRIES:
        raise refuse(Code.SIZE_ENTRIES, f"has {len(given)} entries", allowed=f"at most {MOST_ENTRIES}")


def _check_relationship(given: Any) -> None:
    """SDKs fail to read a list that contains an entity with anything else here."""
    relationship = expect_mapping(given, of="a relationship's fields")
    findings = Findings()
    for name in ("type", "dest", *(("source",) if "source" in relationship else ())):
        if name not in relationship:
            findings.add(Code.FIELD_MISSING, (name,), f"missing: a relationship needs its `{name}`")
        elif not isinstance(relationship[name], str):
            findings.add(Code.TYPE_TEXT, (name,), f"must be text, not {describe_type(relationship[name])}")
    findings.finish()


def _read_status(given: Any) -> Json:
    status = _read_document(given)
    if (state := status.get("state")) is not None:
        findings = Findings()
        findings.read(lambda text: expect_option(text, what="state", options=sorted(STATES)), state, "state")
        findings.finish()
    return status


def _read_extensions(given: Any) -> tuple[Json, ...]:
    _check_list(given)
    findings = Findings()
    read = [findings.read(_read_document, item, index) for index, item in enumerate(given)]
    findings.finish()
    return tuple(item for item in read if item is not None)


def _read_text(given: Any) -> str:
    return expect_text(given, what="the text", most=MOST_NAME)


_READERS: Mapping[str, Any] = {
    "kind": _read_kind,
    "id": _read_slug,
    "name": _read_slug,
    "project": _read_text,
    "metadata": _read_metadata,
    "spec": _read_document,
    "status": _read_status,
    "extensions": _read_extensions,
}
