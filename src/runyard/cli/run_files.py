"""Run files: one run for `render` and `explain`, any number for a rehearsal."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runyard.cli.files import read_bytes, show_name
from runyard.cli.findings import Failed, Finding
from runyard.cli.source_locations import Source, extract_place
from runyard.spec.digitalhub.reference_strings import find_run_kind
from runyard.spec.problems import Path, Refused
from runyard.spec.recorded_requests import is_recorded, read_recorded_request
from runyard.spec.run_documents import RunFile, read_run_file
from runyard.spec.yaml.loader import Document, load_document, load_documents

MOST_RUNS_BYTES = 64 * 1024 * 1024
MOST_RUNS_DOCUMENTS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun:
    """A run, the location of its fields, and warnings about its text."""

    run: RunFile
    source: Source
    """Rooted where the run's fields start."""
    content: bytes = b""
    warnings: tuple[Finding, ...] = ()


def load_run(file: str) -> LoadedRun:
    """Read the one run of a file; raises `Failed` with all its problems."""
    content, name = read_bytes(file), show_name(file)
    try:
        document = load_document(content)
    except Refused as refused:
        raise Failed(extract_place(problem, name) for problem in refused.problems) from None
    document_warnings = tuple(map(Source(name, document).locate, document.warnings))
    try:
        run, source = _read_run(document, name)
    except Failed as failed:
        raise Failed(failed.errors, document_warnings) from None
    return LoadedRun(run=run, source=source, content=content, warnings=document_warnings)


def load_runs(file: str) -> list[LoadedRun]:
    """Read all runs of a file, as documents or lists; raises `Failed` with the problems of all of them."""
    content, name = read_bytes(file, most_bytes=MOST_RUNS_BYTES), show_name(file)
    try:
        documents = load_documents(content, most_documents=MOST_RUNS_DOCUMENTS, most_bytes=MOST_RUNS_BYTES)
    except Refused as refused:
        raise Failed(extract_place(problem, name) for problem in refused.problems) from None
    runs: list[LoadedRun] = []
    errors: list[Finding] = []
    for document, path in _iter_places(documents):
        try:
            run, source = _read_run(document, name, *path)
        except Failed as failed:
            errors += failed.errors
        else:
            runs.append(LoadedRun(run=run, source=source))
    if errors:
        raise Failed(errors)
    return runs


def _iter_places(documents: list[Document]) -> Iterator[tuple[Document, Path]]:
    for document in documents:
        if isinstance(document.data, list):
            yield from ((document, (index,)) for index in range(len(document.data)))
        else:
            yield document, ()


def _read_run(document: Document, name: str, *path: str | int) -> tuple[RunFile, Source]:
    given: Any = document.data
    for part in path:
        given = given[part]
    try:
        run = read_recorded_request(given) if is_recorded(given) else read_run_file(given)
    except Refused as refused:
        raise Source(name, document, path).refuse(refused) from None
    if is_recorded(given):
        return run, Source(name, document, (*path, "run", "spec"))
    is_entity = isinstance(given, Mapping) and isinstance(given.get("spec"), Mapping) and _is_run_kind(given)
    return run, Source(name, document, (*path, "spec") if is_entity else path)


def _is_run_kind(given: Mapping[str, Any]) -> bool:
    return find_run_kind(str(given.get("kind", ""))) is not None
