"""The operator's commands beside a server that serves: what one does, the other knows at once."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core_process import Ended, call_runyard, run_core
from tests.postgres import Postgres

PASSWORD = "ada's own password"
Run = Callable[..., Ended]


@pytest.fixture
def environment(postgres: Postgres, tmp_path: Path) -> dict[str, str]:
    """Of a server on PostgreSQL, and of the commands beside it."""
    return {"RUNYARD_DATABASE": postgres.create_database(), "RUNYARD_DATA": str(tmp_path / "data")}


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Run a command that succeeds."""

    def run(*arguments: str, given: str = "") -> Ended:
        done = call_runyard(*arguments, environment=environment, given=given)
        assert done.code == 0, done.err
        return done

    return run


async def test_server_knows_at_once_when_accounts_and_tokens_change_beside_it(
    run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    run("user", "create", "ada", "--admin", "--password-stdin", given=f"{PASSWORD}\n")
    with run_core("--auth", "accounts", folder=tmp_path, environment=environment) as core:
        token = run("user", "token", "ada", "--name", "laptop").out.split()[-1]
        headers = {"Authorization": f"Bearer {token}"}
        async with core.client(headers=headers) as client:
            assert (await client.get("/api/v1/projects")).status_code == 200
            run("user", "revoke", "ada", "--all")
            assert (await client.get("/api/v1/projects")).status_code == 401
        run("user", "create", "bob", "--password-stdin", given=f"{PASSWORD}\n")
        async with core.client(("bob", PASSWORD)) as bob:
            assert (await bob.get("/api/v1/audit")).status_code == 403
            run("user", "admin", "bob")
            assert (await bob.get("/api/v1/audit")).status_code == 200
            run("user", "disable", "bob")
            assert (await bob.get("/api/v1/projects")).status_code == 401
            run("user", "enable", "bob")
            assert (await bob.get("/api/v1/projects")).status_code == 200
            run("user", "delete", "bob", "--yes")
            assert (await bob.get("/api/v1/projects")).status_code == 401
    assert [one["name"] for one in json.loads(run("user", "list", "-o", "json").out)] == ["ada"]


async def test_secrets_stay_readable_and_old_runs_go_when_keys_and_runs_are_seen_to_beside_it(
    run: Run, environment: dict[str, str], postgres: Postgres, tmp_path: Path
) -> None:
    context = "/api/v1/-/demo"
    with run_core(folder=tmp_path, environment=environment) as core:
        async with core.client() as client:
            assert (await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
            assert (await client.post(f"{context}/secrets", json={"kind": "secret", "name": "token"})).is_success
            assert (await client.put(f"{context}/secrets/data", json={"token": "value"})).is_success
            # The secret's, and the key that tokens are signed with.
            assert run("keys", "rotate").out.endswith("; values rewrapped: 2\n")
            assert (await client.get(f"{context}/secrets/data", params={"keys": "token"})).json() == {"token": "value"}
            function = {"kind": "container", "name": "box", "id": "f1", "spec": {"image": "busybox:1.36"}}
            task = {"kind": "container+job", "id": "t1", "spec": {"function": "container://demo/box:f1"}}
            runs = [
                {"kind": "container+job:run", "id": name, "spec": {"task": "container+job://demo/t1"}}
                for name in ("ended", "waiting")
            ]
            for plural, document in (("functions", function), ("tasks", task), *(("runs", one) for one in runs)):
                assert (await client.post(f"{context}/{plural}", json=document)).is_success
            assert (await client.post(f"{context}/runs/ended/stop")).is_success
            assert "current" in run("db", "status").out
            name = environment["RUNYARD_DATABASE"].rpartition("/")[2]
            postgres.run_sql("UPDATE runs SET updated_at = updated_at - interval '2 days'", database=name)
            pruned = run("db", "prune", "--keep-runs", "1d")
            assert pruned.out == "deleted: 1 runs with their logs, 0 other logs, 0 audit entries\n"
            assert [one["id"] for one in (await client.get(f"{context}/runs")).json()["content"]] == ["waiting"]
