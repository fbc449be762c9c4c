"""Logs of a run: `/logs` as DigitalHub's SDK reads them, `/log` as text from any offset on, followed if wanted."""

import base64
from dataclasses import replace
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.openapi_models import LogList
from runyard.api.query_parameters import Parameters, flag, get_parameters, optional_integer, text, time_point
from runyard.api.responses import format_time, json_response
from runyard.api.routing import Routes, get_principal
from runyard.api.streams import LimitedStreamingResponse, StreamGuard
from runyard.app.logs import MOST_TAIL, LogFollower, LogTail, Marker, Wanted, choose_parts, iter_parts, list_logs
from runyard.app.model import Json, Run
from runyard.app.runs import follow_run
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/runs", tag="runs")
STATE = text("state", "The state, exact.")
FOLLOW = flag("follow", "Go on as long as the run does.")
SINCE = time_point("since", "Only what was written from that time on (ISO 8601).")
TAIL = optional_integer("tail", "Only the last lines, that many.", at_least=0, at_most=MOST_TAIL)
CONTAINER = text("container", "The name of one container.")
POD = text("pod", "The name of one pod.")
OFFSET = optional_integer("offset", "From that byte on.", at_least=0, at_most=2**53)
TEXT = "text/plain; charset=utf-8"
_RESPONSES = {
    200: {
        "description": "The text, as the containers wrote it.",
        "content": {"text/plain": {"schema": {"type": "string"}, "example": "hello\nworld\n"}},
        "headers": {
            "X-Log-Marker": {
                "description": "How lines begin that are ours and not the log's: it, a space, and JSON.",
                "schema": {"type": "string"},
            },
            "X-Log-Stream": {
                "description": "`pod/container`, where it is one stream.",
                "schema": {"type": "string"},
            },
            "X-Log-Offset": {
                "description": "Of the first byte, where it is one stream.",
                "schema": {"type": "integer"},
            },
            "X-Log-Next-Offset": {
                "description": "Where to go on, where it is one stream and not followed.",
                "schema": {"type": "integer"},
            },
        },
    }
}


@routes.get("/{id}/logs", permission=Permission.READ, parameters=(STATE,), response=LogList, name="list_run_logs")
async def list_all(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """What each container wrote, its last 2 MiB, in base64; an empty list if there is nothing.

    Lines that begin with `status.marker` are ours: what was left out before, and gaps. With `state`, the logs of a
    run in that state, none if it is in another.
    """
    state, marker = get_parameters(request)[STATE], Marker()
    run, tails = await list_logs(get_context(request).core, project, id, marker=marker)
    if state is not None and state != run.state:
        return json_response([])
    return json_response([_tail_to_json(run, tail, marker=marker) for tail in tails])


@routes.get(
    "/{id}/log",
    permission=Permission.READ,
    parameters=(FOLLOW, SINCE, TAIL, CONTAINER, POD, OFFSET),
    responses=_RESPONSES,
    name="get_run_log",
)
async def get_text(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """The log as text: of one container, of one pod, or of all, each after a line with its name.

    `offset`, `since` and `tail` all hold where several are given; an offset needs one stream. With `follow` it goes on
    until the run has ended. A line that begins with the text of the header `X-Log-Marker`, which is another in every
    answer and so never the program's own, is ours: a gap with its span, cause and offset; the name of a stream; or why
    a followed log ends before the run does, and the offset to go on from.
    """
    parameters = get_parameters(request)
    wanted, is_following = _make_wanted(parameters), parameters[FOLLOW]
    core, marker = get_context(request).core, Marker()
    follower = await follow_run(core, project, id)
    parts = await choose_parts(core, id, wanted, can_come=is_following and not follower.has_ended)
    headers = {"X-Log-Marker": marker.text}
    if len(parts) == 1:
        info = parts[0].info
        headers["X-Log-Stream"] = quote(f"{info.stream.pod}/{info.stream.container}")
        headers["X-Log-Offset"] = str(parts[0].offset)
        headers |= {} if is_following else {"X-Log-Next-Offset": str(info.size)}
    chunks = iter_parts(core.logs, parts, marker=marker)
    if is_following:
        # The offset is of what there is now, not of a stream that comes later.
        follow = LogFollower(core, follower, replace(wanted, offset=None), marker=marker)
        chunks = follow.iterate(parts, stop_reason=StreamGuard(request, project=project).stop_reason)
    return LimitedStreamingResponse(
        chunks, request=request, who=get_principal(request), media_type=TEXT, headers=headers
    )


def _make_wanted(parameters: Parameters) -> Wanted:
    return Wanted(
        container=parameters[CONTAINER],
        pod=parameters[POD],
        since=parameters[SINCE],
        tail=parameters[TAIL],
        offset=parameters[OFFSET],
    )


def _tail_to_json(run: Run, tail: LogTail, *, marker: Marker) -> Json:
    info = tail.part.info
    name = f"{run.id}-{info.stream.pod}-{info.stream.container}"
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
            "size": info.size,
            "offset": tail.part.offset,
            "marker": marker.text,
        },
        "content": base64.b64encode(tail.content).decode(),
    }
