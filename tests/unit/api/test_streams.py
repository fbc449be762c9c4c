"""When an open stream must end."""

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.requests import Request

from runyard.api import streams
from runyard.api.application import make_app
from runyard.api.context import Authenticator, ServerContext
from runyard.api.streams import StreamGuard
from runyard.app.errors import Forbidden, TooMany, Unauthenticated
from runyard.app.ports import Unavailable
from tests.http_servers import password_of, serve


class Failing:
    """An authenticator that raises the error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def authenticate(self, header: str | None, *, address: str | None) -> Any:
        raise self._error


def make_guard(context: ServerContext, *, project: str, user: str = "ada") -> StreamGuard:
    basic = base64.b64encode(f"{user}:{password_of(user)}".encode())
    headers = [(b"authorization", b"Basic " + basic)]
    scope = {"type": "http", "app": make_app(context), "headers": headers, "client": ("127.0.0.1", 5)}
    return StreamGuard(Request(scope), project=project)


@pytest.fixture(autouse=True)
def checks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RECHECK_SECONDS", 0.0)


@pytest.mark.parametrize(("project", "reason"), [("demo", None), ("gone", "access")])
async def test_stream_ends_when_its_project_is_gone(tmp_path: Path, project: str, reason: str | None) -> None:
    async with serve(tmp_path, is_open=False) as server:
        await server.add_user("ada")
        async with server.client("ada") as client:
            assert (await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
        assert await make_guard(server.context, project=project).stop_reason() == reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unauthenticated("the token was revoked"), "access"),
        (Forbidden("no longer a member"), "access"),
        (TooMany("too fast", retry_after=1), None),
        (Unavailable("no database"), None),
    ],
    ids=lambda given: type(given).__name__,
)
async def test_stream_ends_only_when_access_is_known_to_be_lost(
    tmp_path: Path, error: Exception, reason: str | None
) -> None:
    async with serve(tmp_path) as server:
        context = replace(server.context, authenticator=cast("Authenticator", Failing(error)))
        assert await make_guard(context, project="demo").stop_reason() == reason


async def test_access_is_not_checked_again_when_it_was_checked_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "RECHECK_SECONDS", 3600.0)
    async with serve(tmp_path, is_open=False) as server:
        await server.add_user("ada")
        guard = make_guard(server.context, project="gone")
        assert await guard.stop_reason() is None
        monkeypatch.setattr(streams, "RECHECK_SECONDS", 0.0)
        assert await guard.stop_reason() == "access"
