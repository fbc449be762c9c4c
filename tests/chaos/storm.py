"""A storm: users submit, stop and delete runs while faults happen; then everything heals, and the judge counts."""

import asyncio
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from testbed.cluster import Cluster
from testbed.faults import FaultPlan, Spread
from tests.chaos.audit_log import RUN_LABEL
from tests.chaos.faults import RATES, WEIGHTS, Injector, persist, plan_faults
from tests.chaos.judge import ANSWER, Violation, judge_run
from tests.chaos.lab import Lab, open_lab
from tests.chaos.report import Report
from tests.chaos.workloads import Workload, iter_workloads
from tests.postgres import run_postgres

SPREAD = Spread(after_bytes=(0, 50_000), stall_seconds=(0.5, 5.0), refuse_seconds=(0.1, 1.0), endless_stalls=0.1)
SWEEP_SECONDS = 32.0
QUICK_SWEEP_SECONDS = 10.0
"""Longer than the sweep's grace period and its interval (`spawner.py`)."""
REMOVAL_SECONDS = 120.0
"""How long orphans may be there after the last sweep of a quiet machine."""
LONGEST_LIFE_SECONDS = 120.0
"""With longer lives a storm of half an hour would take as long again to end."""
SUBMITTERS = 8
SAMPLE_SECONDS = 5.0
TELL_SECONDS = 30.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StormPlan:
    """How large, how long, how hard."""

    seed: int
    runs: int
    """In flight at the same time."""
    seconds: float
    total: int | None = None
    """The storm has no more runs than that; None: new ones follow those that have ended."""
    pause_seconds: float = 6.0
    """Between two faults, on the average."""
    replicas: int = 1
    """Two share a PostgreSQL, one has SQLite."""
    kinds: Mapping[str, int] | None = None
    is_quick: bool = False
    settle_seconds: float = 600.0

    @property
    def life_seconds(self) -> float:
        """How long the longest programs take."""
        return min(max(4.0, self.seconds / 4), LONGEST_LIFE_SECONDS)

    @property
    def command(self) -> str:
        """What repeats it."""
        words = ["python -m tests.chaos", f"--runs {self.runs}", f"--seconds {self.seconds:g}", f"--seed {self.seed}"]
        words += [f"--total {self.total}"] if self.total is not None else []
        words += [f"--pause {self.pause_seconds:g}", f"--replicas {self.replicas}", f"--settle {self.settle_seconds:g}"]
        words += ["--quick"] if self.is_quick else []
        # The seed draws among the kinds: with others it gives another storm.
        words += [f"--only {kind}" for kind in self.kinds or () if set(self.kinds or ()) != set(WEIGHTS)]
        return " ".join(words)

    def choose_kinds(self) -> Mapping[str, int]:
        """The kinds of faults, with their weights. One server alone is not frozen: nobody could take over."""
        kinds = self.kinds if self.kinds is not None else WEIGHTS
        return {kind: weight for kind, weight in kinds.items() if self.replicas > 1 or kind != "server-freeze"}


async def run_storm(plan: StormPlan, cluster: Cluster, folder: Path, *, say: Say | None = None) -> Report:
    """One storm on a cluster that is its own."""
    begun = time.monotonic()
    try:
        return await _run_storm(plan, cluster, folder, say=say or (lambda _: None), begun=begun)
    except Exception as error:
        error.add_note(f"to repeat this storm: {plan.command}")
        raise


async def _run_storm(plan: StormPlan, cluster: Cluster, folder: Path, *, say: Say, begun: float) -> Report:
    with ExitStack() as stack:
        databases: list[str] = []
        if plan.replicas > 1:
            databases = [stack.enter_context(run_postgres()).create_database()] * plan.replicas
        async with open_lab(
            cluster,
            folder,
            plan=FaultPlan(plan.seed, RATES, SPREAD),
            databases=databases,
            is_quick=plan.is_quick,
        ) as lab:
            return await Storm(plan, lab, say=say).run(begun)


class Storm:
    """One storm in its laboratory."""

    def __init__(self, plan: StormPlan, lab: Lab, *, say: Say) -> None:
        self._plan, self._lab, self._say = plan, lab, say
        self._injector = Injector(lab.cluster, lab.servers, lab.proxy, lab.witness, lab.namespace)
        self._workloads = itertools.islice(iter_workloads(plan.seed, life_seconds=plan.life_seconds), plan.total)
        self._over: set[str] = set()
        self._unanswered: list[Violation] = []
        self._most_in_flight = self._most_pods = 0

    async def run(self, begun: float) -> Report:
        """From the first submit to the verdict."""
        plan, lab = self._plan, self._lab
        planned = plan_faults(
            plan.seed, seconds=plan.seconds, pause_seconds=plan.pause_seconds, kinds=plan.choose_kinds()
        )
        async with asyncio.TaskGroup() as group:
            users = group.create_task(self._be_users(group))
            telling = group.create_task(self._tell(begun))
            keeping = group.create_task(lab.servers.keep_alive())
            await self._injector.run(planned)
            await users
            self._say(f"{time.monotonic() - begun:.0f} s: the faults are over, {len(lab.runs)} runs were submitted")
            healing = time.monotonic()
            await self._heal()
            unfinished = await lab.wait_until_all_ended(seconds=plan.settle_seconds)
            telling.cancel()
            keeping.cancel()
        settled = time.monotonic()
        self._say(f"{settled - begun:.0f} s: all have ended but {len(unfinished)}; waiting for the sweep")
        if not plan.is_quick:
            await asyncio.sleep(SWEEP_SECONDS)  # one whole sweep that has nothing to do must do nothing
        strays = await self._wait_for_removal()
        evidences = await lab.collect(self._injector.tamperings)
        return Report(
            command=plan.command,
            seconds=time.monotonic() - begun,
            settle_seconds=settled - healing,
            most_in_flight=self._most_in_flight,
            most_pods=self._most_pods,
            faults=self._injector.counts,
            proxy_faults=dict(sorted(lab.proxy.counts.items())),
            evidences=evidences,
            violations=[*self._unanswered, *(each for evidence in evidences for each in judge_run(evidence))],
            strays=strays,
            crashes=lab.servers.crashes,
            notes=self._list_notes(),
        )

    async def _be_users(self, group: asyncio.TaskGroup) -> None:
        """Keep so many runs in flight until the time is over, or all were submitted."""
        deadline = time.monotonic() + self._plan.seconds
        submitting = asyncio.Semaphore(SUBMITTERS)
        for begun, workload in enumerate(self._workloads):
            while begun - len(self._over) >= self._plan.runs and time.monotonic() < deadline:
                self._note_ends()
                await asyncio.sleep(0.2)
            if time.monotonic() >= deadline and self._plan.total is None:
                return
            await submitting.acquire()
            group.create_task(self._be_user(workload, submitting))
            if self._plan.total is not None:
                # Spread over the first half, so that faults meet runs of every age.
                await asyncio.sleep(self._plan.seconds / 2 / self._plan.total)

    async def _be_user(self, workload: Workload, submitting: asyncio.Semaphore) -> None:
        """One user: a request that is never answered is a finding, and no end of the storm."""
        try:
            await self._use(workload, submitting)
        except AssertionError as error:
            self._unanswered.append(Violation(ANSWER, workload.run_id, str(error)))
            self._over.add(workload.run_id)

    async def _use(self, workload: Workload, submitting: asyncio.Semaphore) -> None:
        try:
            await self._lab.submit(workload)
        finally:
            submitting.release()
        begun = time.monotonic()
        for seconds, act in (
            (workload.stop_after_seconds, self._lab.stop),
            (workload.delete_after_seconds, self._lab.delete),
        ):
            if seconds is not None:
                await asyncio.sleep(max(0.0, begun + seconds - time.monotonic()))
                await act(workload.run_id)
                self._over.add(workload.run_id)

    async def _wait_for_removal(self) -> list[str]:
        """Until the sweep has removed every stray, and every object of a deleted run; returns the strays."""
        deadline = time.monotonic() + REMOVAL_SECONDS
        gone = {run_id for run_id, evidence in self._lab.runs.items() if evidence.is_delete_acknowledged}
        while True:
            strays = await asyncio.to_thread(self._lab.find_strays)
            left = await asyncio.to_thread(self._lab.list_remains)
            if not strays and gone.isdisjoint(item["metadata"]["labels"].get(RUN_LABEL, "") for item in left):
                return []
            if time.monotonic() > deadline:
                return strays
            await asyncio.sleep(0.5)

    def _note_ends(self) -> None:
        """Runs that need no room anymore, by what the witness saw; the servers have other things to do."""
        for anchor in self._lab.witness.list("jobs"):
            if anchor.is_deleted or not {"Complete", "Failed"}.isdisjoint(anchor.conditions):
                self._over.add(anchor.run_id)

    async def _heal(self) -> None:
        """No more faults; every component and server runs."""
        lab = self._lab
        lab.proxy.enabled = False
        await asyncio.to_thread(lab.proxy.sever)  # streams that stall for ever, as a broken network would end them
        await persist(lambda: asyncio.to_thread(lab.cluster.wait_ready))
        for replica in lab.servers.replicas:
            try:
                await replica.wait_ready()
            except AssertionError as error:
                lab.servers.crashes.append(f"after the storm, {error}")

    def _list_notes(self) -> list[str]:
        """What is no violation, and worth knowing."""
        failures = [f"a fault could not be done: {failure}" for failure in self._injector.failures[:5]]
        outputs = [replica.output.read_text(errors="replace") for replica in self._lab.servers.replicas]
        unexpected = Counter(
            line.strip()[:200]
            for output in outputs
            for line in output.splitlines()
            if re.match(r"[A-Za-z_.]*(Error|Exception|Group)\b", line)
        )
        starts = self._lab.servers.failed_starts
        failures += [f"{starts} starts of a server failed, because its cluster did not answer"] if starts else []
        return [*failures, *(f"in a server's log {count}×: {line}" for line, count in unexpected.most_common(10))]

    async def _tell(self, begun: float) -> None:
        """Count what is there every few seconds, and say it now and then."""
        for number in itertools.count(1):
            await asyncio.sleep(SAMPLE_SECONDS)
            self._note_ends()
            in_flight = len(self._lab.runs) - len(self._over)
            pods = [pod for pod in self._lab.witness.list("pods") if not pod.is_deleted and pod.phase == "Running"]
            self._most_in_flight = max(self._most_in_flight, in_flight)
            self._most_pods = max(self._most_pods, len(pods))
            if number % int(TELL_SECONDS / SAMPLE_SECONDS) == 0:
                self._say(
                    f"{time.monotonic() - begun:.0f} s: {len(self._lab.runs)} runs, {in_flight} in flight, "
                    f"{len(pods)} pods run, faults {dict(self._injector.counts)}"
                )
