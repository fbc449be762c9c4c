"""Output of `runyard explain FIELD`: what a field is, who may set it, its default, examples and subfields."""

import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, get_args

import click

from runyard.cli.findings import Failed, Finding
from runyard.cli.inputs import DEFAULT_ACTION, DEFAULT_PROJECT
from runyard.cli.output import format_value, print_data
from runyard.cli.tables import print_table
from runyard.domain.layer_merge import INAPPLICABLE_FIELDS
from runyard.domain.resolution import resolve
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.spec.field_reference import FieldReference, get_field, list_fields
from runyard.spec.kinds.registry import DEFAULT_KIND, KINDS
from runyard.spec.policy import Policy
from runyard.spec.problems import Refused
from runyard.spec.run_documents import IDENTITY
from runyard.spec.run_fields import Action, RunFields
from runyard.spec.volumes import VOLUME_OPTIONS
from runyard.spec.yaml.loader import dump_yaml

WIDTH = 100
LABEL_WIDTH = 9


def print_field(name: str, *, output: str) -> None:
    """Print one field, or all names for `run`. An unknown name is a refusal with the nearest one."""
    try:
        field = get_field(name)
    except Refused as refused:
        raise Failed(map(Finding, refused.problems)) from None
    if output != "table":
        print_data(to_data(field), output=output)
        return
    click.echo(f"{field.name}: {field.type}\n")
    _print_paragraph(field.description)
    facts = [(label, text) for label, text in _iter_facts(field) if text]
    if facts:
        click.echo()
    for label, text in facts:
        _print_paragraph(f"{label + ':':<{LABEL_WIDTH}} {text}", indent=LABEL_WIDTH + 1)
    for example in field.examples:
        click.echo(f"\nexample:\n{textwrap.indent(format_example(field, example), '  ')}", nl=False)
    if field.subfields:
        click.echo()
        print_table(("field", "type", "description"), list(_iter_subfield_rows(field)), optional=("type",))


def to_data(field: FieldReference) -> dict[str, Any]:
    """The field as plain data; what is unknown or empty is left out."""
    data = {
        "field": field.name,
        "type": field.type,
        "description": field.description,
        "required": field.is_required,
        "set_by": "admins" if field.is_admins else "users",
        "allowed": field.allowed,
        "default": find_default(field),
        "used_by": _describe_use(field),
        "policy": list(field.rules),
        "examples": [_nest(field, example) for example in field.examples],
        "fields": list(field.subfields),
    }
    return {name: value for name, value in data.items() if value not in (None, "", [])}


def format_example(field: FieldReference, example: Any) -> str:
    """A run file that sets the field, and what must be beside it."""
    return dump_yaml(_nest(field, example))


def find_default(field: FieldReference) -> str | None:
    """The value without an admin's rules: of the command line, of the built-in policy, or of a resolved empty run."""
    if field.path in (("kind",), ("action",)):
        return DEFAULT_KIND if field.path == ("kind",) else DEFAULT_ACTION
    if field.default is not None or len(field.path) != 1:
        return field.default
    found: dict[str, list[str]] = {}
    for action in get_args(Action):
        for value in _iter_platform_values(field.path[0], action):
            found.setdefault(value, []).append(action)
    return ", ".join(f"{value} ({', '.join(actions)})" for value, actions in found.items()) or None


def _iter_platform_values(name: str, action: Action) -> Iterator[str]:
    request = Request(project=DEFAULT_PROJECT, action=action, kind=DEFAULT_KIND, run=RunFields())
    resolution = resolve(request, AdminRules(profiles={}, policy=Policy()), ProjectInventory())
    for leaf in resolution.leaves:
        if leaf.path[0] == name and leaf.owner == "platform":
            yield format_value(leaf.path, leaf.value)


def _iter_facts(field: FieldReference) -> Iterator[tuple[str, str | None]]:
    yield "required", "beside the other fields of its entry" if field.is_required else None
    yield "allowed", field.allowed
    yield "default", find_default(field)
    if field.path:
        yield "set by", _describe_setters(field)
    yield "used by", _describe_use(field)
    yield "policy", f"rules of an admin: {', '.join(field.rules)}" if field.rules else None


def _describe_setters(field: FieldReference) -> str:
    if field.is_admins:
        return "admins only, in a profile"
    if field.path[0] in IDENTITY:
        return "you, in the run file"
    if field.path[0] == "profile":
        return "you, in the run, its task or its function"
    return "you, in the run, its task or its function; a value of your profile wins over yours"


def _describe_use(field: FieldReference) -> str | None:
    """The kinds and actions that use the field, if they are not all."""
    if not field.path or field.path[0] in IDENTITY:
        return None
    name = field.path[0]
    kinds = [kind for kind in KINDS.values() if name not in kind.inapplicable_fields]
    actions = [action for action in get_args(Action) if name not in INAPPLICABLE_FIELDS[action]]
    parts = [f"kind {', '.join(kind.name for kind in kinds)}"] if len(kinds) < len(KINDS) else []
    parts += [f"action {', '.join(actions)}"] if len(actions) < len(get_args(Action)) else []
    return "; ".join(parts) or None


def _iter_subfield_rows(field: FieldReference) -> Iterator[tuple[str, str, str]]:
    for inner in list_fields():
        if inner.path and inner.path[:-1] == field.path:
            notes = [word for word, holds in (("required", inner.is_required), ("admins", inner.is_admins)) if holds]
            note = f" ({', '.join(notes)})" if notes else ""
            yield inner.path[-1], inner.type, f"{inner.description}{note}"


def _nest(field: FieldReference, example: Any) -> Any:
    """The example under the names of its path, inside a list where the outer field is one."""
    value = example
    for depth in range(len(field.path), 0, -1):
        name = field.path[depth - 1]
        outer = get_field(".".join(field.path[: depth - 1]) or "run")
        value = {**_find_neighbours(outer, name), **_find_volume_type(field, depth), name: value}
        if outer.type.startswith("list"):
            value = [value]
    return value


def _find_volume_type(field: FieldReference, depth: int) -> dict[str, str]:
    """The first type of volume that has the option, beside the `spec` of a volume."""
    if field.path[:2] != ("volumes", "spec") or depth != 2 or len(field.path) == 2:
        return {}
    return {"volume_type": next(kind for kind, options in VOLUME_OPTIONS.items() if field.path[2] in options)}


def _find_neighbours(outer: FieldReference, name: str) -> dict[str, Any]:
    """What an entry of a list needs beside the field, from the examples of the list: its required fields, or all."""
    if not outer.type.startswith("list"):
        return {}
    entries = [entry for shown in outer.examples for entry in shown if isinstance(shown, list)]
    entries = [entry for entry in entries if isinstance(entry, dict)]
    entry = next((entry for entry in entries if name in entry), entries[0])
    needed = [inner.path[-1] for inner in list_fields() if inner.path[:-1] == outer.path and inner.is_required]
    return {key: entry[key] for key in needed or entry if key != name and key in entry}


def _print_paragraph(text: str, *, indent: int = 0) -> None:
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    click.echo(textwrap.fill(text, min(columns, WIDTH), subsequent_indent=" " * indent, break_long_words=False))
