"""A run to submit, from a file and options: what belongs to its function, and what to the run itself."""

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from runyard.cli.files import STDIN
from runyard.cli.output import clean
from runyard.cli.run_files import LoadedRun, load_run
from runyard.cli.source_locations import Source
from runyard.spec.kinds.function_kind import FunctionKind
from runyard.spec.kinds.registry import DEFAULT_KIND, KINDS, get_kind
from runyard.spec.readers import to_snake_case
from runyard.spec.run_documents import IDENTITY, RunFile

DEFAULT_NAME = "run"
_NOT_FIELDS = frozenset({*IDENTITY, "task", "workflow", "local_execution"})
_NOT_IN_NAMES = re.compile("[^a-z0-9-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """What the command line says about a run."""

    file: str | None = None
    function: str | None = None
    image: str | None = None
    profile: str | None = None
    action: str | None = None
    run_id: str | None = None
    envs: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDefinition:
    """A run that can be submitted."""

    name: str
    """Of the function."""
    kind: str
    action: str
    function_fields: Mapping[str, Any] = field(default_factory=dict)
    """What the function consists of; empty if it must exist on the server."""
    run_fields: Mapping[str, Any] = field(default_factory=dict)
    project: str | None = None
    run_id: str | None = None
    folder: Path = field(default_factory=Path)
    """Where the paths of code are relative to."""
    source: Source | None = None
    loaded: LoadedRun | None = None


def define_run(options: SubmitOptions) -> RunDefinition:
    """Read the file and the options; raises `Failed` with all problems of the file, and usage errors."""
    loaded = load_run(options.file) if options.file is not None else None
    run = loaded.run if loaded is not None else RunFile()
    fields = _read_fields(loaded) | _read_options(options)
    kind = get_kind(run.kind) if run.kind is not None else choose_kind(fields)
    named = options.function or run.function
    defines = options.function is None and _is_defined(kind, fields)
    if not defines and named is None:
        raise click.UsageError(_explain_nothing(options))
    own = (*kind.required_fields, "requirements") if defines else ()
    return RunDefinition(
        name=named or _choose_name(run, options, fields),
        kind=kind.name,
        action=options.action or run.action or "job",
        function_fields={name: fields[name] for name in own if name in fields},
        run_fields={name: value for name, value in fields.items() if name not in own},
        project=run.project,
        run_id=options.run_id or run.id,
        folder=Path(options.file).parent if options.file not in (None, STDIN) else Path(),
        source=None if loaded is None else loaded.source,
        loaded=loaded,
    )


def _explain_nothing(options: SubmitOptions) -> str:
    """Why there is nothing to run, and what was probably meant: a file without its option."""
    if options.file is None and options.arguments and Path(word := options.arguments[0]).is_file():
        shown = shlex.quote(word)
        if Path(word).suffix == ".py":
            return f"{clean(word)} is code: `runyard init --code {clean(shown)}` writes a run file for it"
        return f"nothing to run is named; did you mean `runyard run -f {clean(shown)}`?"
    return "the run names nothing to run: set `image`, `source` or `function` in a file for -f, or use --image"


def choose_kind(fields: Collection[str]) -> FunctionKind:
    """The first kind that the fields define; code comes before an image, which may be that of the code."""
    return next((kind for kind in KINDS.values() if _is_defined(kind, fields)), get_kind(DEFAULT_KIND))


def _is_defined(kind: FunctionKind, fields: Collection[str]) -> bool:
    """Whether the fields say what a function of that kind runs. A version has a default."""
    version = kind.default_images.version_field if kind.default_images is not None else None
    return all(name in fields for name in kind.required_fields if name != version)


def _read_fields(loaded: LoadedRun | None) -> dict[str, Any]:
    """The fields of a run as they are written: the server reads every form."""
    if loaded is None:
        return {}
    written = loaded.source.get_root() or {}
    folded = {to_snake_case(str(name)): value for name, value in written.items()}
    return {name: value for name, value in folded.items() if name not in _NOT_FIELDS and value is not None}


def _read_options(options: SubmitOptions) -> dict[str, Any]:
    said: dict[str, Any] = {"image": options.image, "profile": options.profile}
    found = {name: value for name, value in said.items() if value is not None}
    if options.envs:
        found["envs"] = [{"name": name, "value": value} for name, value in options.envs]
    if options.arguments and options.image is not None:
        found["command"], found["args"] = [options.arguments[0]], list(options.arguments[1:])
    elif options.arguments:
        found["args"] = list(options.arguments)
    return found


def _choose_name(run: RunFile, options: SubmitOptions, fields: Mapping[str, Any]) -> str:
    """The run's name, or that of its file, handler or image. `run.yaml`, the usual name of a file, says nothing."""
    source = fields.get("source")
    handler = source.get("handler") if isinstance(source, Mapping) else None
    stem = "" if options.file in (None, STDIN) else Path(str(options.file)).stem
    image = str(fields.get("image") or "").rpartition("/")[2].partition(":")[0].partition("@")[0]
    candidates = (run.name, stem if stem != DEFAULT_NAME else "", handler, image)
    names = (_NOT_IN_NAMES.sub("-", str(each or "").lower()).strip("-")[:40].strip("-") for each in candidates)
    return next(filter(None, names), DEFAULT_NAME)
