"""Implements `runyard login`, `logout`, `whoami` and `context`."""

import os
import platform
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import click

from runyard.cli.client_session import connect, report_errors
from runyard.cli.files import get_stdin
from runyard.cli.listings import Listing
from runyard.cli.output import clean, print_data, print_note
from runyard.cli.questions import ask, ask_hidden, can_ask
from runyard.cli.tables import print_listing
from runyard.sdk.contexts import Context, Contexts, find_path, load_contexts, save_contexts
from runyard.sdk.credentials import check_endpoint, find_credentials, get_context
from runyard.sdk.errors import RunyardError
from runyard.sdk.sync.client import Client

MOST_SECRET_BYTES = 8192
TOKEN_DAYS = 90
COLUMNS = ("name", "endpoint", "user", "project")
Flags = Mapping[str, Any]


def login(
    endpoint: str | None, *, name: str | None, user: str | None, project: str | None, is_token: bool, is_piped: bool
) -> None:
    """Sign in at a server and store the credentials as a context, which becomes the current one."""
    with report_errors():
        path = find_path(os.environ)
        contexts = load_contexts(path)
        address = check_endpoint(endpoint or find_credentials(context=name).endpoint, "argument")
        with Client(address) as client:
            methods = client.describe_server().get("dhcore_authentication_methods") or []
        context = Context(endpoint=address, project=project)
        if methods:
            context = _sign_in(address, user=user, project=project, is_token=is_token, is_piped=is_piped)
        elif is_token or user:
            print_note("this server has no accounts: no credentials are stored")
        name = name or _choose_name(address, contexts)
        save_contexts(path, contexts.put(name, context))
    who = context.user or "without an account"
    click.echo(f"signed in at {clean(address)} {'as ' if context.user else ''}{clean(who)} (context {clean(name)})")
    print_note("try `runyard run --image busybox:1.36 -- echo hello`, or `runyard run -f run.yaml`")


def _sign_in(address: str, *, user: str | None, project: str | None, is_token: bool, is_piped: bool) -> Context:
    """Check the credentials. A password is exchanged for a personal token, so that it is not stored."""
    if is_token:
        token = ask_secret("Token", is_piped=is_piped)
        with Client(address, token=token) as client:
            return Context(endpoint=address, user=client.whoami()["username"], token=token, project=project)
    user = user or _ask_name(is_piped=is_piped)
    password = ask_secret("Password", is_piped=is_piped)
    with Client(address, user=user, password=password) as client:
        client.whoami()
        made = client.create_token(f"runyard login on {platform.node()}"[:100], days=TOKEN_DAYS)
    return Context(endpoint=address, user=user, token=made["value"], token_id=made["id"], project=project)


def logout(name: str | None) -> None:
    """Remove a context, and revoke the token that `login` created for it."""
    with report_errors():
        path = find_path(os.environ)
        contexts = load_contexts(path)
        name = name or contexts.current
        if name is None:
            raise click.ClickException("not signed in: there is no current context")
        context = get_context(contexts, name)
        save_contexts(path, contexts.drop(name))
    click.echo(f"signed out: context {clean(name)} is removed")
    if context.token_id is None:
        return
    try:
        with Client(context.endpoint, token=context.token, retry_seconds=0) as client:
            client.revoke_token(context.token_id)
    except RunyardError as error:
        print_note(f"the token {context.token_id} could not be revoked and expires by itself: {error}")


def print_user(flags: Flags, *, output: str) -> None:
    """Say who the server takes this user for, and where the credentials come from."""
    with report_errors(), connect(flags) as client:
        who = client.whoami()
        server = client.describe_server()
        given = client.credentials
    data = {
        "user": who.get("username"),
        "endpoint": given.endpoint,
        "context": given.context,
        "project": given.project,
        "source": given.source,
        "server_version": server.get("dhcore_version"),
        "permissions": who.get("permissions") or [],
    }
    if output != "text":
        print_data(data, output=output)
        return
    click.echo(f"{clean(str(data['user']))} at {clean(given.endpoint)} (from {clean(given.source)})")


def print_contexts(*, listing: Listing) -> None:
    """List the contexts; the current one is marked."""
    with report_errors():
        contexts = load_contexts(find_path(os.environ))
    rows = [_to_row(name, context, contexts) for name, context in sorted(contexts.by_name.items())]
    data = [{"is_current": bool(row["current"]), **{name: row[name] for name in COLUMNS}} for row in rows]
    print_listing(listing, rows, data=data, optional=("project",))


def use_context(name: str) -> None:
    """Make a context the current one."""
    with report_errors():
        path = find_path(os.environ)
        contexts = load_contexts(path)
        context = get_context(contexts, name)
        save_contexts(path, contexts.choose(name))
    click.echo(f"context {clean(name)}: {clean(context.endpoint)}")


def _to_row(name: str, context: Context, contexts: Contexts) -> Mapping[str, str]:
    cells = (name, context.endpoint, context.user or "", context.project or "")
    return {"current": "*" if name == contexts.current else "", **dict(zip(COLUMNS, cells, strict=True))}


def _choose_name(address: str, contexts: Contexts) -> str:
    """The name of the context of that server, or the host's name; another port of the same host gets its number."""
    for name, context in contexts.by_name.items():
        if context.endpoint == address:
            return name
    parts = urlsplit(address)
    host = parts.hostname or "server"
    return f"{host}-{parts.port}" if host in contexts.by_name and parts.port else host


def _ask_name(*, is_piped: bool) -> str:
    if is_piped or not can_ask():
        raise click.UsageError("no terminal to prompt for the name: use --user")
    return ask("User")


def ask_secret(what: str, *, is_piped: bool) -> str:
    """Read a secret from a prompt without echo, or from standard input; never from an argument."""
    if is_piped:
        return get_stdin().buffer.readline(MOST_SECRET_BYTES).decode(errors="replace").strip()
    if not can_ask():
        raise click.UsageError(f"no terminal to prompt for the {what[:1].lower()}{what[1:]}: use --stdin")
    return ask_hidden(what).strip()
