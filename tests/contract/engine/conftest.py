"""The same tests for each engine: a new engine adds its lab to `LABS`."""

import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import pytest

from runyard.domain.resolve_inputs import AdminRules
from tests.contract.engine import kubernetes_lab
from tests.contract.engine.kubernetes_lab import open_kubernetes_lab
from tests.contract.engine.lab import Capability, Lab
from tests.contract.engine.local_lab import find_capabilities, open_local_lab
from tests.contract.engine.memory_lab import MemoryLab
from tests.contract.engine.podman_lab import open_podman_lab, podman_ends
from tests.engines.memory import MemoryEngine


@asynccontextmanager
async def open_memory_lab(engine: MemoryEngine | None = None) -> AsyncIterator[Lab]:
    """An engine in memory, possibly a broken one."""
    lab = MemoryLab(engine)
    await lab.engine.ensure_project(lab.project, AdminRules())
    await lab.engine.ensure_project(lab.other_project, AdminRules())
    yield lab


__all__ = ["podman_ends"]

LABS: Mapping[str, Callable[[], AbstractAsyncContextManager[Lab]]] = {
    "memory": open_memory_lab,
    "process": open_local_lab,
    "podman": open_podman_lab,
}
CLUSTER_LABS: Mapping[str, Callable[..., AbstractAsyncContextManager[Lab]]] = {
    "kubernetes": open_kubernetes_lab,
    "kubernetes in one namespace": partial(open_kubernetes_lab, is_shared=True),
}
IN_ONE_NAMESPACE = frozenset(
    {
        "test_everything_that_was_sent_was_admitted_when_a_service_is_started",
        "test_run_is_refused_and_the_stranger_stays_when_another_object_has_its_name",
        "test_nothing_is_left_when_it_is_removed_at_work",
        "test_anchors_of_others_are_neither_listed_nor_reported_when_they_are_at_the_same_place",
        "test_it_goes_on_when_a_stopped_service_is_released_and_an_older_stop_comes_late",
        "test_log_is_followed_to_its_end_when_the_run_is_at_work",
        "test_snapshot_shows_nodes_and_pods_when_something_runs",
        "test_mounted_volume_goes_when_the_last_run_that_mounts_it_has_ended",
        "test_input_comes_back_whole_when_a_command_echoes_it_to_its_end",
        "test_values_of_secrets_are_gone_when_an_ended_run_is_settled",
    }
)
"""Those that use most rights of the engine. `RUNYARD_CONTRACT_IN_ONE_NAMESPACE=all` collects the others too, as `make
test-versions` does."""
OF_NAMESPACES = frozenset(
    {
        "test_runs_can_begin_when_their_project_was_prepared_several_times_at_once",
        "test_other_projects_stay_when_one_is_removed",
        "test_project_stays_when_somebody_else_made_it",
        "test_claim_of_others_is_listed_and_untouched_when_it_is_ensured_or_removed",
    }
)
"""Those about what a project has of its own: in a shared namespace, nothing."""


CAPABILITIES: Mapping[str, frozenset[Capability]] = {
    "memory": MemoryLab.capabilities,
    "process": find_capabilities(),
    "podman": find_capabilities(),
    "kubernetes": kubernetes_lab.CAPABILITIES,
    "kubernetes in one namespace": kubernetes_lab.CAPABILITIES,
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*capabilities): only for labs that can do that (`lab.needs`)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Collect a test for the labs that can do what it needs."""
    if "lab" not in metafunc.fixturenames:
        return
    needed = _list_needed(metafunc.definition)
    able = [name for name in (*LABS, *CLUSTER_LABS) if needed <= CAPABILITIES[name]]
    if not _runs_in_one_namespace(metafunc.definition.originalname):
        able = [name for name in able if name != "kubernetes in one namespace"]
    marks = {name: [pytest.mark.kubernetes] for name in CLUSTER_LABS}
    metafunc.parametrize("lab", [pytest.param(name, marks=marks.get(name, ())) for name in able], indirect=True)


def _list_needed(test: pytest.Item) -> set[Capability]:
    return {capability for mark in test.iter_markers("needs") for capability in mark.args}


def _runs_in_one_namespace(test: str) -> bool:
    if os.environ.get("RUNYARD_CONTRACT_IN_ONE_NAMESPACE") == "all":
        return test not in OF_NAMESPACES
    return test in IN_ONE_NAMESPACE


@pytest.fixture
async def lab(request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """An engine without runs."""
    if request.param in CLUSTER_LABS:
        needed = _list_needed(request.node)
        account = f"server-{secrets.token_hex(4)}" if "hide" in needed else None
        cluster = request.getfixturevalue("own_cluster" if "epochs" in needed else "cluster")
        async with CLUSTER_LABS[request.param](cluster, account=account) as lab_on_cluster:
            yield lab_on_cluster
        return
    async with LABS[request.param]() as opened:
        yield opened
