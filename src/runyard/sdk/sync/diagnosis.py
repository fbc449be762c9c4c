# Generated from ../aio/diagnosis.py by `make sdk`: do not edit.
"""`runyard doctor`: looks at the way to the server, and at the server, step by step. Changes nothing."""

import os
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from runyard.sdk.calls import Call, get
from runyard.sdk.checks import (
    Check,
    Level,
    describe_client,
    iter_configuration,
    judge_clock,
    judge_engine,
    judge_proxy,
    judge_server,
    judge_sign_in,
    judge_transport,
    read_clock,
)
from runyard.sdk.connections import find_proxy
from runyard.sdk.errors import NotFound, RunyardError
from runyard.sdk.local_files import call_directly as to_thread
from runyard.sdk.sync.pages import read_pages
from runyard.sdk.sync.transport import Probe, Transport
from runyard.spec.problems import find_nearest

MOST_SEARCHED = 100
_CONFIGURATION = "/.well-known/configuration"


def diagnose(transport: Transport, *, project: str, is_project_named: bool) -> Iterator[Check]:
    """The checks, in the order in which they depend on each other; ends after one without which no other can be made.

    A project that nobody named may be missing: `runyard run` creates it.
    """
    credentials = transport.credentials
    for check in iter_configuration(credentials, os.environ, project=project):
        yield check
    yield describe_client()
    yield judge_proxy(credentials.endpoint)
    if find_proxy(credentials.endpoint) is None:
        found = _check_host(credentials.endpoint)
        yield found
        if found.level == "error":
            return
    try:
        probe = transport.probe("/readyz")
        configuration = transport.parse((transport.probe(_CONFIGURATION)).answer, path=_CONFIGURATION)
    except RunyardError as error:
        yield Check(name="connection", level="error", message=str(error))
        return
    for check in _judge_probe(probe, credentials.endpoint):
        yield check
    server = judge_server(configuration)
    yield server
    if server.level == "error":
        return
    try:
        who = transport.fetch(Call(method="GET", path="/api/auth"))
    except RunyardError as error:
        yield Check(name="sign-in", level="error", message=str(error))
        return
    has_accounts = bool(configuration.get("dhcore_authentication_methods"))
    yield judge_sign_in(who, has_accounts=has_accounts, now=read_clock())
    yield _check_engine(transport)
    yield _check_project(transport, project, is_named=is_project_named)


def _check_host(endpoint: str) -> Check:
    """Whether the name of the server has an address."""
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    try:
        found = to_thread(socket.getaddrinfo, host, parts.port, 0, socket.SOCK_STREAM)
    except OSError as error:
        cure = "check the spelling, and the name server or VPN of this machine"
        message = f"{host} is unknown: {error.strerror or error}"
        return Check(name="host", level="error", message=message, cure=cure)
    addresses = sorted({str(address[0]) for *_, address in found})
    return Check(name="host", level="ok", message=f"{host} is {', '.join(addresses[:4])}")


def _judge_probe(probe: Probe, endpoint: str) -> list[Check]:
    """The connection, its encryption and the clocks; and whether the server can work."""
    now = read_clock()
    milliseconds = round(probe.seconds * 1000)
    found = [
        Check(name="connection", level="ok", message=f"answers in {milliseconds} ms"),
        judge_transport(endpoint, probe.certificate, now=now),
        judge_clock(probe.answer.headers.get("date"), now=now),
    ]
    if probe.answer.status != 200:
        shown = " ".join(probe.answer.text.split())[:200]
        message, cure = f"is not ready: {shown}", "wait, or see the server's log"
        found.append(Check(name="server", level="error", message=message, cure=cure))
    return found


def _check_engine(transport: Transport) -> Check:
    try:
        return judge_engine(transport.fetch(get("engine")))
    except RunyardError as error:
        return Check(name="engine", level="error", message=str(error))


def _check_project(transport: Transport, project: str, *, is_named: bool) -> Check:
    """Whether it exists, and the user may see it."""
    try:
        transport.fetch(get("projects", project))
    except NotFound:
        listed = read_pages(transport, "projects", limit=MOST_SEARCHED)
        nearest = find_nearest(project, [str(document.get("name")) for document in listed])
        cure = f"did you mean {nearest}?" if nearest else f"create it with `runyard project create {project}`"
        level: Level = "error" if is_named else "warning"
        return Check(name="project", level=level, message=f"there is no project {project}", cure=cure)
    except RunyardError as error:
        return Check(name="project", level="error", message=str(error))
    return Check(name="project", level="ok", message=project)
