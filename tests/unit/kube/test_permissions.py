"""What the client may do: the questions that are asked, and what is made of the answers."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from runyard.kube import permissions
from runyard.kube.client import Client
from runyard.kube.errors import Forbidden, Malformed
from runyard.kube.permissions import Access, Verdict, find_missing, list_rules, review_access
from runyard.kube.resources import CONFIG_MAPS, JOBS, NODES, PODS
from tests.unit.kube.scripted_apiserver import answer, cut, refuse, serve

LOG = Access("get", PODS, "n", subresource="log")


async def judge(request: web.BaseRequest) -> web.StreamResponse:
    """Allow to read, and nothing else."""
    attributes = json.loads(await request.read())["spec"]["resourceAttributes"]
    allowed = attributes["verb"] == "get"
    return web.json_response({"status": {"allowed": allowed, "reason": "" if allowed else "no RBAC policy matched"}})


async def test_each_access_is_asked_once_when_it_is_reviewed() -> None:
    asked = [Access("create", JOBS, "n"), LOG, Access("get", NODES, name="node-1"), LOG]
    async with serve(judge) as server, Client.connect(server.config()) as client:
        verdicts = await review_access(client, asked)
        assert await find_missing(client, asked) == [asked[0]]
    assert list(verdicts) == asked[:3]
    assert verdicts[asked[0]] == Verdict(is_allowed=False, reason="no RBAC policy matched")
    assert verdicts[LOG].is_allowed
    bodies = [request.json()["spec"]["resourceAttributes"] for request in server.requests[:3]]
    assert {"verb": "get", "version": "v1", "resource": "pods", "subresource": "log", "namespace": "n"} in bodies
    assert {"verb": "get", "version": "v1", "resource": "nodes", "name": "node-1"} in bodies
    assert {"verb": "create", "group": "batch", "version": "v1", "resource": "jobs", "namespace": "n"} in bodies


async def test_no_task_is_left_when_a_review_fails() -> None:
    before = asyncio.all_tasks()
    async with serve(refuse(403, "Forbidden")) as server, Client.connect(server.config()) as client:
        with pytest.raises(Forbidden):
            await review_access(client, [Access("get", PODS, f"n{number}") for number in range(50)])
        assert len(server.requests) <= 50
        assert {task for task in asyncio.all_tasks() - before if "work" in repr(task.get_coro())} == set()


async def test_review_is_asked_again_when_its_answer_is_lost() -> None:
    lost = [cut, refuse(503, "ServiceUnavailable"), refuse(500, "InternalError")]
    async with serve(*lost, judge) as server, Client.connect(server.config()) as client:
        assert await find_missing(client, [LOG]) == []
    assert len(server.requests) == 4


async def test_too_many_are_refused_when_they_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "MOST_ACCESSES", 1)
    async with serve(judge) as server, Client.connect(server.config()) as client:
        with pytest.raises(ValueError, match="2 accesses; allowed: 1"):
            await review_access(client, [LOG, Access("get", PODS)])
    assert server.requests == []


def rule(verbs: list[str], groups: list[str], resources: list[str], names: list[str] | None = None) -> dict[str, Any]:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names}


@pytest.mark.parametrize(
    ("granted", "access", "expected"),
    [
        (rule(["get"], [""], ["pods"]), Access("get", PODS, "n"), True),
        (rule(["get"], [""], ["pods"]), LOG, False),
        (rule(["get"], [""], ["pods/log"]), LOG, True),
        (rule(["get"], [""], ["*/log"]), LOG, True),
        (rule(["*"], ["*"], ["*"]), LOG, True),
        (rule(["list"], [""], ["pods"]), Access("get", PODS, "n"), False),
        (rule(["get"], [""], ["jobs"]), Access("get", JOBS, "n"), False),
        (rule(["get"], ["batch"], ["jobs"]), Access("get", JOBS, "n"), True),
        (rule(["get"], [""], ["configmaps"], ["a"]), Access("get", CONFIG_MAPS, "n"), False),
        (rule(["get"], [""], ["configmaps"], ["a"]), Access("get", CONFIG_MAPS, "n", name="a"), True),
    ],
)
async def test_rules_allow_what_one_of_them_grants_when_they_are_listed(
    granted: dict[str, Any], access: Access, expected: bool
) -> None:
    status = {"resourceRules": [rule(["get"], ["other"], ["pods"]), granted], "incomplete": False}
    async with serve(answer({"status": status})) as server, Client.connect(server.config()) as client:
        rules = await list_rules(client, namespace="n")
    assert rules.is_complete
    assert rules.allow(access) is expected
    assert server.requests[0].json()["spec"] == {"namespace": "n"}


async def test_rules_are_not_complete_when_the_server_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = (
        answer({"status": {"resourceRules": None, "incomplete": True}}),
        answer({"status": {"resourceRules": [rule(["get"], [""], ["pods"])] * 3}}),
    )
    async with serve(*answers) as server, Client.connect(server.config()) as client:
        assert await list_rules(client, namespace="n") == permissions.Rules((), is_complete=False)
        monkeypatch.setattr(permissions, "MOST_RULES", 2)
        rules = await list_rules(client, namespace="n")
        assert (len(rules.rules), rules.is_complete) == (2, False)


@pytest.mark.parametrize("body", [{}, {"status": []}])
async def test_an_answer_is_malformed_when_it_is_no_review(body: dict[str, Any]) -> None:
    async with serve(answer(body)) as server, Client.connect(server.config()) as client:
        with pytest.raises(Malformed, match="without a status"):
            await review_access(client, [LOG])
        with pytest.raises(Malformed, match="without a status"):
            await list_rules(client, namespace="n")


async def test_an_answer_is_malformed_when_its_rules_are_not_a_list() -> None:
    async with (
        serve(answer({"status": {"resourceRules": {"a": 1}}})) as server,
        Client.connect(server.config()) as client,
    ):
        with pytest.raises(Malformed, match="not a list"):
            await list_rules(client, namespace="n")


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (LOG, "get pods/log in n"),
        (Access("create", JOBS), "create jobs.batch"),
        (Access("get", NODES, name="a"), "get nodes a"),
    ],
)
def test_an_access_is_readable_when_it_is_shown(access: Access, expected: str) -> None:
    assert str(access) == expected
