"""Two clients at once, on one server with SQLite and on two servers that share PostgreSQL."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import httpx2

from runyard.domain.lifecycle import State
from tests.integration.core.conftest import fill, make_run

ROUNDS = 8
ROLES = ("viewer", "editor")
Clients = list[httpx2.AsyncClient]


async def test_one_run_and_equal_answers_are_made_when_the_same_submit_comes_200_times(
    clients: Clients, project: str
) -> None:
    run = make_run(project, f"{project}-same")
    asked = [clients[number % 2].post(f"/api/v1/-/{project}/runs", json=run) for number in range(200)]
    answers = await asyncio.gather(*asked)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    page = (await clients[0].get(f"/api/v1/-/{project}/runs")).json()
    assert page["totalElements"] == 1
    assert await list_acts(clients[0], project, "run.submit") == [run["id"]]


async def test_one_request_wins_when_an_id_is_submitted_for_different_runs(clients: Clients, project: str) -> None:
    run_id = f"{project}-other"
    runs = [make_run(project, run_id, name=f"name-{number}") for number in range(20)]
    answers = await race(
        clients, lambda client, number: client.post(f"/api/v1/-/{project}/runs", json=runs[number]), 20
    )
    won = [answer for answer in answers if answer.status_code == 200]
    assert len(won) == 1
    assert {answer.text.partition("Duplicated entity run:")[1] for answer in answers if answer not in won} == {
        "Duplicated entity run:"
    }
    stored = (await clients[0].get(f"/api/v1/-/{project}/runs/{run_id}")).json()
    assert stored["name"] == won[0].json()["name"]


async def test_exactly_one_creates_it_when_two_create_the_same(clients: Clients, project: str) -> None:
    context = f"/api/v1/-/{project}"
    for number in range(ROUNDS):
        name = f"{project}-{number}"
        for path, document in (
            ("/api/v1/projects", {"kind": "project", "name": name}),
            (f"{context}/functions", {"kind": "container", "id": name, "name": name, "spec": {"image": "a:1"}}),
            (f"{context}/secrets", {"kind": "secret", "name": name}),
            (f"{context}/artifacts", {"kind": "artifact", "id": name, "name": name, "spec": {"path": "s3://a/b"}}),
        ):
            answers = await race(clients, partial(create, path=path, document=document))
            assert sorted(answer.status_code for answer in answers) == [200, 400], [path, *answers]
            assert "Duplicated entity" in min(answers, key=lambda answer: -answer.status_code).text
    assert len(await list_acts(clients[0], project, "function.create")) == ROUNDS + 1
    assert len(await list_acts(clients[0], project, "secret.create")) == ROUNDS


async def test_one_task_of_a_kind_is_made_when_two_create_it_under_other_ids(clients: Clients, project: str) -> None:
    context = f"/api/v1/-/{project}"
    spec = {"function": f"container://{project}/hello:f-{project}"}
    answers = await race(
        clients,
        lambda client, number: client.post(
            f"{context}/tasks", json={"kind": "container+serve", "id": f"{project}-{number}", "spec": spec}
        ),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 400]
    assert (await clients[0].get(f"{context}/tasks", params={"kind": "container+serve"})).json()["totalElements"] == 1


async def test_exactly_one_wins_when_two_put_with_the_same_etag(clients: Clients, project: str) -> None:
    path = f"/api/v1/-/{project}/functions/f-{project}"
    for _ in range(ROUNDS):
        before = await clients[0].get(path)

        def change(client: httpx2.AsyncClient, number: int, before: httpx2.Response = before) -> Any:
            document = before.json()
            document["metadata"]["description"] = f"by {number}"
            return client.put(path, json=document, headers={"If-Match": before.headers["ETag"]})

        answers = await race(clients, change, 6)
        assert sorted(answer.status_code for answer in answers) == [200] + [412] * 5
        won = next(answer for answer in answers if answer.status_code == 200)
        after = await clients[1].get(path)
        assert after.json()["metadata"]["description"] == won.json()["metadata"]["description"]
        assert after.headers["ETag"] == won.headers["ETag"]
    assert len(await list_acts(clients[0], project, "function.update")) == ROUNDS


async def test_every_put_is_whole_and_audited_when_many_write_without_etag(clients: Clients, project: str) -> None:
    path = f"/api/v1/-/{project}/functions/f-{project}"
    document = (await clients[0].get(path)).json()

    def change(client: httpx2.AsyncClient, number: int) -> Any:
        return client.put(path, json={**document, "metadata": {"a": number, "b": number}})

    answers = await race(clients, change, 20)
    assert {answer.status_code for answer in answers} == {200}
    after = await clients[0].get(path)
    assert after.json()["metadata"]["a"] == after.json()["metadata"]["b"]
    assert after.headers["ETag"] == '"21"'
    assert len(await list_acts(clients[0], project, "function.update")) == 20


async def test_history_has_no_gap_when_stop_delete_and_report_race(clients: Clients, project: str) -> None:
    context = f"/api/v1/-/{project}/runs"
    for number in range(ROUNDS):
        run_id = f"{project}-{number}"
        submitted = (await clients[0].post(context, json=make_run(project, run_id))).json()
        report = {**submitted, "status": {"state": "READY", "results": {"a": number}}}
        is_deleted = number % 2 == 0
        acts = [
            clients[0].post(f"{context}/{run_id}/stop"),
            clients[1].put(f"{context}/{run_id}", json=report),
            clients[1].post(f"{context}/{run_id}/stop"),
            clients[0].put(f"{context}/{run_id}", json={**report, "metadata": {"labels": ["a"]}}),
            *(
                [clients[1].delete(f"{context}/{run_id}"), clients[0].delete(f"{context}/{run_id}")]
                if is_deleted
                else []
            ),
        ]
        answers = await asyncio.gather(*acts)
        assert {answer.status_code for answer in answers} <= ({200, 404} if is_deleted else {200}), answers
        stored = await clients[1].get(f"{context}/{run_id}")
        if is_deleted:
            assert stored.status_code == 404
            assert (await list_acts(clients[0], project, "run.delete")).count(run_id) == 1
            continue
        status = stored.json()["status"]
        steps = sorted(status["transitions"], key=lambda step: step["sequence"])
        assert [step["sequence"] for step in steps] == list(range(1, len(steps) + 1))
        assert [step["status"] for step in steps] == ["CREATED", "READY", "STOP", "STOPPED"]
        assert status["state"] == State.STOPPED
        assert status["results"] == {"a": number}
        assert (await list_acts(clients[0], project, "run.stop")).count(run_id) == 1


async def test_one_share_is_kept_when_two_share_and_unshare(clients: Clients, project: str) -> None:
    path = f"/api/v1/projects/{project}/share"
    for number in range(ROUNDS):
        answers = await race(
            clients,
            lambda client, which: client.post(path, params={"user": "bob", "role": ROLES[which]}),
        )
        assert [answer.status_code for answer in answers] == [200, 200]
        shares = (await clients[number % 2].get(path)).json()
        assert len(shares) == 1
        assert shares[0]["id"] in {answer.json()["id"] for answer in answers}
        ended = await race(clients, partial(unshare, path=path, share=shares[0]["id"]))
        assert sorted(answer.status_code for answer in ended) == [200, 404]
        assert (await clients[0].get(path)).json() == []
    assert len(await list_acts(clients[0], project, "project.unshare")) == ROUNDS


async def test_value_is_one_of_those_sent_when_several_set_a_secret(clients: Clients, project: str) -> None:
    context = f"/api/v1/-/{project}/secrets"
    await clients[0].post(context, json={"kind": "secret", "name": "token"})
    for number in range(ROUNDS):
        answers = await race(clients, partial(put_value, path=f"{context}/data", number=number), 6)
        assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
        value = (await clients[1].get(f"{context}/data", params={"keys": "token"})).json()["token"]
        assert value in {f"{number}-{which}" for which in range(6)}
    assert len(await list_acts(clients[0], project, "secret.put_values")) == 6 * ROUNDS


async def test_no_value_is_left_when_a_secret_is_deleted_while_values_come(clients: Clients, project: str) -> None:
    context = f"/api/v1/-/{project}/secrets"
    for number in range(ROUNDS):
        made = await clients[0].post(context, json={"kind": "secret", "name": "token"})
        values = [put_value(clients[which % 2], which, path=f"{context}/data", number=number) for which in range(4)]
        deleted, *put = await asyncio.gather(clients[1].delete(f"{context}/{made.json()['id']}"), *values)
        assert deleted.status_code == 200, deleted.text
        assert {answer.status_code for answer in put} <= {200, 400}, [answer.text for answer in put]
        # Made anew, it has nothing of the old one.
        again = await clients[0].post(context, json={"kind": "secret", "name": "token"})
        assert (await clients[1].get(f"{context}/data", params={"keys": "token"})).json() == {}
        await clients[0].delete(f"{context}/{again.json()['id']}")


async def test_everything_goes_when_a_function_is_deleted_while_its_runs_are_written(
    clients: Clients, project: str
) -> None:
    context = f"/api/v1/-/{project}"
    function, task = f"{context}/functions/f-{project}", f"{context}/tasks/t-{project}"
    kept = [(await clients[0].get(path)).json() for path in (function, task)]
    for number in range(ROUNDS):
        runs = [make_run(project, f"{project}-w{number}-{which}") for which in range(3)]
        for run in runs:
            assert (await clients[0].post(f"{context}/runs", json=run)).status_code == 200
        deleted, *put = await asyncio.gather(
            clients[1].delete(function, params={"cascade": "true"}),
            *(
                clients[0].put(f"{context}/runs/{run['id']}", json=run | {"status": {"results": {"a": 1}}})
                for run in runs
            ),
        )
        assert deleted.status_code == 200, deleted.text
        assert {answer.status_code for answer in put} <= {200, 404}, [answer.text for answer in put]
        for plural in ("functions", "tasks", "runs"):
            assert (await clients[0].get(f"{context}/{plural}")).json()["content"] == []
        for plural, document in zip(("functions", "tasks"), kept, strict=True):
            assert (await clients[0].post(f"{context}/{plural}", json=document)).status_code == 200


async def test_neither_is_lost_when_files_and_metadata_of_an_artifact_are_put_at_once(
    clients: Clients, project: str
) -> None:
    context = f"/api/v1/-/{project}/artifacts"
    for number in range(ROUNDS):
        one = f"{project}-a{number}"
        document = {"kind": "artifact", "id": one, "name": one, "spec": {"path": "s3://a/b"}}
        await clients[0].post(context, json=document)
        await asyncio.gather(
            clients[0].put(f"{context}/{one}/files/info", json=[{"path": "a", "name": "a"}]),
            clients[1].put(f"{context}/{one}", json={**document, "metadata": {"description": "new"}}),
        )
        assert (await clients[0].get(f"{context}/{one}/files/info")).json() == [{"path": "a", "name": "a"}]
        assert (await clients[0].get(f"{context}/{one}")).json()["metadata"]["description"] == "new"


async def test_nothing_is_left_of_a_project_when_it_is_deleted_while_things_are_made_in_it(
    clients: Clients, project: str
) -> None:
    for number in range(ROUNDS):
        name = f"{project}-gone-{number}"
        context = f"/api/v1/-/{name}"
        await fill(clients[0], name)
        await clients[0].post(f"{context}/secrets", json={"kind": "secret", "name": "token"})
        function = {"kind": "container", "id": f"{name}-new", "name": "new", "spec": {"image": "a:1"}}
        answers = await asyncio.gather(
            clients[0].post(f"{context}/functions", json=function),
            clients[1].delete(f"/api/v1/projects/{name}", params={"cascade": "true"}),
            clients[1].post(f"{context}/runs", json=make_run(name, f"{name}-run")),
            clients[0].put(f"{context}/secrets/data", json={"token": "value"}),
            clients[0].post(f"/api/v1/projects/{name}/share", params={"user": "bob"}),
        )
        assert {answer.status_code for answer in answers} <= {200, 400, 404}, [answer.text for answer in answers]
        assert answers[1].status_code == 200
        # Made anew, it has nothing of the old one.
        assert (await clients[0].post("/api/v1/projects", json={"kind": "project", "name": name})).status_code == 200
        for plural in ("functions", "tasks", "runs", "secrets"):
            assert (await clients[0].get(f"{context}/{plural}")).json()["content"] == []
        assert (await clients[0].get(f"/api/v1/projects/{name}/share")).json() == []
        await clients[0].post(f"{context}/secrets", json={"kind": "secret", "name": "token"})
        assert (await clients[0].get(f"{context}/secrets/data", params={"keys": "token"})).json() == {}


async def race(
    clients: Clients, act: Callable[[httpx2.AsyncClient, int], Awaitable[httpx2.Response]], number: int = 2
) -> Sequence[httpx2.Response]:
    """The same act at the same time, by both clients in turn."""
    return await asyncio.gather(*(act(clients[which % 2], which) for which in range(number)))


async def create(client: httpx2.AsyncClient, _: int, *, path: str, document: dict[str, Any]) -> httpx2.Response:
    """Post it."""
    return await client.post(path, json=document)


async def unshare(client: httpx2.AsyncClient, _: int, *, path: str, share: str) -> httpx2.Response:
    """End a share."""
    return await client.delete(path, params={"id": share})


async def put_value(client: httpx2.AsyncClient, which: int, *, path: str, number: int) -> httpx2.Response:
    """Set the secret to a value that says whose it is."""
    return await client.put(path, json={"token": f"{number}-{which}"})


async def list_acts(client: httpx2.AsyncClient, project: str, action: str) -> list[str]:
    """The ids that the audit has under an action in a project."""
    found: list[str] = []
    parameters: dict[str, Any] = {"project": project, "limit": 1000}
    while True:
        page = (await client.get("/api/v1/audit", params=parameters)).json()
        found += [entry.get("id", "") for entry in page["entries"] if entry["action"] == action]
        if "next" not in page:
            return found
        parameters["before"] = page["next"]
