"""Hostile data that is stored already, and requests that read it.

`plant` fills the database before the server starts: it is what a user could have stored by thousands of requests, or
what an earlier version stored. `store_more` sends the rest. `iter_reads` reads it by every route, in the largest pages.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any
from urllib.parse import quote

from runyard.app.entities.drafts import MOST_METADATA_BYTES, MOST_METADATA_VALUES, MOST_VALUES, read_draft
from runyard.app.identity import PERSONAL_PREFIX, hash_token
from runyard.app.log_store import Stream
from runyard.app.model import Account, AuditEntry, Entity, Token
from runyard.app.ports import UnitOfWork
from runyard.app.projects.search import MOST_SEARCHED_CHARACTERS, MOST_WORDS
from runyard.auth import Passwords
from runyard.domain.lifecycle import State
from runyard.logs.database import DatabaseLogs
from runyard.spec.readers import MOST_ENTRIES
from runyard.store import open_store
from tests.attack.bodies import (
    BODY_BYTES,
    PASSWORD,
    PREFIX,
    PROJECT,
    TASK,
    USER,
    Attack,
    fill_path,
    list_routes,
)
from tests.contract.store.builders import make_run, make_transition
from tests.sqlite_databases import create_sqlite

HOARD = "hoard"
"""The project with much in it; lists of `PROJECT` stay short."""
HOARDED = {"artifacts", "runs"}
"""The types of which it has an entity with the usual id."""
SECRETS = 1300
"""Secrets of `PROJECT`, whose names attacks nearly say."""
DESCRIBED = 1000
"""Entities with the longest description: more than a page has room for."""
LABELLED = 8
"""Entities with as many labels as they may have."""
AUDITED = 600
"""Entries of the audit that name 250 secrets each."""
STREAMS = 8
"""Containers of a run, each with a log of bytes that are no text."""
STREAM_BYTES = 5 << 19
RUNNING = 1000
"""Runs of the user that seem to run, whose metadata takes twenty times its bytes as objects."""
NESTED = 110
"""Artifacts with as many values as they may have, in few bytes: millions of objects fit into the bytes of a page."""
CROWD = "crowd"
"""The project of these runs and artifacts: few bytes, and very many values."""
TALKATIVE = 3
"""Runs with the longest message in each of their states."""
WORDS = tuple("".join(pair) for pair in islice(product(ascii_lowercase[1:], repeat=2), 340))
"""Words to search for, as many as a query has room for."""
LONG_WORDS = tuple(f"{'a' * 50}{letter}" for letter in islice(ascii_lowercase[1:], MOST_WORDS))
"""As many words as a search may have, each of which nearly begins everywhere."""
_NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
_Send = Callable[[str, str, Any], bytes]


async def plant(data: Path) -> str:
    """Fill an empty data directory; returns the token of a user who is an admin."""
    store = await open_store(await create_sqlite(data / "runyard.db"))
    token = f"{PERSONAL_PREFIX}{'attack' * 8}"
    password_hash = await Passwords().hash(PASSWORD)
    async with store.begin() as unit:
        await unit.accounts.put(Account(name=USER, password_hash=password_hash, is_admin=True, created_at=_NOW))
        await unit.accounts.put_token(
            Token(id="t", user=USER, kind="personal", hash=hash_token(token), created_at=_NOW, last_used_at=_NOW)
        )
        for name in (HOARD, CROWD):
            await unit.entities.add(_make_entity("project", name, kind="project", project=name))
        await _plant_entities(unit)
        await _plant_crowd(unit)
        await _plant_audit(unit)
        run = make_run("e-run", uid="u-run", project=HOARD, state="COMPLETED")
        await unit.runs.add(run, [make_transition(1), make_transition(2, state=State.COMPLETED)])
        await unit.commit()
    await store.close()
    await _plant_logs(data / "logs.db")
    return token


def store_more(send: _Send) -> None:
    """Store what a few requests can: messages of runs, metrics, files."""
    for number in range(TALKATIVE):
        run_id = f"talkative-{number}"
        run: dict[str, Any] = {"kind": "container+job:run", "id": run_id, "spec": {"task": TASK}}
        run["spec"]["local_execution"] = True
        send("POST", f"{PREFIX}/runs", run)
        for state in ("READY", "PENDING", "RUNNING", "COMPLETED"):
            status = {"state": state, "message": f"{state}{'m' * (BODY_BYTES - 1000)}"}
            send("PUT", f"{PREFIX}/runs/{run_id}", {**run, "status": status})
    for number in range(8):
        points = [number + 1 / 3] * 40_000
        send("PUT", f"/api/v1/-/{HOARD}/artifacts/e-artifact/metrics/m{number}", points)
    send("PUT", "/api/v1/policy", {})
    variables = {f"NAME_{number}": "v" * 1000 for number in range(MOST_ENTRIES)}
    send("PUT", "/api/v1/profiles/small", {"envs": variables})
    files = [{"path": f"folder/{number}", "name": f"{number}", "size": number} for number in range(5000)]
    send("PUT", f"/api/v1/-/{HOARD}/artifacts/e-artifact/files/info", files)


def iter_reads() -> Iterator[Attack]:
    """Every route that reads, in all projects, with the largest page; and searches that go through everything."""
    for route in list_routes():
        if route.method != "GET":
            continue
        names = {parameter.name for parameter in route.parameters}
        query = "&".join(f"{name}=1000" for name in ("size", "limit") if name in names)
        is_hoarded = "{project}" in route.path and ("{id}" not in route.path or HOARDED & set(route.path.split("/")))
        is_listed = "{project}" in route.path and "{id}" not in route.path
        for project in (PROJECT, *((HOARD,) if is_hoarded else ()), *((CROWD,) if is_listed else ())):
            target = fill_path(route.path, project=project)
            shape = f"all in {project}"
            yield Attack("GET", route.path, f"{target}?{query}" if query else target, "stored", shape, b"")
    for path in ("/api/v1/projects/{project}/metrics/k8s", "/api/v1/users/me/metrics/k8s", "/api/v1/metrics/k8s"):
        yield Attack("GET", path, fill_path(path, project=CROWD), "stored", "running runs", b"")
    for name, query in _make_searches().items():
        path = "/api/v1/-/{project}/solr/search/item"
        yield Attack("GET", path, f"{fill_path(path, project=HOARD)}?size=1000&{query}", "search", name, b"")


def _make_searches() -> dict[str, str]:
    long = f"{'a' * 500}b"
    return {
        "all described": "q=described",
        "many words": f"q={quote(' '.join(WORDS))}",
        "long words": f"q={quote(' '.join(LONG_WORDS))}",
        "one long word": f"q={long}",
        "description": f"fq=metadata.description:{long}",
        "labels": f"fq=metadata.labels:({quote(' AND '.join(WORDS[:20]))})",
    }


async def _plant_entities(unit: UnitOfWork) -> None:
    for number in range(SECRETS):
        await unit.entities.add(_make_entity("secret", f"secret-number-{number}", kind="secret"))
    # All but the last of the long words are found, at the end of what is searched: the first miss ends a search.
    text = f"{' '.join(LONG_WORDS[:-1])} ".rjust(MOST_SEARCHED_CHARACTERS, "a")
    described: dict[str, Any] = {"description": f"{text}{' '.join(WORDS)}".ljust(MOST_METADATA_BYTES - 1000, "a")}
    labels = [f"{WORDS[number]}-{'l' * 100}" for number in range(MOST_ENTRIES)]
    related = [{"type": "produced_by", "dest": f"store://{HOARD}/run/x/{word}"} for word in WORDS[:MOST_ENTRIES]]
    for metadata in (described, {"labels": labels}, {"relationships": related}):
        read_draft({"kind": "artifact", "metadata": metadata})  # what could not be sent is no attack
    planted = [(f"described-{number}", described) for number in range(DESCRIBED)]
    planted += [(f"labelled-{number}", {"labels": labels}) for number in range(LABELLED)]
    for name, metadata in [*planted, ("e-artifact", {"relationships": related})]:
        spec = {"path": "s3://bucket/file"}
        await unit.entities.add(
            _make_entity("artifact", name, kind="artifact", project=HOARD, metadata=metadata, spec=spec)
        )


async def _plant_crowd(unit: UnitOfWork) -> None:
    """What a user may report of runs that their own computer executes, and artifacts of as many values."""
    metadata: dict[str, Any] = {"x": [[]] * (MOST_METADATA_VALUES - 50)}
    read_draft({"kind": "container+job:run", "metadata": metadata})
    status: dict[str, Any] = {"x": [[]] * (MOST_VALUES - MOST_METADATA_VALUES - 50)}
    read_draft({"kind": "artifact", "metadata": metadata, "status": status})
    for number in range(NESTED):
        named: dict[str, Any] = {"kind": "artifact", "project": CROWD, "metadata": metadata, "status": status}
        await unit.entities.add(_make_entity("artifact", f"nested-{number}", **named))
    running: dict[str, Any] = {"project": CROWD, "user": USER, "state": "RUNNING", "is_local": True}
    for number in range(RUNNING):
        run = make_run(f"running-{number}", **running, metadata=metadata, created_at=_NOW, updated_at=_NOW)
        await unit.runs.add(run, [make_transition(1, state=State.RUNNING)])


async def _plant_audit(unit: UnitOfWork) -> None:
    details = {"names": [f"{number:03}{'n' * 240}" for number in range(MOST_ENTRIES)]}
    named: dict[str, Any] = {"action": "secret.get_values", "project": HOARD, "type": "secret", "id": None}
    entry = AuditEntry(at=_NOW, actor=USER, result="done", details=details, **named)
    await unit.audit.add_many([entry] * AUDITED)


async def _plant_logs(file: Path) -> None:
    logs = DatabaseLogs(file)
    for number in range(STREAMS):
        stream = Stream("u-run", f"pod-{number}", "main")
        for offset in range(0, STREAM_BYTES, 1 << 19):
            await logs.append(stream, b"\xff" * (1 << 19), offset=offset, at=_NOW)
    await logs.close()


def _make_entity(type_name: str, entity_id: str, *, project: str = PROJECT, **fields: Any) -> Entity:
    named: dict[str, Any] = {"type": type_name, "project": project, "id": entity_id, "name": entity_id, "user": USER}
    return Entity(**named, created_at=_NOW, updated_at=_NOW, updated_by=USER, **fields)
