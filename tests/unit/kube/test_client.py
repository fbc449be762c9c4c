"""What the client sends, what it makes of answers, and what it sends again."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from runyard.kube import retry
from runyard.kube.client import Client
from runyard.kube.config import ClusterConfig
from runyard.kube.errors import (
    AlreadyExists,
    Conflict,
    DeadlineExceeded,
    Disconnected,
    Gone,
    KubeError,
    Malformed,
    NotFound,
    ServerError,
    Throttled,
    Unavailable,
    Unreachable,
    Untrusted,
)
from runyard.kube.objects import Listing
from runyard.kube.resources import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, Resource
from tests.unit.kube.scripted_apiserver import (
    Received,
    ScriptedServer,
    Step,
    answer,
    cut,
    cut_in_body,
    hang,
    refuse,
    serve,
)

CONFIG_MAP = {"metadata": {"name": "a", "namespace": "n"}, "data": {"k": "v"}}


@asynccontextmanager
async def connected(*steps: Step) -> AsyncIterator[tuple[Client, ScriptedServer]]:
    async with serve(*steps) as server, Client.connect(server.config()) as client:
        yield client, server


def path_of(request: Received) -> str:
    return urlsplit(request.target).path


def query_of(request: Received) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(request.target).query, strict_parsing=bool(urlsplit(request.target).query)))


async def test_object_comes_without_managed_fields_when_it_is_read() -> None:
    body = {"metadata": {"name": "a", "managedFields": [{"manager": "x"}], "uid": "1"}, "unknown": [1, None]}
    async with connected(answer(body)) as (client, server):
        got = await client.get(CONFIG_MAPS, "a", namespace="n")
    assert got == {"metadata": {"name": "a", "uid": "1"}, "unknown": [1, None]}
    assert (server.requests[0].method, server.requests[0].target) == ("GET", "/api/v1/namespaces/n/configmaps/a")


async def test_namespace_is_demanded_when_an_object_has_one() -> None:
    async with connected(answer({})) as (client, server):
        with pytest.raises(ValueError, match="needs a namespace"):
            await client.get(PODS, "a")
        with pytest.raises(ValueError, match="not namespaced"):
            await client.get(NODES, "a", namespace="n")
    assert server.requests == []


async def test_creation_is_complete_and_strict_when_it_is_sent() -> None:
    body = {"metadata": {"generateName": "a-"}, "data": {}}
    before = copy.deepcopy(body)
    async with connected(answer({})) as (client, server):
        await client.create(CONFIG_MAPS, body, namespace="n")
        await client.create(CONFIG_MAPS, body, namespace="n", field_manager="me", field_validation="Warn", dry_run=True)
    plain, dry = server.requests
    assert (plain.method, path_of(plain)) == ("POST", "/api/v1/namespaces/n/configmaps")
    assert plain.json() == {"apiVersion": "v1", "kind": "ConfigMap", **body}
    assert query_of(plain) == {"fieldValidation": "Strict"}
    assert query_of(dry) == {"fieldValidation": "Warn", "fieldManager": "me", "dryRun": "All"}
    assert body == before


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"kind": "Secret", "metadata": {"name": "a"}}, "kind is 'Secret', expected 'ConfigMap'"),
        ({"apiVersion": "v2", "metadata": {"name": "a"}}, "apiVersion is 'v2', expected 'v1'"),
        ({"metadata": {"name": "a", "namespace": "other"}}, r"metadata\.namespace is 'other', namespace is 'n'"),
    ],
)
async def test_object_is_refused_when_it_contradicts_its_address(body: dict[str, Any], complaint: str) -> None:
    async with connected(answer({})) as (client, server):
        with pytest.raises(ValueError, match=complaint):
            await client.create(CONFIG_MAPS, body, namespace="n")
        with pytest.raises(ValueError, match=complaint):
            await client.apply(CONFIG_MAPS, body, namespace="n", field_manager="m")
        with pytest.raises(ValueError, match=complaint):
            await client.replace(CONFIG_MAPS, body, namespace="n")
    assert server.requests == []


async def test_object_is_refused_when_it_does_not_say_where_it_belongs() -> None:
    async with connected(answer({})) as (client, server):
        with pytest.raises(ValueError, match="configmaps are namespaced"):
            await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
        with pytest.raises(ValueError, match=r"metadata\.name is missing"):
            await client.apply(CONFIG_MAPS, {"metadata": {"namespace": "n"}}, field_manager="m")
        with pytest.raises(ValueError, match=r"metadata\.name is missing"):
            await client.replace(CONFIG_MAPS, {}, namespace="n")
    assert server.requests == []


async def test_apply_names_its_manager_when_it_is_sent() -> None:
    async with connected(answer({})) as (client, server):
        await client.apply(CONFIG_MAPS, CONFIG_MAP, field_manager="me", force=True)
        await client.apply(
            DEPLOYMENTS, {"metadata": {"name": "d"}}, namespace="n", field_manager="me", subresource="status"
        )
    first, second = server.requests
    assert (first.method, path_of(first)) == ("PATCH", "/api/v1/namespaces/n/configmaps/a")
    assert first.headers["Content-Type"] == "application/apply-patch+yaml"
    assert query_of(first) == {"fieldValidation": "Strict", "fieldManager": "me", "force": "true"}
    assert first.json()["kind"] == "ConfigMap"
    assert path_of(second) == "/apis/apps/v1/namespaces/n/deployments/d/status"
    assert second.json()["kind"] == "Deployment"
    assert "force" not in query_of(second)


@pytest.mark.parametrize(
    ("kind", "patch", "content_type"),
    [
        ("merge", {"data": {"k": None}}, "application/merge-patch+json"),
        ("json", [{"op": "remove", "path": "/data/k"}], "application/json-patch+json"),
        ("strategic", {"data": {"k": "w"}}, "application/strategic-merge-patch+json"),
    ],
)
async def test_patch_says_its_kind_when_it_is_sent(kind: Any, patch: Any, content_type: str) -> None:
    async with connected(answer({})) as (client, server):
        await client.patch(CONFIG_MAPS, "a", patch, namespace="n", kind=kind, subresource="status")
    [request] = server.requests
    assert (request.method, path_of(request)) == ("PATCH", "/api/v1/namespaces/n/configmaps/a/status")
    assert request.headers["Content-Type"] == content_type
    assert request.json() == patch
    assert query_of(request) == {"fieldValidation": "Strict"}


async def test_replacement_may_be_of_another_kind_when_it_is_a_subresource() -> None:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": "n"}}
    async with connected(answer({})) as (client, server):
        await client.replace(DEPLOYMENTS, scale, subresource="scale")
    assert server.requests[0].json() == scale
    assert path_of(server.requests[0]) == "/apis/apps/v1/namespaces/n/deployments/d/scale"


async def test_deletion_says_its_options_in_the_body_when_there_are_any() -> None:
    async with connected(answer({"kind": "Status", "status": "Success"})) as (client, server):
        await client.delete(PODS, "a", namespace="n")
        await client.delete(
            PODS,
            "a",
            namespace="n",
            uid="u",
            resource_version="7",
            propagation="Foreground",
            grace_period_seconds=0,
            dry_run=True,
        )
    plain, full = server.requests
    assert (plain.method, plain.target) == ("DELETE", "/api/v1/namespaces/n/pods/a")
    assert plain.json() == {"apiVersion": "v1", "kind": "DeleteOptions"}
    assert full.json() == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "dryRun": ["All"],
    }


def page(names: str, *, version: str = "7", token: str = "") -> Step:
    items = [{"metadata": {"name": name, "managedFields": []}} for name in names]
    return answer({"metadata": {"resourceVersion": version, "continue": token}, "items": items})


def names_in(listing: Listing) -> str:
    return "".join(item["metadata"]["name"] for item in listing.items)


async def test_list_is_whole_when_it_has_pages() -> None:
    async with connected(page("ab", token="t1"), page("cd", token="t2"), page("e")) as (client, server):
        listing = await client.list(
            CONFIG_MAPS, namespace="n", label_selector="a in (b,c)", field_selector="metadata.name!=x", page_size=2
        )
    assert names_in(listing) == "abcde"
    assert listing.resource_version == "7"
    assert listing.items[4] == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e"}}
    common = {"limit": "2", "labelSelector": "a in (b,c)", "fieldSelector": "metadata.name!=x"}
    assert [query_of(request) for request in server.requests] == [
        common,
        {**common, "continue": "t1"},
        {**common, "continue": "t2"},
    ]


async def test_list_is_empty_when_the_server_says_null() -> None:
    async with connected(answer({"metadata": {"resourceVersion": "3"}, "items": None})) as (client, _):
        assert await client.list(PODS) == Listing([], "3")


async def test_list_begins_again_when_its_moment_is_forgotten() -> None:
    gone = refuse(410, "Expired")
    steps = (page("ab", token="t"), gone, page("xy", version="9", token="t"), page("z", version="9"))
    async with connected(*steps) as (client, _):
        listing = await client.list(PODS)
    assert names_in(listing) == "xyz"
    assert listing.resource_version == "9"


async def test_list_asks_for_one_page_when_pages_keep_expiring() -> None:
    gone = refuse(410, "Expired")
    steps = (page("ab", token="t"), gone, page("ab", token="t"), gone, page("abc"))
    async with connected(*steps) as (client, server):
        assert names_in(await client.list(PODS, page_size=2)) == "abc"
    assert ["limit" in query_of(request) for request in server.requests] == [True, True, True, True, False]


async def test_list_gives_up_when_even_one_page_expires() -> None:
    async with connected(refuse(410, "Expired")) as (client, server):
        with pytest.raises(Gone):
            await client.list(PODS)
    assert len(server.requests) == 3


async def test_pages_come_one_by_one_when_they_are_iterated() -> None:
    async with connected(page("ab", token="t"), page("c"), page("ab", token="t"), refuse(410, "Expired")) as (
        client,
        server,
    ):
        pages = client.iter_pages(PODS, page_size=2)
        assert names_in(await anext(pages)) == "ab"
        assert len(server.requests) == 1
        assert names_in(await anext(pages)) == "c"
        with pytest.raises(StopAsyncIteration):
            await anext(pages)
        pages = client.iter_pages(PODS)
        assert names_in(await anext(pages)) == "ab"
        with pytest.raises(Gone):
            await anext(pages)


async def test_deadline_is_for_the_whole_list_when_pages_are_many() -> None:
    async with connected(page("a", token="t"), page("b", token="t"), hang) as (client, _):
        with pytest.raises(DeadlineExceeded):
            await client.list(PODS, deadline_seconds=0.2)


@pytest.mark.parametrize(
    "body",
    [
        "<html>login</html>",
        "[1]",
        '"text"',
        b"\xff",
        "{",
        "",
        '{"items":[]}',
        '{"metadata":{},"items":{}}',
        '{"metadata":{},"items":[1]}',
    ],
)
async def test_answer_is_malformed_when_it_is_not_what_was_asked_for(body: str | bytes) -> None:
    async with connected(answer(body)) as (client, server):
        with pytest.raises(Malformed, match=r"\[GET /api/v1/pods\]"):
            await client.list(PODS)
    assert len(server.requests) == 1


async def test_failure_is_raised_when_it_comes_with_success() -> None:
    failure = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "m"}
    async with connected(answer(failure)) as (client, _):
        with pytest.raises(NotFound):
            await client.delete(PODS, "a", namespace="n")


async def test_subresources_are_addressed_when_they_have_verbs_of_their_own() -> None:
    async with connected(answer({"kind": "Status", "status": "Success"})) as (client, server):
        await client.bind("p", namespace="n", node="k8s.gpu", uid="u")
        await client.evict("p", namespace="n", uid="u", grace_period_seconds=5, dry_run=True)
        await client.scale(DEPLOYMENTS, "d", namespace="n", replicas=3, uid="u")
        await client.create_token("s", namespace="n", audiences=["a"], expiration_seconds=600)
    bind, evict, scale, token = server.requests
    assert bind.target == "/api/v1/namespaces/n/pods/p/binding"
    assert bind.json()["metadata"] == {"name": "p", "namespace": "n", "uid": "u"}
    assert bind.json()["target"] == {"apiVersion": "v1", "kind": "Node", "name": "k8s.gpu"}
    assert evict.target == "/api/v1/namespaces/n/pods/p/eviction?dryRun=All"
    assert evict.json()["deleteOptions"]["preconditions"] == {"uid": "u"}
    assert evict.json()["deleteOptions"]["dryRun"] == ["All"]
    assert scale.target == "/apis/apps/v1/namespaces/n/deployments/d/scale?fieldValidation=Strict"
    assert scale.json() == {"metadata": {"uid": "u"}, "spec": {"replicas": 3}}
    assert token.target == "/api/v1/namespaces/n/serviceaccounts/s/token"
    assert token.json()["spec"] == {"audiences": ["a"], "expirationSeconds": 600}


Call = Callable[[Client], Awaitable[object]]

IDEMPOTENT: dict[str, Call] = {
    "get": lambda client: client.get(PODS, "a", namespace="n"),
    "list": lambda client: client.list(PODS),
    "apply": lambda client: client.apply(CONFIG_MAPS, CONFIG_MAP, field_manager="m"),
    "create, dry run": lambda client: client.create(CONFIG_MAPS, CONFIG_MAP, dry_run=True),
    "delete, dry run": lambda client: client.delete(PODS, "a", namespace="n", dry_run=True),
    "json patch, dry run": lambda client: client.patch(PODS, "a", [], namespace="n", kind="json", dry_run=True),
    "evict, dry run": lambda client: client.evict("a", namespace="n", dry_run=True),
    "merge patch with uid": lambda client: client.patch(PODS, "a", {"metadata": {"uid": "u"}}, namespace="n"),
    "strategic patch with resourceVersion": lambda client: client.patch(
        PODS, "a", {"metadata": {"resourceVersion": "7"}}, namespace="n", kind="strategic"
    ),
    "replace with resourceVersion": lambda client: client.replace(
        CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "n", "resourceVersion": "7"}}
    ),
    "delete with uid": lambda client: client.delete(PODS, "a", namespace="n", uid="u"),
    "delete with resourceVersion": lambda client: client.delete(PODS, "a", namespace="n", resource_version="7"),
    "scale with uid": lambda client: client.scale(DEPLOYMENTS, "d", namespace="n", replicas=1, uid="u"),
}
OTHER: dict[str, Call] = {
    "create": lambda client: client.create(CONFIG_MAPS, CONFIG_MAP),
    "delete": lambda client: client.delete(PODS, "a", namespace="n"),
    "replace": lambda client: client.replace(CONFIG_MAPS, CONFIG_MAP),
    "merge patch": lambda client: client.patch(PODS, "a", {"metadata": {"labels": {}}}, namespace="n"),
    "json patch": lambda client: client.patch(
        PODS, "a", [{"op": "test", "path": "/metadata/uid", "value": "u"}], namespace="n", kind="json"
    ),
    "scale": lambda client: client.scale(DEPLOYMENTS, "d", namespace="n", replicas=1),
    "bind": lambda client: client.bind("a", namespace="n", node="x", uid="u"),
    "evict": lambda client: client.evict("a", namespace="n", uid="u"),
    "token": lambda client: client.create_token("s", namespace="n"),
}
ALL = IDEMPOTENT | OTHER
GOOD = answer({"metadata": {"resourceVersion": "1"}, "items": []})
AMBIGUOUS: dict[str, tuple[Step, type[KubeError]]] = {
    "cut": (cut, Disconnected),
    "cut in body": (cut_in_body, Disconnected),
    "502": (answer("bad gateway", status=502), Unavailable),
    "503": (refuse(503, "ServiceUnavailable"), Unavailable),
    "504": (refuse(504, "Timeout"), Unavailable),
    "500 ServerTimeout": (refuse(500, "ServerTimeout"), Unavailable),
    "500": (refuse(500, "InternalError"), ServerError),
}


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_INITIAL_SECONDS", 0.001)
    monkeypatch.setattr(retry, "_MAXIMUM_SECONDS", 0.01)


@pytest.mark.parametrize("call", ALL.values(), ids=ALL.keys())
async def test_request_is_repeated_when_it_was_refused_unprocessed(call: Call) -> None:
    throttled = refuse(429, "TooManyRequests")
    async with connected(throttled, throttled, throttled, GOOD) as (client, server):
        await call(client)
    assert len(server.requests) == 4
    assert len({(request.target, request.body) for request in server.requests}) == 1


@pytest.mark.parametrize("call", IDEMPOTENT.values(), ids=IDEMPOTENT.keys())
async def test_request_is_repeated_when_it_may_be_done_twice(call: Call) -> None:
    script = [step for failure, _ in AMBIGUOUS.values() for step in (failure, failure, GOOD)]
    async with connected(*script) as (client, server):
        for number, name in enumerate(AMBIGUOUS, start=1):
            await call(client)
            assert len(server.requests) == 3 * number, name


@pytest.mark.parametrize("call", OTHER.values(), ids=OTHER.keys())
async def test_request_is_not_repeated_when_it_may_have_been_done(call: Call) -> None:
    async with connected(*(failure for failure, _ in AMBIGUOUS.values())) as (client, server):
        for number, (name, (_, expected)) in enumerate(AMBIGUOUS.items(), start=1):
            with pytest.raises(expected):
                await call(client)
            assert len(server.requests) == number, name


REFUSALS = [
    (400, "BadRequest"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (404, "NotFound"),
    (405, "MethodNotAllowed"),
    (409, "Conflict"),
    (409, "AlreadyExists"),
    (413, "RequestEntityTooLarge"),
    (415, "UnsupportedMediaType"),
    (422, "Invalid"),
]


@pytest.mark.parametrize("call", ALL.values(), ids=ALL.keys())
async def test_refusal_is_final_when_the_server_means_it(call: Call) -> None:
    async with connected(*(refuse(code, reason) for code, reason in REFUSALS)) as (client, server):
        for number, (code, reason) in enumerate(REFUSALS, start=1):
            with pytest.raises(KubeError, match=f"{code} {reason}"):
                await call(client)
            assert len(server.requests) == number, reason


@pytest.mark.parametrize("call", ALL.values(), ids=ALL.keys())
async def test_disruption_budget_is_final_when_it_refuses(call: Call) -> None:
    details = {"causes": [{"reason": "DisruptionBudget", "message": "needs 1 healthy pod"}]}
    async with connected(refuse(429, "TooManyRequests", details=details), GOOD) as (client, server):
        with pytest.raises(Throttled, match="scripted") as caught:
            await call(client)
    assert caught.value.causes[0].message == "needs 1 healthy pod"
    assert len(server.requests) == 1


async def test_server_error_is_told_when_it_stays() -> None:
    async with connected(refuse(500, "InternalError")) as (client, server):
        with pytest.raises(ServerError):
            await client.get(PODS, "a", namespace="n")
    assert len(server.requests) == 3


@pytest.mark.parametrize("call", [ALL["get"], ALL["create"]], ids=["get", "create"])
async def test_connection_is_tried_again_when_nobody_listened(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(GOOD) as server, Client.connect(server.config()) as client:
        send, failures = client.transport.request, 2

        async def refuse_at_first(*arguments: Any, **options: Any) -> bytes:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise Unreachable("refused")
            return await send(*arguments, **options)

        monkeypatch.setattr(client.transport, "request", refuse_at_first)
        await call(client)
    assert len(server.requests) == 1


async def test_connection_is_refused_at_last_when_nobody_listens() -> None:
    async with serve(GOOD) as server:
        config = server.config()
    async with Client.connect(config) as client:
        with pytest.raises(Unavailable) as caught:
            await client.create(CONFIG_MAPS, CONFIG_MAP, deadline_seconds=0.2)
    # The deadline may strike during an attempt; then the cause says what the trouble was.
    assert isinstance(caught.value, Unreachable) or isinstance(caught.value.__cause__, Unreachable)


@pytest.mark.parametrize("error", [Untrusted("no"), DeadlineExceeded("late")])
async def test_attempt_is_the_last_when_another_cannot_succeed(error: KubeError) -> None:
    attempts = 0

    async def attempt(seconds_left: float) -> None:
        nonlocal attempts
        attempts += 1
        raise error

    with pytest.raises(type(error)):
        await retry.send_with_retry(attempt, is_idempotent=True, deadline_seconds=5)
    assert attempts == 1


async def test_server_is_obeyed_when_it_says_when_to_come_back() -> None:
    async with connected(refuse(429, "TooManyRequests", headers={"Retry-After": "60"}), GOOD) as (client, server):
        with pytest.raises(Throttled) as caught:
            await client.get(PODS, "a", namespace="n", deadline_seconds=30)
        assert caught.value.retry_after_seconds == 60.0
        assert len(server.requests) == 1


async def test_delay_is_kept_when_the_server_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    failures: list[KubeError] = [
        Throttled("slow", status=429, retry_after_seconds=3.0),
        Unavailable("slow", status=503),
        Unavailable("slow", status=503),
        Unavailable("slow", status=503),
    ]

    async def attempt(seconds_left: float) -> str:
        if failures:
            raise failures.pop(0)
        return "done"

    assert await retry.send_with_retry(attempt, is_idempotent=True, deadline_seconds=30) == "done"
    assert 3.0 < slept[0] <= 3.001
    assert slept[1] < slept[2] * 2
    assert all(0 < delay <= 0.01 for delay in slept[1:])


async def test_earlier_failure_is_the_cause_when_the_deadline_passes() -> None:
    async with connected(refuse(503, "ServiceUnavailable"), hang) as (client, _):
        with pytest.raises(DeadlineExceeded) as caught:
            await client.get(PODS, "a", namespace="n", deadline_seconds=1.5)
    assert isinstance(caught.value.__cause__, Unavailable)
    assert caught.value.__cause__.status == 503


async def test_own_first_attempt_shows_when_its_answer_was_lost() -> None:
    async with connected(cut, refuse(404, "NotFound")) as (client, _):
        with pytest.raises(NotFound):
            await client.delete(PODS, "a", namespace="n", uid="u")
    async with connected(cut, refuse(409, "Conflict")) as (client, _):
        with pytest.raises(Conflict):
            await client.patch(PODS, "a", {"metadata": {"resourceVersion": "7"}}, namespace="n")
    async with connected(refuse(409, "AlreadyExists")) as (client, _):
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAPS, CONFIG_MAP)


async def test_custom_resource_is_addressed_when_it_is_described() -> None:
    widgets = Resource("example.com", "v1alpha1", "widgets", "Widget", namespaced=True)
    async with connected(answer({})) as (client, server):
        await client.create(widgets, {"metadata": {"name": "w"}}, namespace="n")
    assert path_of(server.requests[0]) == "/apis/example.com/v1alpha1/namespaces/n/widgets"
    assert json.loads(server.requests[0].body)["apiVersion"] == "example.com/v1alpha1"


async def test_nothing_is_sent_when_a_client_is_only_opened() -> None:
    async with serve(answer({})) as server:
        async with Client.connect(ClusterConfig(server=server.server)):
            await asyncio.sleep(0.05)
        assert server.requests == []
