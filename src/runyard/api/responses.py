"""Entities, runs and pages as JSON, in shapes that every client can read."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from runyard.api.streams import SEND_SECONDS
from runyard.app.document_thread import compute_on_thread, is_large
from runyard.app.entities import make_key
from runyard.app.list_query import Page
from runyard.app.model import Entity, Json, Run, Transition
from runyard.app.projects import ListedEntity
from runyard.app.runs import NOTES
from runyard.app.unparsed_entities import UnparsedEntities, are_large
from runyard.domain.lifecycle import FINAL, State
from runyard.spec.digitalhub.original_fields import show_spec
from runyard.spec.problems import limit_nearest

SENT_BYTES = 1 << 18
"""What is sent of a large response at once."""
_SLICE = 5000
"""Numbers or texts of a list that are written by one call."""


class LargeJsonResponse(Response):
    """JSON that is made and written on a thread when the response is sent.

    It is written part by part: one call of `json` holds the GIL. `make` returns the content.
    """

    media_type = "application/json"

    def __init__(self, make: Callable[[], Any], status: int = 200, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(b"", status, headers=headers)
        self._make = [make]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Write it, unless that was done before, and send it as long as the client reads."""
        await self.write()
        # A WebSocket is refused by messages of other names.
        prefix = "websocket." if scope["type"] == "websocket" else ""
        await send({"type": f"{prefix}http.response.start", "status": self.status_code, "headers": self.raw_headers})
        # In parts, so that a slow client holds it back (back-pressure), and the event loop is free between two.
        for start in range(0, len(self.body), SENT_BYTES):
            part = self.body[start : start + SENT_BYTES]
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await send({"type": f"{prefix}http.response.body", "body": part, "more_body": True})
            except TimeoutError:
                return
        await send({"type": f"{prefix}http.response.body", "body": b""})

    async def write(self) -> None:
        """Make the body, unless that was done before. Nothing else stays in memory: the client may read slowly."""
        if make := self._make:
            with limit_nearest():
                # Taken from the list there, so that the thread also frees what it has written.
                self.body = await compute_on_thread(lambda: _write_parts(make.pop()()))
            self.headers["content-length"] = str(len(self.body))


def json_response(content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response in JSON."""
    if is_large(content):
        return LargeJsonResponse(lambda: content, status, headers=headers)
    return Response(_write(content).encode(), status, media_type="application/json", headers=headers)


def made_response(make: Callable[[], Any], *, over: Any, headers: Mapping[str, str] | None = None) -> Response:
    """A response in JSON that `make` returns; if it goes over large documents, on a thread: shaping takes long."""
    return LargeJsonResponse(make, headers=headers) if is_large(over) else json_response(make(), headers=headers)


def _write(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


class _Written(bytes):
    """A part of an answer that is JSON already."""


def _write_each(contents: Iterable[Json]) -> _Written:
    """A list, one part after the other: none is made before the last one was written and is gone."""
    return _Written(b"[" + b",".join([_write_parts(one) for one in contents]) + b"]")


def _write_parts(content: Any, levels: int = 2) -> bytes:
    """As `_write`, with a call for each part of the outermost lists and mappings."""
    if isinstance(content, _Written):
        return content
    if levels and isinstance(content, dict):
        parts = [_write(str(name)).encode() + b":" + _write_parts(part, levels - 1) for name, part in content.items()]
        return b"{" + b",".join(parts) + b"}"
    if levels and isinstance(content, list | tuple):
        if any(isinstance(part, dict | list | tuple) for part in content):
            return b"[" + b",".join([_write_parts(part, levels - 1) for part in content]) + b"]"
        slices = (content[start : start + _SLICE] for start in range(0, len(content), _SLICE))
        return b"[" + b",".join([_write(part)[1:-1].encode() for part in slices]) + b"]"
    return _write(content).encode()


def entity_response(
    entity: Entity,
    transitions: Iterable[Transition] = (),
    *,
    lists: Mapping[str, Sequence[ListedEntity]] | None = None,
) -> Response:
    """One entity with its ETag; a project with the `lists` of its entities."""

    headers = {"ETag": f'"{entity.revision}"'}
    over = (entity.metadata, entity.spec, entity.status, entity.extensions)

    def make() -> Json:
        return run_to_json(entity, transitions) if isinstance(entity, Run) else entity_to_json(entity)

    if not lists:
        return made_response(make, over=over, headers=headers)

    def make_with_lists() -> Json:
        content = make()
        shown = {plural: _write_each(map(listed_to_json, listed)) for plural, listed in lists.items()}
        return {**content, "spec": _Written(_write_parts({**content["spec"], **shown}))}

    is_long = is_large(over) or any(are_large([one.entity for one in listed]) for listed in lists.values())
    return _parts_response(make_with_lists, is_long=is_long, headers=headers)


def page_response(page: Page, *, number: int, size: int, show: Callable[[Entity], Json] | None = None) -> Response:
    """A page of entities in DigitalHub's envelope, each as `show` shows it; a page past the end is empty."""
    to_json = show or entity_to_json

    def make() -> Json:
        shown = _write_each(map(to_json, page.content))
        return {"content": shown, **_make_envelope(len(page.content), page, number=number, size=size)}

    is_long = page.content.is_large if isinstance(page.content, UnparsedEntities) else bool(page.content)
    return _parts_response(make, is_long=is_long)


def _parts_response(make: Callable[[], Json], *, is_long: bool, headers: Mapping[str, str] | None = None) -> Response:
    """A response in JSON, parts of which are written already when they are returned."""
    if is_long:
        return LargeJsonResponse(make, headers=headers)
    return Response(_write_parts(make()), media_type="application/json", headers=headers)


def slice_response(contents: Sequence[Json], *, number: int, size: int) -> Response:
    """One page of a list that is in memory as a whole."""
    shown = contents[number * size : (number + 1) * size]
    envelope = _make_envelope(len(shown), Page((), len(contents)), number=number, size=size)
    return json_response({"content": list(shown), **envelope})


def _make_envelope(count: int, page: Page, *, number: int, size: int) -> Json:
    """What a page has besides its content, of which there are so many.

    The page may be shorter than the requested `size`, because of its bytes. `size` and `totalPages` then say so, and
    are the same for every page of the list.
    """
    size = page.size or size
    pages = -(-page.total // size)
    order = {"sorted": True, "unsorted": False, "empty": False}
    return {
        "totalElements": page.total,
        "totalPages": pages,
        "number": number,
        "size": size,
        "numberOfElements": count,
        "first": number == 0,
        "last": number >= pages - 1,
        "empty": not count,
        "sort": order,
        "pageable": {
            "pageNumber": number,
            "pageSize": size,
            "offset": number * size,
            "paged": True,
            "unpaged": False,
            "sort": order,
        },
    }


def entity_to_json(entity: Entity) -> Json:
    """The complete entity, without nulls."""
    return {
        "id": entity.id,
        "key": make_key(entity),
        "kind": entity.kind,
        "name": entity.name,
        "project": entity.project,
        "user": entity.user,
        "metadata": _metadata_to_json(entity),
        "spec": shape_spec(entity),
        "status": {**entity.status, "state": entity.state},
        **({"extensions": list(entity.extensions)} if entity.extensions else {}),
    }


def run_to_json(run: Run, transitions: Iterable[Transition] = ()) -> Json:
    """A run: its spec as it was requested, and its status with warnings and transitions, newest first."""
    shown = [transition_to_json(each) for each in transitions]
    status = {
        **{key: value for key, value in run.status.items() if key != NOTES},
        "state": str(run.state),
        "message": run.message or run.status.get("message"),
        "reason": run.reason,
        "logs": _logs_to_json(run),
        "warnings": list(run.warnings),
        "transitions": shown[::-1],
    }
    status = {key: value for key, value in status.items() if value not in (None, [])}
    return {**entity_to_json(run), "status": status}


def _logs_to_json(run: Run) -> Json | None:
    """Whether the log of a run that has ended is complete; None for a run that an engine does not have.

    With why not, if calls to the engine fail.
    """
    if run.place is None or State(run.state) not in FINAL:
        return None
    if run.is_log_complete:
        return {"state": "complete"}
    failing = run.status.get(NOTES, {}).get("failing", {})
    why = {"reason": failing["told"], "message": failing["cleanup"]} if "cleanup" in failing else {}
    return {"state": "draining", **why}


def shape_spec(entity: Entity) -> Json:
    """The spec in the form that every client can read, and the requested values that this form loses."""
    return show_spec(entity.type, entity.kind, entity.spec)


def transition_to_json(transition: Transition) -> Json:
    """A transition; `status` and `time` are DigitalHub's names."""
    said = {"reason": transition.reason, "message": transition.message}
    return {
        "sequence": transition.sequence,
        "status": str(transition.state),
        "time": format_time(transition.at),
        "actor": transition.actor,
        **{name: words for name, words in said.items() if words is not None},
    }


def listed_to_json(listed: ListedEntity) -> Json:
    """An entity as a project lists it: without spec and status, unless it is whole."""
    whole = entity_to_json(listed.entity.parse())
    if listed.is_whole:
        return whole
    return {name: whole[name] for name in ("id", "key", "kind", "metadata", "name", "project", "user")}


def format_time(at: datetime) -> str:
    """ISO 8601 in UTC."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _metadata_to_json(entity: Entity) -> Json:
    return {
        **entity.metadata,
        "created": format_time(entity.created_at),
        "updated": format_time(entity.updated_at),
        "created_by": entity.user,
        "updated_by": entity.updated_by,
    }
