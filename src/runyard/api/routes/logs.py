"""Logs of a run: `/logs` as DigitalHub's SDK reads them, `/log` as plain text, from any offset, followed on demand."""

import base64
from dataclasses import replace
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.openapi_models import LogList
from runyard.api.query_parameters import Parameters, flag, get_parameters, optional_integer, text, time_point
from runyard.api.responses import format_time, json_response, made_response
from runyard.api.routing import Routes, get_principal
from runyard.api.streams import LimitedStreamingResponse, StreamGuard
from runyard.app.logs import MOST_TAIL, LogFollower, LogTail, Marker, Wanted, choose_parts, iter_parts, list_logs
from runyard.app.model import Json, Run
from runyard.app.runs import follow_run
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/runs", tag="runs")
STATE = text("state", "Only if the run is in this state.")
FOLLOW = flag("follow", "Follow the log until the run has ended and its log is complete.")
SINCE = time_point("since", "Only lines written at or after this time (ISO 8601).")
TAIL = optional_integer("tail", "Only this many lines from the end.", at_least=0, at_most=MOST_TAIL)
CONTAINER = text("container", "Only this container.")
POD = text("pod", "Only this pod.")
INSTANCE = optional_integer(
    "instance", "Only this instance of a container: 0 is the first, 1 after a restart.", at_least=0, at_most=2**31 - 1
)
OFFSET = optional_integer("offset", "Start at this byte.", at_least=0, at_most=2**53)
TEXT = "text/plain; charset=utf-8"
_RESPONSES = {
    200: {
        "description": "The log text as the containers wrote it.",
        "content": {"text/plain": {"schema": {"type": "string"}, "example": "hello\nworld\n"}},
        "headers": {
            "X-Log-Marker": {
                "description": "Prefix of the lines that the server adds: the marker, a space, and JSON.",
                "schema": {"type": "string"},
            },
            "X-Log-Stream": {
                "description": "`pod/container`, or `pod/container/1` after a restart, if the response is one stream.",
                "schema": {"type": "string"},
            },
            "X-Log-Offset": {
                "description": "Offset of the first byte, if the response is one stream.",
                "schema": {"type": "integer"},
            },
            "X-Log-Next-Offset": {
                "description": "Offset to continue from, if the response is one stream and not followed.",
                "schema": {"type": "integer"},
            },
        },
    }
}


@routes.get(
    "/{id}/logs",
    permission=Permission.READ,
    parameters=(STATE,),
    response=LogList,
    name="list_run_logs",
    is_listing=True,
)
async def list_all(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """List the logs of a run: the last 2 MiB of each container, in base64; an empty list if there are none.

    Lines that begin with `status.marker` are added by the server: they report bytes left out and gaps. With `state`,
    the list is empty unless the run is in that state.
    """
    state, marker = get_parameters(request)[STATE], Marker()
    run, tails = await list_logs(get_context(request).core, project, id, marker=marker)
    if state is not None and state != run.state:
        return json_response([])
    return made_response(
        lambda: [_tail_to_json(run, tail, marker=marker) for tail in tails], over=[tail.content for tail in tails]
    )


@routes.get(
    "/{id}/log",
    permission=Permission.READ,
    parameters=(FOLLOW, SINCE, TAIL, CONTAINER, POD, INSTANCE, OFFSET),
    responses=_RESPONSES,
    name="get_run_log",
)
async def get_text(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Get the log as plain text: of one container, of one pod, or of all, each after a line with its name.

    A restarted container has another stream: `pod/container/1`.

    `offset`, `since` and `tail` combine; `offset` requires a single stream. With `follow` the response continues until
    the run has ended and its log is complete. The server adds lines that begin with the value of the header
    `X-Log-Marker`, which differs in every response and so cannot be the program's own output: a gap with its span,
    cause and offset; the name of a stream; or why a followed log ends before it is complete, and the offset to
    continue from.
    """
    parameters = get_parameters(request)
    wanted, is_following = _make_wanted(parameters), parameters[FOLLOW]
    core, marker = get_context(request).core, Marker()
    follower = await follow_run(core, project, id)
    parts = await choose_parts(core, follower.run, wanted, can_come=is_following and not follower.has_ended)
    headers = {"X-Log-Marker": marker.text}
    if len(parts) == 1:
        info = parts[0].info
        headers["X-Log-Stream"] = quote(info.stream.name)
        headers["X-Log-Offset"] = str(parts[0].offset)
        headers |= {} if is_following else {"X-Log-Next-Offset": str(info.size)}
    chunks = iter_parts(core.logs, parts, marker=marker)
    if is_following:
        # The offset applies to the streams there are now, not to those that come later.
        follow = LogFollower(core, follower, replace(wanted, offset=None), marker=marker)
        chunks = follow.iterate(parts, guard=StreamGuard(request, project=project))
    return LimitedStreamingResponse(
        chunks, request=request, who=get_principal(request), media_type=TEXT, headers=headers
    )


def _make_wanted(parameters: Parameters) -> Wanted:
    return Wanted(
        container=parameters[CONTAINER],
        pod=parameters[POD],
        instance=parameters[INSTANCE],
        since=parameters[SINCE],
        tail=parameters[TAIL],
        offset=parameters[OFFSET],
    )


def _tail_to_json(run: Run, tail: LogTail, *, marker: Marker) -> Json:
    info = tail.part.info
    name = f"{run.id}-{info.stream.name.replace('/', '-')}"
    first, last = (at or run.created_at for at in (info.first_at, info.last_at))
    return {
        "id": name,
        "kind": "log",
        "project": run.project,
        "name": name,
        "run": run.id,
        "user": run.user,
        "metadata": {
            "project": run.project,
            "name": name,
            "created": format_time(first),
            "updated": format_time(last),
        },
        "spec": {"run": run.id, "timestamp": int(last.timestamp() * 1000)},
        "status": {
            "container": info.stream.container,
            "pod": info.stream.pod,
            "instance": info.stream.instance,
            "complete": info.is_complete,
            "cause": info.cause,
            "size": info.size,
            "offset": tail.part.offset,
            "marker": marker.text,
        },
        "content": base64.b64encode(tail.content).decode(),
    }
