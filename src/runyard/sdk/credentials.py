"""Where the endpoint and the credentials come from. The first of these that names an endpoint is used, alone:

1. arguments of the client, 2. `RUNYARD_ENDPOINT` with `RUNYARD_TOKEN`, or `RUNYARD_USER` and `RUNYARD_PASSWORD`,
3. `DHCORE_ENDPOINT` with DigitalHub's other variables, 4. the context named by `RUNYARD_CONTEXT`, or the current one,
5. `~/.dhcore.ini`, 6. the server of this machine, without credentials.

A context that is named, by argument or `RUNYARD_CONTEXT`, comes before the variables.
"""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from runyard.sdk import dhcore
from runyard.sdk.contexts import Context, Contexts, find_path, load_contexts
from runyard.sdk.errors import ConfigurationError
from runyard.spec.problems import find_nearest

DEFAULT_ENDPOINT = "http://localhost:8080"
CONTEXT_VARIABLE = "RUNYARD_CONTEXT"
PROJECT_VARIABLE = "RUNYARD_PROJECT"
CLIENT_ID = "runyard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An endpoint, how to sign in there, and where both were found."""

    endpoint: str
    source: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    token_endpoint: str | None = None
    client_id: str = CLIENT_ID
    context: str | None = None
    project: str | None = None
    ini: dhcore.IniFile | None = None
    """Where refreshed tokens are written."""

    @property
    def authorization(self) -> str | None:
        """The header of every request; None if there are no credentials."""
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.user is not None and self.password is not None:
            return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"
        return None

    def refreshed(self, token: str, refresh_token: str | None) -> "Credentials":
        """The same with new tokens, which are stored where the old ones came from."""
        if self.ini is not None:
            self.ini.write_tokens(token, refresh_token)
        return replace(self, token=token, refresh_token=refresh_token or self.refresh_token)


def find_credentials(
    *,
    endpoint: str | None = None,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Credentials:
    """Find the credentials. Raises `ConfigurationError` if what was found cannot be used."""
    environ = os.environ if environ is None else environ
    if endpoint is not None:
        found = Credentials(endpoint=endpoint, source="arguments", token=token, user=user, password=password)
    else:
        found = _search(environ, context=context or environ.get(CONTEXT_VARIABLE) or None)
        if token is not None or user is not None:
            found = replace(found, token=token, user=user, password=password, refresh_token=None, ini=None)
    project = environ.get(PROJECT_VARIABLE) or found.project
    return replace(found, endpoint=check_endpoint(found.endpoint, found.source), project=project)


def check_endpoint(endpoint: str, source: str) -> str:
    """The endpoint without a final slash. Raises `ConfigurationError` if it is not an http or https address."""
    try:
        parts = urlsplit(endpoint)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")  # as a look-up does, which fails for labels that are empty or too long
    except ValueError:
        is_usable = False
    if not is_usable or "@" in endpoint or "?" in endpoint or "#" in endpoint:
        shown = endpoint.rpartition("@")[2][:200]
        allowed = f"an http or https address, such as {DEFAULT_ENDPOINT}"
        raise ConfigurationError(f"the endpoint `{shown}` ({source}) is not valid; allowed: {allowed}")
    return endpoint.rstrip("/")


def _search(environ: Mapping[str, str], *, context: str | None) -> Credentials:
    path = find_path(environ)
    if context is not None:
        contexts = load_contexts(path)
        return from_context(context, get_context(contexts, context), source=f"context {context} in {path}")
    if endpoint := environ.get("RUNYARD_ENDPOINT"):
        return Credentials(
            endpoint=endpoint,
            source="RUNYARD_ENDPOINT",
            token=environ.get("RUNYARD_TOKEN") or None,
            user=environ.get("RUNYARD_USER") or None,
            password=environ.get("RUNYARD_PASSWORD") or None,
        )
    if environ.get(dhcore.ENDPOINT):
        return _from_dhcore(environ, source=dhcore.ENDPOINT, ini=None)
    contexts = load_contexts(path)
    if contexts.current is not None:
        name = contexts.current
        return from_context(name, contexts.by_name[name], source=f"context {name} in {path}")
    ini = dhcore.find_ini(environ)
    values = ini.read()
    if values.get(dhcore.ENDPOINT):
        return _from_dhcore(values, source=f"{ini.path}, section {ini.section}", ini=ini)
    return Credentials(endpoint=DEFAULT_ENDPOINT, source="default")


def get_context(contexts: Contexts, name: str) -> Context:
    """A context by its name; raises `ConfigurationError` with the nearest name."""
    if name in contexts.by_name:
        return contexts.by_name[name]
    nearest = find_nearest(name, contexts.by_name)
    if nearest:
        meant = f"did you mean {nearest}?"
    elif contexts.by_name:
        meant = f"known: {', '.join(sorted(contexts.by_name))}"
    else:
        meant = "there are none; sign in with `runyard login`"
    raise ConfigurationError(f"unknown context {name}; {meant}")


def from_context(name: str, context: Context, *, source: str) -> Credentials:
    """The credentials of a context."""
    return Credentials(
        endpoint=context.endpoint,
        source=source,
        user=context.user,
        token=context.token,
        context=name,
        project=context.project,
    )


def _from_dhcore(values: Mapping[str, str], *, source: str, ini: dhcore.IniFile | None) -> Credentials:
    personal = values.get(dhcore.PERSONAL) or None
    return Credentials(
        endpoint=values[dhcore.ENDPOINT],
        source=source,
        token=personal or values.get(dhcore.ACCESS) or None,
        refresh_token=None if personal else values.get(dhcore.REFRESH) or None,
        user=values.get(dhcore.USER) or None,
        password=values.get(dhcore.PASSWORD) or None,
        token_endpoint=values.get(dhcore.TOKEN_ENDPOINT) or None,
        client_id=values.get(dhcore.CLIENT_ID) or CLIENT_ID,
        ini=ini,
    )
