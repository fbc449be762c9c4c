"""`/api/v1/-/{project}/runs/{id}/events`: the transitions of a run, as a list or as server-sent events."""

import json
import time
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.openapi_models import EventList
from runyard.api.query_parameters import get_parameters, integer
from runyard.api.responses import json_response, transition_to_json
from runyard.api.routing import Routes, get_principal
from runyard.api.streams import LimitedStreamingResponse, StreamGuard
from runyard.app.model import Transition
from runyard.app.ports import Unavailable
from runyard.app.runs import RunFollower, follow_run
from runyard.domain.access import Permission
from runyard.spec.problem_codes import Code
from runyard.spec.readers import expect_integer, refuse

routes = Routes("/api/v1/-/{project}/runs", tag="runs")
EVENTS = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
MOST_SEQUENCE = 2**53
AFTER = integer("after", "Only transitions with a greater sequence.", default=0, at_least=0, at_most=MOST_SEQUENCE)
_EXAMPLE = 'id: 2\nevent: transition\ndata: {"sequence":2,"status":"READY"}\n\nevent: end\ndata: {"reason":"final"}\n\n'
_RESPONSES = {
    200: {
        "description": "Transitions, oldest first. As a stream, each is an event `transition` with its sequence as id.",
        "content": {"application/json": EventList, EVENTS: {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    204: {"description": "As a stream: the run has ended and has no later transitions; do not reconnect."},
}


@routes.get(
    "/{id}/events",
    permission=Permission.READ,
    parameters=(AFTER,),
    responses=_RESPONSES,
    name="list_run_events",
)
async def get_events(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """List the transitions of a run, oldest first; with `after`, those with a greater sequence.

    A list has 100 at most. If there are more, the header `Link` names the next page (`rel="next"`).

    With `Accept: text/event-stream` they are sent as they happen (server-sent events). `Last-Event-ID` or `after`
    resumes an interrupted stream. The last event is `end`; its reason is `final`, `gone`, `draining`, `access` or
    `unavailable`. A comment is sent every 15 seconds as a heartbeat.
    """
    after = _read_after(request)
    follower = await follow_run(get_context(request).core, project, id)
    last = follower.transitions[-1].sequence
    if EVENTS not in request.headers.get("accept", "").lower():
        page = await follower.read_known(after=after)
        is_cut = bool(page) and page[-1].sequence < last
        more = {"Link": f'<?after={page[-1].sequence}>; rel="next"'} if is_cut else {}
        return json_response([transition_to_json(one) for one in page], headers={"Vary": "Accept", **more})
    if after >= last and follower.has_ended:
        return Response(status_code=204, headers={"Vary": "Accept"})
    chunks = _iter_events(follower, StreamGuard(request, project=project), after=after)
    return LimitedStreamingResponse(
        chunks, request=request, who=get_principal(request), media_type=EVENTS, headers={"Vary": "Accept"}
    )


async def _iter_events(follower: RunFollower, guard: StreamGuard, *, after: int) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    try:
        with follower.listen():
            while known := await follower.read_known(after=after):
                yield b"".join(map(_write_transition, known))
                after = known[-1].sequence
            async for chunk in _follow_events(follower, guard):
                yield chunk
    except Unavailable:
        yield _write_event("end", {"reason": "unavailable"})


async def _follow_events(follower: RunFollower, guard: StreamGuard) -> AsyncIterator[bytes]:
    told_at = time.monotonic()
    while True:
        reason = await _stop_reason(follower, guard)
        if reason is not None:
            yield _write_event("end", {"reason": reason})
            return
        if time.monotonic() - told_at >= HEARTBEAT_SECONDS:
            yield b": still there\n\n"
            told_at = time.monotonic()
        if not follower.may_have_changed:
            until_heartbeat = max(0.001, told_at + HEARTBEAT_SECONDS - time.monotonic())
            await follower.wait(seconds=min(until_heartbeat, guard.seconds_left))
        if follower.may_have_changed and (new := await follower.read_new()):
            yield b"".join(map(_write_transition, new))
            told_at = time.monotonic()


async def _stop_reason(follower: RunFollower, guard: StreamGuard) -> str | None:
    if follower.has_ended:
        return "gone" if follower.is_gone or follower.is_deleting else "final"
    return await guard.stop_reason()


def _write_transition(transition: Transition) -> bytes:
    return _write_event("transition", transition_to_json(transition), event_id=transition.sequence)


def _write_event(name: str, data: object, *, event_id: int | None = None) -> bytes:
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def _read_after(request: Request) -> int:
    """The sequence to resume after. A browser reconnects to the same URL and adds the header, so the header wins."""
    given = request.headers.get("last-event-id")
    if not given:
        return get_parameters(request)[AFTER]
    if not given.isascii() or not given.isdigit():
        raise refuse(
            Code.HEADER_LAST_EVENT_ID,
            "not an event id of this server",
            path=("header", "Last-Event-ID"),
            value=given[:80],
        )
    return expect_integer(given[:20], what="Last-Event-ID", at_least=0, at_most=MOST_SEQUENCE)
