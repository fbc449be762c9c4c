"""What happens to runs when the server comes back with another past, another cluster, or a frozen twin."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from testbed.cluster import Cluster
from tests.chaos.judge import is_engine
from tests.chaos.lab import PATIENT_SECONDS, Lab, make_account, open_lab, wait_until
from tests.chaos.report import assert_clean
from tests.chaos.storm import QUICK_SWEEP_SECONDS
from tests.chaos.workloads import Workload
from tests.core_process import call_runyard
from tests.postgres import Postgres

FREEZE_SECONDS = 20.0
"""A lease lasts 15."""
pytestmark = pytest.mark.asyncio(loop_scope="module")


def make_workload(run_id: str, *, seconds: float = 3600.0, **more: Any) -> Workload:
    return Workload(
        number=int(run_id.strip("r")), run_id=run_id, lines=int(seconds), pause_seconds=1.0, ttl_seconds=3600, **more
    )


def list_jobs(lab: Lab) -> dict[str, str]:
    """The UIDs of the Jobs that are there, by run."""
    return {job.run_id: job.uid for job in lab.witness.list("jobs") if job.run_id in lab.runs and not job.is_deleted}


@pytest.mark.parametrize("is_other_cluster", [True, False], ids=["cluster", "namespace"])
async def test_runs_wait_and_nothing_is_lost_when_the_server_is_pointed_to_another_place(
    lab: Lab, cluster: Cluster, tmp_path: Path, *, is_other_cluster: bool
) -> None:
    stopped, ended = ("r1", "r2") if is_other_cluster else ("r6", "r7")
    (replica,) = lab.servers.replicas
    here = dict(replica.flags)
    elsewhere = cluster if is_other_cluster else lab.cluster
    namespace = lab.namespace if is_other_cluster else f"{lab.namespace}-2"
    token = await asyncio.to_thread(make_account, elsewhere, namespace)
    there = elsewhere.write_kubeconfig(tmp_path / "other.kubeconfig", token=token)
    await lab.submit(make_workload(stopped))
    await lab.wait_for_state(stopped, "RUNNING")
    await lab.submit(make_workload(ended, seconds=30))
    await lab.wait_for_state(ended, "RUNNING")
    await replica.kill()
    living = list_jobs(lab)
    try:
        replica.flags |= {"kubeconfig": str(there), "namespace": namespace}
        await replica.start()
        # A stop cannot be done from here, and is not forgotten: it waits for its place.
        await lab.stop(stopped)
        status = await lab.wait_for(stopped, lambda status: status.get("reason") == "place.other")
        assert status["state"] == "STOP"
        await lab.wait_for(ended, lambda status: status.get("reason") == "place.other")
        await asyncio.sleep(QUICK_SWEEP_SECONDS)  # a sweep that does nothing leaves no trace
        assert (await lab.get_run(stopped))["status"]["state"] == "STOP"
        assert (await lab.get_run(ended))["status"]["state"] == "RUNNING"
        assert list_jobs(lab) == living
    finally:
        await replica.kill()
        replica.flags |= here
        for name in (namespace, f"{namespace}-system"):
            await asyncio.to_thread(elsewhere.api.delete, f"/api/v1/namespaces/{name}")
    await replica.start()
    await lab.wait_for_state(stopped, "STOPPED")
    await lab.wait_for_state(ended, "COMPLETED")
    assert await lab.wait_until_all_ended(seconds=PATIENT_SECONDS) == []
    assert_clean(await lab.collect())


async def test_nothing_that_lives_is_deleted_when_yesterdays_database_is_restored(lab: Lab, tmp_path: Path) -> None:
    (replica,) = lab.servers.replicas
    backup, url = tmp_path / "backup.db", f"sqlite:///{tmp_path / 'restored.db'}"
    await lab.submit(make_workload("r3"))
    await lab.submit(make_workload("r4"))
    for run_id in ("r3", "r4"):
        await lab.wait_for_state(run_id, "RUNNING")
    call_db("backup", str(backup), url=replica.flags["database"])
    # After the backup: a run that it does not know, and one that was deleted.
    await lab.submit(make_workload("r5"))
    await lab.wait_for_state("r5", "RUNNING")
    await lab.delete("r4")

    async def is_gone() -> bool:
        return await lab.find_run("r4") is None

    await wait_until(is_gone)
    living = list_jobs(lab)
    await replica.kill()
    call_db("restore", str(backup), url=url)
    replica.flags["database"] = url
    await replica.start()
    lost = await lab.wait_for_state("r4", "ERROR")
    assert lost["reason"] == "run.lost"
    orphan = await wait_for_orphan(lab)
    assert (orphan["run_id"], orphan["verdict"]) == ("r5", "report")
    await replica.stop()
    call_db("epoch", "confirm", "--yes", url=url)
    await replica.start()
    await asyncio.sleep(QUICK_SWEEP_SECONDS)  # a sweep that does nothing leaves no trace
    assert list_jobs(lab) == {run_id: living[run_id] for run_id in ("r3", "r5")}
    await lab.wait_for_state("r3", "RUNNING")
    # The same id again is another run, with a Job of its own; nothing is done to the one that nobody knows.
    evidences = {evidence.workload.run_id: evidence for evidence in await lab.collect()}
    assert not [entry for entry in evidences["r5"].entries if is_engine(entry) and entry.verb == "delete"]
    assert not [entry for entry in evidences["r3"].entries if is_engine(entry) and entry.verb == "delete"]


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_frozen_replica_does_no_harm_when_it_thaws_beyond_its_lease(
    breakable_cluster: Cluster, postgres: Postgres, tmp_path: Path
) -> None:
    url = postgres.create_database()
    async with open_lab(breakable_cluster, tmp_path, databases=[url, url]) as lab:
        frozen, other = lab.servers.replicas
        runs = [make_workload(f"r{number}", seconds=number % 4 * 3 + 1) for number in range(1, 25)]
        submitting = [asyncio.create_task(lab.submit(workload)) for workload in runs[:12]]
        await asyncio.sleep(0.3)  # in the middle of their creation
        frozen.freeze()
        submitting += [asyncio.create_task(lab.submit(workload)) for workload in runs[12:]]
        await asyncio.sleep(FREEZE_SECONDS)
        frozen.thaw()
        await asyncio.gather(*submitting)
        assert await lab.wait_until_all_ended(seconds=PATIENT_SECONDS) == []
        evidences = await lab.collect()
        assert_clean(evidences)
        assert {evidence.state for evidence in evidences} == {"COMPLETED"}
        assert other.is_alive


def call_db(*arguments: str, url: str) -> None:
    done = call_runyard("db", *arguments, environment={"RUNYARD_DATABASE": url})
    assert done.code == 0, done.err


async def wait_for_orphan(lab: Lab) -> dict[str, Any]:
    """What the sweep reports."""
    async with asyncio.timeout(PATIENT_SECONDS):
        while True:
            found = (await lab.servers.ask("GET", "/api/v1/engine/orphans")).json()
            if found["orphans"]:
                (orphan,) = found["orphans"]
                assert found["is_on"] is False
                return dict(orphan)
            await asyncio.sleep(0.5)
