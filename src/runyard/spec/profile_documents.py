"""Profile files: one or several profiles in Runyard's own form, or DigitalHub's template files unchanged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from runyard.spec.digitalhub.base_objects import BASE_KINDS, UNUSED_KIND, read_base
from runyard.spec.digitalhub.base_pods import POD_CONTEXT
from runyard.spec.digitalhub.takeover import Shape, Takeover
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, Refused, shorten
from runyard.spec.profile import BaseKind, Profile
from runyard.spec.readers import Findings, expect_mapping, fold_keys, has_control_characters, refuse, to_snake_case
from runyard.spec.run_fields import AdminFields, read_admin_fields, read_profile_name
from runyard.spec.yaml.loader import Document, load_documents

MOST_WORDS = 4096
"""The maximum of characters of a name or description."""

_Base = tuple[BaseKind, AdminFields]


def read_profiles(documents: Sequence[Any]) -> tuple[list[Profile], list[Problem]]:
    """The profiles in the documents of one file, and warnings; raises `Refused` with the problems of all of them.

    Base objects belong to the one profile of their file.
    """
    findings, warnings = Findings(), list[Problem]()
    profiles: list[Profile] = []
    base: dict[BaseKind, AdminFields] = {}
    has_bases = False
    for index, document in enumerate(documents):
        place = ("documents", index)
        if document is None:
            continue
        has_bases = has_bases or _is_base(document)
        read = findings.read(_read_document, document, *place)
        if read is None:
            continue
        found, doubts = read
        warnings += [doubt.under(*place) for doubt in doubts]
        if isinstance(found, Profile):
            _add_profile(found, profiles, findings, place)
        elif found is not None:
            kind, fields = found
            if kind in base:
                findings.add(
                    Code.PROFILE_BASE_TWICE, (*place, "kind"), f"duplicate base {kind} in this file", value=kind
                )
            base[kind] = fields
    _check_owner(documents, findings, has_bases=has_bases)
    findings.finish()
    if base:
        profiles = [replace(profile, base=MappingProxyType(base)) for profile in profiles]
    return profiles, warnings


def load_profile_files(files: Mapping[str, str]) -> tuple[Mapping[str, Profile], list[Problem]]:
    """Profiles by id from file contents by name, and warnings; raises `Refused` with the problems of all files."""
    findings, warnings = Findings(), list[Problem]()
    profiles: dict[str, Profile] = {}
    homes: dict[str, str] = {}
    for name, text in files.items():
        read = findings.read(lambda text, name=name: _load_file(text, name), text)  # type: ignore[misc]
        if read is None:
            continue
        found, doubts = read
        warnings += doubts
        for profile in found:
            if profile.id in profiles:
                message = f"{name}: duplicate profile `{profile.id}`; it is also in {homes[profile.id]}"
                findings.add(Code.PROFILE_TWICE, ("id",), message, value=profile.id)
            profiles[profile.id] = profile
            homes[profile.id] = name
    findings.finish()
    return MappingProxyType(profiles), warnings


def split_profile_file(text: str, *, source: str) -> Mapping[str, Any]:
    """The documents of a valid file as they are stored, by profile: alone, or `{documents: …}` with base objects."""
    parts = [document.data for document in load_documents(text, source=source)]
    owners = [part for part in parts if isinstance(part, dict) and "id" in part]
    is_whole = len(owners) == 1 and len(parts) > 1
    return {str(owner["id"]): {"documents": parts} if is_whole else owner for owner in owners}


def _load_file(text: str, name: str) -> tuple[list[Profile], list[Problem]]:
    documents = load_documents(text, source=name)
    try:
        profiles, warnings = read_profiles([document.data for document in documents])
    except Refused as refused:
        raise Refused(_locate(refused.problems, documents, name)) from None
    doubts = [doubt.under("documents", index) for index, entry in enumerate(documents) for doubt in entry.warnings]
    named = [replace(doubt, message=f"{name}: {doubt.message}") for doubt in doubts]
    return profiles, named + _locate(warnings, documents, name)


def _locate(problems: Iterable[Problem], documents: Sequence[Document], name: str) -> list[Problem]:
    """The same problems, with file, line and column in their messages."""
    located = []
    for problem in problems:
        match problem.path:
            case ("documents", int(index), *rest):
                position = documents[index].find_position(tuple(rest))
            case _:
                position = None
        where = f"{name}: line {position[0]}, column {position[1]}" if position else name
        located.append(replace(problem, message=f"{where}: {problem.message}"))
    return located


def _is_base(document: Any) -> bool:
    return isinstance(document, Mapping) and "id" not in document and document.get("kind") in BASE_KINDS


def _check_owner(documents: Sequence[Any], findings: Findings, *, has_bases: bool) -> None:
    """Check that the file has a profile, and exactly one where it has base objects."""
    count = sum(isinstance(document, Mapping) and "id" in document for document in documents)
    if count == 0 and not findings.problems:
        findings.add(Code.PROFILE_NONE, (), "the file has no profile: no document has an `id`")
    if count > 1 and has_bases:
        message = f"a file with base objects must have one profile, not {count}"
        findings.add(Code.PROFILE_SEVERAL, (), message, suggestion="a separate file for each profile")


def _add_profile(profile: Profile, profiles: list[Profile], findings: Findings, place: Path) -> None:
    if any(profile.id == other.id for other in profiles):
        message = f"duplicate profile `{profile.id}` in this file"
        findings.add(Code.PROFILE_TWICE, (*place, "id"), message, value=profile.id)
    profiles.append(profile)


def _read_document(given: Any) -> tuple[Profile | _Base | None, list[Problem]]:
    document = expect_mapping(given, of="profile or base object fields")
    if "id" in document:
        return _read_profile(document)
    if document.get("kind") == UNUSED_KIND:
        message = f"a base {UNUSED_KIND} has no effect, as in DigitalHub; ignored"
        return None, [Problem(Code.BASE_UNUSED, ("kind",), message, value=UNUSED_KIND)]
    if "kind" in document:
        kind, fields, warnings = read_base(document)
        return (kind, fields), warnings
    allowed = f"a profile with `id`, or a base object with `kind` {', '.join(BASE_KINDS)}"
    raise refuse(Code.PROFILE_DOCUMENT, "the document needs `id` or `kind`", allowed=allowed)


def _read_profile(document: Mapping[str, Any]) -> tuple[Profile, list[Problem]]:
    findings, values = Findings(), dict(document)
    profile_id = findings.read(read_profile_name, values.pop("id"), "id")
    name = findings.read(_read_words, values.pop("name", None), "name")
    description = findings.read(_read_words, values.pop("description", None), "description")
    fields, warnings = findings.read(_read_profile_fields, values) or (read_admin_fields({}), [])
    findings.finish()
    return Profile(id=profile_id or "", name=name, description=description, fields=fields), warnings


def _read_profile_fields(values: Mapping[str, Any]) -> tuple[AdminFields, list[Problem]]:
    takeover = Takeover()
    folded, spelling = fold_keys(values, takeover.findings)
    context = folded.pop("security_context", None)
    if context is not None:
        takeover.walk(context, _SECURITY_CONTEXT, (spelling["security_context"],))
    for name, value in folded.items():
        written = spelling[name]
        if name == "profile":
            takeover.refuse(Code.PROFILE_NESTED, (written,), "a profile cannot name another profile")
        elif name in takeover.values:
            message = f"`{written}` is also set in `{spelling['security_context']}`"
            takeover.refuse(Code.FIELD_TWICE, (written,), message)
        else:
            takeover.keep(written, value, (written,))
    return takeover.finish(), takeover.warnings


def _read_words(given: Any) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str | int | float) or isinstance(given, bool):
        raise refuse(Code.TYPE_TEXT, "must be text")
    words = given if isinstance(given, str) else shorten(given)
    if has_control_characters(words.replace("\n", " ").replace("\t", " ")):
        raise refuse(Code.TEXT_CONTROL, "must not have control characters or unpaired surrogates")
    if len(words) > MOST_WORDS:
        raise refuse(Code.TEXT_LONG, f"has {len(words)} characters", allowed=f"at most {MOST_WORDS}")
    return words


_SECURITY_CONTEXT = Shape(
    taken={**POD_CONTEXT.taken, **{to_snake_case(key): name for key, name in POD_CONTEXT.taken.items()}},
    fixed=POD_CONTEXT.fixed,
)
