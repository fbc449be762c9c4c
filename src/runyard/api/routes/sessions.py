"""`/api/v1/-/{project}/runs/{id}/exec`, `/attach`, `/portforward`: WebSockets into the containers of a run."""

from starlette.websockets import WebSocket

from runyard.api.context import get_context
from runyard.api.query_parameters import ParameterValues, QueryParameter, flag, get_parameters, optional_integer, text
from runyard.api.routing import Routes, get_principal
from runyard.api.websockets import serve_session
from runyard.app.engine import ChannelId, Session
from runyard.app.sessions import LARGEST_COMMAND_BYTES, MOST_COMMAND_PARTS, open_attach, open_exec, open_port
from runyard.domain.access import Permission
from runyard.spec.figures import format_bytes
from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

routes = Routes("/api/v1/-/{project}/runs", tag="runs")
MOST_PORT = 65535


def _read_command(values: ParameterValues) -> tuple[str, ...]:
    """The parts of a command, empty ones too."""
    parts = tuple(values.texts)
    if len(parts) > MOST_COMMAND_PARTS:
        values.add(Code.TEXT_LONG, f"has {len(parts)} parts", allowed=f"at most {MOST_COMMAND_PARTS}")
    elif sum(len(part.encode(errors="replace")) for part in parts) > LARGEST_COMMAND_BYTES:
        values.add(Code.TEXT_LONG, "is too long", allowed=f"at most {format_bytes(LARGEST_COMMAND_BYTES)}")
    elif any("\0" in part for part in parts):
        values.add(Code.TEXT_CONTROL, "has a zero byte")
    return parts


COMMAND = QueryParameter(
    name="command",
    description="The command: once for the program and once for each argument. It is not run by a shell.",
    schema={"type": "array", "items": {"type": "string"}},
    read=_read_command,
)
CONTAINER = text("container", "The container; by default the one that executes the run.")
POD = text("pod", "The pod; by default the newest that runs.")
STDIN = flag("stdin", "Whether the client sends input.")
TTY = flag("tty", "Whether the command gets a terminal; its output is then one stream.")
PORT = optional_integer("port", "The TCP port in the pod.", at_least=1, at_most=MOST_PORT)


@routes.websocket("/{id}/exec", permission=Permission.INTERACT, parameters=(COMMAND, CONTAINER, POD, STDIN, TTY))
async def execute(socket: WebSocket, project: str, id: str) -> None:  # noqa: A002 - the name in the path
    """Execute a command in a container of a run."""
    session = _read_session(socket, command=get_parameters(socket)[COMMAND])
    if not session.command or not session.command[0]:
        raise refuse(Code.PARAMETER_MISSING, "name the command to execute", path=("query", COMMAND.name))
    core, who = get_context(socket).core, get_principal(socket)
    await serve_session(socket, lambda: open_exec(core, who, project, id, session), inputs=_list_inputs(session))


@routes.websocket("/{id}/attach", permission=Permission.INTERACT, parameters=(CONTAINER, POD, STDIN, TTY))
async def attach(socket: WebSocket, project: str, id: str) -> None:  # noqa: A002 - the name in the path
    """Attach to the main process of a container of a run."""
    session = _read_session(socket)
    core, who = get_context(socket).core, get_principal(socket)
    await serve_session(socket, lambda: open_attach(core, who, project, id, session), inputs=_list_inputs(session))


@routes.websocket("/{id}/portforward", permission=Permission.INTERACT, parameters=(PORT, POD))
async def forward_port(socket: WebSocket, project: str, id: str) -> None:  # noqa: A002 - the name in the path
    """Connect to a TCP port of a pod of a run: channel 0 in both directions."""
    parameters = get_parameters(socket)
    port = parameters[PORT]
    if port is None:
        raise refuse(Code.PARAMETER_MISSING, "name the port to connect to", path=("query", PORT.name))
    core, who = get_context(socket).core, get_principal(socket)
    pod = parameters[POD]
    await serve_session(
        socket,
        lambda: open_port(core, who, project, id, port, pod=pod),
        inputs=(ChannelId.STDIN,),
        has_status=False,
    )


def _read_session(socket: WebSocket, *, command: tuple[str, ...] = ()) -> Session:
    parameters = get_parameters(socket)
    return Session(
        pod=parameters[POD],
        container=parameters[CONTAINER],
        command=command,
        has_stdin=parameters[STDIN],
        is_tty=parameters[TTY],
    )


def _list_inputs(session: Session) -> tuple[ChannelId, ...]:
    """The channels that the client may write to."""
    return (
        *((ChannelId.STDIN,) if session.has_stdin else ()),
        *((ChannelId.RESIZE,) if session.is_tty else ()),
    )
