"""`runyard explain`."""

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.lazy_commands import load
from runyard.cli.options import RunCommand, RunOptions, add_run_options
from runyard.cli.server_options import add_answer_options, split_flags

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXAMPLES = """\b
Examples:
  runyard explain -f run.yaml
  runyard explain -f run.yaml --profiles profiles/ --policy policy.yaml
  runyard explain -f run.yaml --profiles profiles/ --profile 1xa100 --strict
  runyard explain -f run.yaml --profiles profiles/ -o json | jq '.provenance[] | select(.set_by != "you")'
  runyard explain resources.mem
  runyard explain volumes.spec
  runyard explain run

\b
Exit codes:
  0 would start    1 refused, the table is printed anyway; or no answer    2 usage error
"""


def _complete_field(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    item = load("click.shell_completion:CompletionItem")
    fields = load("runyard.spec.field_reference:list_fields")()
    return [item(field.name, help=field.description) for field in fields if field.name.startswith(incomplete)]


@click.command(cls=RunCommand, epilog=EXAMPLES)
@click.argument("field", metavar="[FIELD]", required=False, shell_complete=_complete_field)
@add_run_options(is_file_required=False)
@add_answer_options
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.pass_context
def explain(ctx: click.Context, /, field: str | None, output: str, **given: Any) -> None:
    """Show every value of a run, who set it, and what it replaced; then warnings, errors and the verdict.

    Values come from these layers, weakest first: platform default, base template, function, task, you, profile, policy.

    A server answers if one is configured, by a context or the environment; nothing is stored there. With --offline, or
    with options that say what a server knows (--profiles, --policy, --secret, --volume, --claim, --config-map, --uid,
    --namespace), this program answers by itself. Standard error says which answered. Takes the same options as
    `runyard render`.

    With FIELD instead of a file, document one field: its type, what is allowed, its default, who may set it, examples
    and subfields. `runyard explain run` lists all fields.
    """
    if field is not None:
        _refuse_run_options(ctx, field)
        load("runyard.cli.field_help:print_field")(field, output=output)
        return
    if given["file"] is None:
        raise click.UsageError("missing: -f FILE, or the FIELD to document, such as `resources.mem`", ctx)
    flags, said = split_flags(given)
    options = RunOptions(**said)
    reason = load("runyard.cli.plan_sources:find_offline_reason")(flags, options)
    if reason is not None:
        load("runyard.cli.explanation:print_explanation")(options, reason=reason, output=output)
    else:
        load("runyard.cli.server_plans:print_explanation")(flags, options, output=output)


def _refuse_run_options(ctx: click.Context, field: str) -> None:
    """Refuse a file in place of a field, and options about a run beside a field."""
    command_line = click.core.ParameterSource.COMMANDLINE
    given = [
        param.opts[-1]
        for param in ctx.command.params
        if param.name not in ("field", "output") and ctx.get_parameter_source(param.name or "") is command_line
    ]
    if "--file" in given:
        raise click.UsageError(f"unexpected argument `{field}`: set either -f FILE or a FIELD", ctx)
    if load("runyard.cli.files:is_file_name")(field):
        raise click.UsageError(f"unexpected argument `{field}`; did you mean `-f {field}`?", ctx)
    if given:
        raise click.UsageError(f"{', '.join(given)} would have no effect on the field `{field}`", ctx)
