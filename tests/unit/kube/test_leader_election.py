"""One leader at most, whatever the clocks, the server and the machine do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from runyard.kube import leader_election
from runyard.kube.client import Client
from runyard.kube.config import ClusterConfig
from runyard.kube.errors import Forbidden
from runyard.kube.leader_election import ElectionTiming, LeaderElection, LeadershipLost

FAST = ElectionTiming(lease_seconds=2, renew_seconds=1.5, retry_seconds=0.05, release_seconds=0.5)
LONG = ElectionTiming(lease_seconds=60, renew_seconds=40, retry_seconds=0.05, release_seconds=20)
"""Where nobody may lead because a lease ended, however slow the machine."""
PATH = "/apis/coordination.k8s.io/v1/namespaces/n/leases"


class LeaseServer:
    """The one Lease, with resourceVersions as an apiserver has them."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.writes = 0
        self.refusal: web.Response | None = None
        self.answering = asyncio.Event()
        self.answering.set()
        self.loses_answers = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body: dict[str, Any] = await request.json() if request.can_read_body else {}
        if self.refusal is not None:
            return web.Response(status=self.refusal.status, body=self.refusal.body)
        await self.answering.wait()
        if request.method == "GET":
            return self._refuse(404, "NotFound") if self.lease is None else web.json_response(self.lease)
        if request.method == "POST" and self.lease is not None:
            return self._refuse(409, "AlreadyExists")
        if request.method == "PUT" and self.lease is None:
            return self._refuse(404, "NotFound")
        if request.method == "PUT" and body["metadata"]["resourceVersion"] != str(self.version):
            return self._refuse(409, "Conflict")
        self.put(body)
        self.writes += 1
        if self.loses_answers:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(self.lease)

    def put(self, body: dict[str, Any]) -> None:
        self.version += 1
        metadata = {**body.get("metadata", {}), "name": "l", "namespace": "n", "resourceVersion": str(self.version)}
        self.lease = {**body, "metadata": metadata}

    def put_holder(self, holder: str, **spec: Any) -> None:
        self.put({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 2, "leaseTransitions": 7, **spec}})

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    @staticmethod
    def _refuse(code: int, reason: str) -> web.Response:
        status = {"kind": "Status", "status": "Failure", "message": "scripted", "reason": reason, "code": code}
        return web.json_response(status, status=code)


@pytest.fixture
async def server() -> LeaseServer:
    return LeaseServer()


@pytest.fixture
async def client(server: LeaseServer) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with Client.connect(ClusterConfig(server=f"http://127.0.0.1:{port}")) as client:
        yield client
    await runner.cleanup()


def elect(client: Client, identity: str = "me", timing: ElectionTiming = FAST) -> LeaderElection:
    return LeaderElection(client, "l", namespace="n", identity=identity, timing=timing)


@asynccontextmanager
async def limit(seconds: float = 60.0) -> AsyncIterator[None]:
    async with asyncio.timeout(seconds):
        yield


async def eventually(is_true: Callable[[], bool]) -> None:
    async with limit():
        while not is_true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


async def test_it_leads_and_renews_when_there_is_no_lease(server: LeaseServer, client: Client) -> None:
    async with elect(client, timing=LONG) as election, limit():
        leadership = await election.wait_leading()
        assert leadership.is_valid
        assert leadership.term == 1
        leadership.check()
        assert server.spec["holderIdentity"] == election.identity == election.holder
        assert server.spec["leaseDurationSeconds"] == 60
        acquired, renewed = server.spec["acquireTime"], server.spec["renewTime"]
        await eventually(lambda: server.writes > 3)
        assert server.spec["acquireTime"] == acquired
        assert server.spec["renewTime"] > renewed
        assert server.spec["leaseTransitions"] == 1
        assert election.leadership is leadership


async def test_the_lease_is_free_at_once_when_the_leader_closes(server: LeaseServer, client: Client) -> None:
    async with elect(client, timing=LONG) as first, limit():
        leadership = await first.wait_leading()
    assert server.spec["holderIdentity"] == ""
    assert not leadership.is_valid
    await leadership.wait_lost()
    with pytest.raises(LeadershipLost, match="term 1 has ended"):
        leadership.check()
    with pytest.raises(LeadershipLost, match="closed"):
        await first.wait_leading()
    async with elect(client, timing=LONG) as second, limit(LONG.lease_seconds / 2):
        assert (await second.wait_leading()).term == 2


async def test_only_one_leads_when_several_compete(server: LeaseServer, client: Client) -> None:
    async with AsyncExitStack() as stack, limit():
        elections = [await stack.enter_async_context(elect(client, f"c{number}", LONG)) for number in range(5)]
        terms = []
        for _ in range(3):
            await eventually(lambda: any(each.leadership for each in elections))
            for _ in range(40):
                assert sum(each.leadership is not None for each in elections) <= 1
                await asyncio.sleep(0.005)
            leader = next(each for each in elections if each.leadership)
            leadership = leader.leadership
            assert leadership is not None
            terms.append(leadership.term)
            elections.remove(leader)
            await leader.__aexit__(None, None, None)
        assert terms == sorted(set(terms))
        assert len(terms) == 3


async def test_a_candidate_waits_by_its_own_clock_when_the_holder_s_clock_is_wrong(
    server: LeaseServer, client: Client
) -> None:
    server.put_holder("other", renewTime="1999-01-01T00:00:00.000000Z")
    clock = asyncio.get_running_loop().time
    began = clock()
    async with elect(client) as election, limit():
        await eventually(lambda: election.holder == "other")
        for _ in range(3):
            await asyncio.sleep(0.3)
            assert election.leadership is None
            assert election.holder == "other"
            server.put_holder("other", renewTime=f"1999-01-01T00:00:0{server.version}.000000Z")
        leadership = await election.wait_leading()
    assert clock() - began >= 2.9
    assert leadership.term == 8


async def test_it_leads_no_more_before_another_may_begin_when_the_server_does_not_answer(
    server: LeaseServer, client: Client
) -> None:
    timing = ElectionTiming(lease_seconds=20, renew_seconds=1.5, retry_seconds=0.05)
    async with elect(client, timing=timing) as election, limit():
        leadership = await election.wait_leading()
        server.answering.clear()
        began = asyncio.get_running_loop().time()
        await leadership.wait_lost()
        assert asyncio.get_running_loop().time() - began < timing.lease_seconds
        assert election.leadership is None
        assert election.last_error is not None
        server.answering.set()
        # Nobody took it: it leads again, in a new term.
        assert (await election.wait_leading()).term == 2
        assert not leadership.is_valid
        assert election.last_error is None


async def test_it_leads_no_more_at_once_when_the_machine_was_suspended(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with elect(client) as election, limit():
        leadership = await election.wait_leading()
        real = leader_election.now
        monkeypatch.setattr(leader_election, "now", lambda: real() + 60)
        assert not leadership.is_valid
        assert election.leadership is None
        with pytest.raises(LeadershipLost):
            leadership.check()
        await leadership.wait_lost()
        assert (await election.wait_leading()).term == 2


async def test_it_leads_no_more_when_another_took_the_lease(server: LeaseServer, client: Client) -> None:
    async with elect(client) as election, limit():
        leadership = await election.wait_leading()
        server.put_holder("other")
        await leadership.wait_lost()
        assert election.leadership is None
    assert server.spec["holderIdentity"] == "other"


async def test_the_term_goes_on_when_the_lease_was_deleted(server: LeaseServer, client: Client) -> None:
    async with elect(client) as election, limit():
        leadership = await election.wait_leading()
        server.lease = None
        await leadership.wait_lost()
        assert (await election.wait_leading()).term == 2


async def test_the_lease_is_its_own_when_the_answer_to_taking_it_was_lost(server: LeaseServer, client: Client) -> None:
    server.put_holder("")
    server.loses_answers = True
    async with elect(client) as election, limit():
        await eventually(lambda: server.writes > 0)
        server.loses_answers = False
        leadership = await election.wait_leading()
        assert leadership.term == server.spec["leaseTransitions"]
        assert server.spec["holderIdentity"] == election.identity


async def test_a_restarted_process_waits_when_its_predecessor_held_the_lease(
    server: LeaseServer, client: Client
) -> None:
    server.put_holder(f"me_{16 * '0'}")
    async with elect(client) as election:
        await asyncio.sleep(0.5)
        assert election.leadership is None


async def test_the_error_is_kept_when_the_lease_may_not_be_read(server: LeaseServer, client: Client) -> None:
    server.refusal = LeaseServer._refuse(403, "Forbidden")
    async with elect(client) as election, limit():
        await eventually(lambda: isinstance(election.last_error, Forbidden))
        server.refusal = None
        await election.wait_leading()
        assert election.last_error is None


async def test_it_closes_in_time_when_the_server_does_not_answer(server: LeaseServer, client: Client) -> None:
    async with limit(20):
        async with elect(client) as election:
            await election.wait_leading()
            server.answering.clear()
        server.answering.set()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("election")]


@pytest.mark.parametrize("durations", [{"renew_seconds": 15.0}, {"retry_seconds": 10.0}, {"retry_seconds": 0.0}])
def test_durations_are_refused_when_two_could_lead(durations: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must decrease"):
        ElectionTiming(**durations)  # type: ignore[arg-type]


@pytest.mark.parametrize("identity", ["", 201 * "x"])
async def test_an_identity_is_refused_when_it_cannot_stand_in_a_lease(client: Client, identity: str) -> None:
    with pytest.raises(ValueError, match="allowed: 1 to 200"):
        elect(client, identity)


async def test_waiting_ends_when_the_election_is_closed_at_once(client: Client) -> None:
    election = elect(client)
    waiting = asyncio.create_task(election.wait_leading())
    async with election:
        pass
    async with limit():
        with pytest.raises(LeadershipLost, match="closed"):
            await waiting
