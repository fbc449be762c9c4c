"""Leader election on a real apiserver: hand-over, take-over, and a leader that was frozen."""

import asyncio
import os
import signal
import sys
import time

from runyard.kube.client import Client
from runyard.kube.leader_election import ElectionTiming, LeaderElection
from runyard.kube.resources import LEASES
from testbed.cluster import Cluster

TIMING = ElectionTiming(lease_seconds=10, renew_seconds=7.0, retry_seconds=0.3)
SLOW = ElectionTiming(lease_seconds=300, renew_seconds=200.0, retry_seconds=0.3)
"""A lease that nobody takes over within a test because it has expired."""

LEADER = """
import asyncio, pathlib, sys, time
from runyard.kube import Client, ElectionTiming, LeaderElection, load_kubeconfig

async def main():
    timing = ElectionTiming(lease_seconds=10, renew_seconds=7.0, retry_seconds=0.3)
    async with Client.connect(load_kubeconfig(pathlib.Path(sys.argv[1]))) as client:
        async with LeaderElection(client, "l", namespace=sys.argv[2], identity="frozen", timing=timing) as election:
            leadership = await election.wait_leading()
            print("leads", leadership.term, flush=True)
            while leadership.is_valid:
                last = time.clock_gettime(time.CLOCK_BOOTTIME)
                await asyncio.sleep(0.02)
            print("led until", last, flush=True)
            await asyncio.sleep(600)

asyncio.run(main())
"""


def elect(client: Client, namespace: str, identity: str, *, timing: ElectionTiming = TIMING) -> LeaderElection:
    return LeaderElection(client, "l", namespace=namespace, identity=identity, timing=timing)


async def test_the_lead_is_handed_over_at_once_when_the_leader_closes(client: Client, namespace: str) -> None:
    async with asyncio.timeout(120), elect(client, namespace, "b", timing=SLOW) as second:
        first = await second.wait_leading()
        async with elect(client, namespace, "a", timing=SLOW) as candidate:
            while candidate.holder != second.identity:  # noqa: ASYNC110 - until it has looked
                await asyncio.sleep(0.1)
            await asyncio.sleep(1)
            assert candidate.leadership is None
            await second.__aexit__(None, None, None)
            successor = await candidate.wait_leading()
            assert not first.is_valid
            assert successor.term > first.term
            assert successor.since > first.since
    lease = await client.get(LEASES, "l", namespace=namespace)
    assert not lease["spec"].get("holderIdentity")


async def test_a_frozen_leader_leads_no_more_when_it_thaws(cluster: Cluster, client: Client, namespace: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEADER, str(cluster.kubeconfig), namespace, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(90):
            first_term = int((await process.stdout.readline()).split()[1])
            async with elect(client, namespace, "candidate") as election:
                await asyncio.sleep(1)
                assert election.leadership is None
                os.kill(process.pid, signal.SIGSTOP)
                leadership = await election.wait_leading()
                taken_over_at = time.clock_gettime(time.CLOCK_BOOTTIME)
                assert leadership.term > first_term
                os.kill(process.pid, signal.SIGCONT)
                led_until = float((await process.stdout.readline()).split()[2])
                assert led_until < taken_over_at
                await asyncio.sleep(2)
                assert leadership.is_valid
    finally:
        process.kill()
        await process.wait()
