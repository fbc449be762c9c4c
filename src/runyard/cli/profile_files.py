"""Profiles from files and directories."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from runyard.cli.files import list_profile_files, read_bytes, show_name
from runyard.cli.findings import Failed, Finding
from runyard.cli.source_locations import extract_place
from runyard.spec.problems import Problem, Refused
from runyard.spec.profile import Profile
from runyard.spec.profile_documents import load_profile_files, split_profile_file


def load_profiles(given: Iterable[str]) -> tuple[Mapping[str, Profile], tuple[Finding, ...]]:
    """Return all profiles and warnings; raises `Failed` with the problems of all files."""
    return _load(_read_texts(given))


def load_profile_documents(given: Iterable[str]) -> tuple[Mapping[str, Any], tuple[Finding, ...]]:
    """Return the documents of all profiles as a server stores them, and warnings; raises `Failed`."""
    texts = _read_texts(given)
    _, warnings = _load(texts)
    parts = [split_profile_file(text, source=name) for name, text in texts.items()]
    return {name: document for part in parts for name, document in part.items()}, warnings


def _read_texts(given: Iterable[str]) -> dict[str, str]:
    # Bytes that are not UTF-8 become unpaired surrogates, which the loader refuses with line and column.
    return {show_name(file): read_bytes(file).decode(errors="surrogateescape") for file in list_profile_files(given)}


def _load(texts: Mapping[str, str]) -> tuple[Mapping[str, Profile], tuple[Finding, ...]]:
    try:
        profiles, warnings = load_profile_files(texts)
    except Refused as refused:
        raise Failed(_locate(problem, texts) for problem in refused.problems) from None
    return profiles, tuple(_locate(warning, texts) for warning in warnings)


def _locate(problem: Problem, files: Iterable[str]) -> Finding:
    """Move file, line and column from the start of the message to the finding. The longest matching file name wins."""
    named = [file for file in files if problem.message.startswith(f"{file}: ")]
    if not named:
        return Finding(problem)
    match problem.path:
        case ("documents", int(), *rest):
            problem = replace(problem, path=tuple(rest))
    return extract_place(problem, max(named, key=len))
