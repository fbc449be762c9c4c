"""schemathesis on our OpenAPI against a live server: nothing fails inside, and every answer is a documented one.

With data and without, as an admin and as nobody, single calls and chains of calls. A fixed seed and a bounded time.
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.core_process import CoreProcess, call_runyard, make_environment, run_core
from tests.integration.core.conftest import fill, make_run

PROGRAM = str(Path(sys.executable).parent / "schemathesis")
SEED = "20261115"
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method"
)
KNOWN = """
[parameters]
"path.project" = "demo"
"path.id" = "one"
"path.name" = "one"
"path.entity" = "function"
"path.kind" = "container"
"path.revision" = "1"
"path.path" = "one"
"query.follow" = "false"
"""
NO_ENGINE = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "501"]
"""
"""501 is the documented answer of a server without an engine, and no failure."""
PASSWORD = "ada's password"


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    """A server with an admin, on SQLite: what is looked at here is the same on both."""
    folder = tmp_path_factory.mktemp("openapi")
    environment = {"RUNYARD_DATABASE": f"sqlite:///{folder}/runyard.db", "RUNYARD_AUTH": "accounts"}
    made = call_runyard("user", "create", "ada", "--admin", "--password-stdin", environment=environment, given=PASSWORD)
    assert made.code == 0, made.err
    with run_core("--max-requests", "100000", folder=folder, environment=environment) as running:
        asyncio.run(populate(running))
        yield running


async def populate(core: CoreProcess) -> None:
    """One thing of every type, with the id `one`."""
    async with core.client(("ada", PASSWORD)) as client:
        await fill(client)
        context = "/api/v1/-/demo"
        made = [
            await client.post(f"{context}/functions", json=make("container", spec={"image": "busybox:1.36"})),
            await client.post(
                f"{context}/tasks",
                json={"kind": "container+job", "id": "one", "spec": {"function": "container://demo/one:one"}},
            ),
            await client.post(f"{context}/runs", json=make_run("demo", "one")),
            # Streams of a run that goes on do not end, and schemathesis waits for ten seconds only.
            await client.post(f"{context}/runs/one/stop"),
            await client.post(f"{context}/workflows", json=make("kfp")),
            await client.post(f"{context}/secrets", json=make("secret")),
            await client.put(f"{context}/secrets/data", json={"one": "value"}),
            *[
                await client.post(f"{context}/{kind}s", json=make(kind, spec={"path": "s3://a/b"}))
                for kind in ("artifact", "dataitem", "model")
            ],
            await client.put(f"{context}/models/one/files/content/one", content=b"one"),
            await client.put("/api/v1/profiles/one", json={"resources": {"cpu": {"requests": "1"}}}),
            await client.put("/api/v1/policy", json={}),
        ]
        assert {answer.status_code for answer in made} == {200}, [answer.text for answer in made]


def make(kind: str, **more: object) -> dict[str, object]:
    """An entity."""
    return {"kind": kind, "name": "one", "id": "one", **more}


@pytest.mark.parametrize(
    ("what", "arguments", "config"),
    [
        ("with data, as admin", ("--auth", f"ada:{PASSWORD}", "--exclude-method", "DELETE", "--max-time", "35"), KNOWN),
        ("in chains, as admin", ("--auth", f"ada:{PASSWORD}", "--phases", "stateful", "--max-time", "25"), ""),
        ("as nobody", ("--max-time", "15"), KNOWN),
    ],
    ids=lambda value: value if isinstance(value, str) and "path." not in value else "",
)
def test_nothing_fails_and_every_answer_is_documented(
    core: CoreProcess,
    what: str,
    arguments: tuple[str, ...],
    config: str,
    tmp_path: Path,
    tell: Callable[[str], None],
) -> None:
    (tmp_path / "schemathesis.toml").write_text(config + NO_ENGINE)
    phases = () if "--phases" in arguments else ("--phases", "examples,coverage,fuzzing")
    done = subprocess.run(
        [
            *(PROGRAM, "--config-file", str(tmp_path / "schemathesis.toml"), "run", f"{core.url}/openapi.json"),
            *("--seed", SEED, "--max-examples", "5", "--no-shrink", "--continue-on-failure", "--checks", CHECKS),
            *("--generation-database", "none", "--warnings", "off", *phases, *arguments),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=make_environment(),
        timeout=280,
    )
    figures = [line.strip() for line in done.stdout.splitlines() if "generated" in line]
    tell(f"schemathesis {what}: {', '.join(figures)}")
    assert done.returncode == 0, done.stdout[-8000:]
    assert re.search(r"[1-9][0-9]* generated", done.stdout), done.stdout[-8000:]
    assert "Traceback" not in core.read_errors()


async def test_connection_serves_on_when_head_was_asked_on_it(core: CoreProcess) -> None:
    async with core.client(("ada", PASSWORD)) as client:
        for path in ("/openapi.json", "/api/v1/-/demo/runs/one", "/api/v1/-/demo/runs/one/log?follow=true", "/nothing"):
            head = await client.head(path)
            assert (head.status_code, head.content) == (404 if path == "/nothing" else 200, b"")
            assert (await client.get("/healthz")).json() == {"status": "ok"}


async def test_every_model_and_parameter_is_described_when_the_document_is_read(core: CoreProcess) -> None:
    async with core.client() as client:
        answer: httpx2.Response = await client.get("/openapi.json")
    document = answer.json()
    assert answer.status_code == 200
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description") or operation.get("summary"), (method, path)
            for parameter in operation.get("parameters", []):
                assert parameter["in"] == "path" or parameter.get("description"), (method, path, parameter["name"])
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description"), name
        for field, described in schema.get("properties", {}).items():
            assert described.get("description"), (name, field)
