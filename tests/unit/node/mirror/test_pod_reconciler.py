import random
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runyard.node.admission.refusal import Refusal
from runyard.node.mirror.statuses import is_started
from runyard.node.providers.provider import (
    ProviderError,
    ProviderFull,
    ProviderRefused,
    ProviderUnavailable,
    RemotePod,
)
from tests.unit.node.mirror.fakes import UP, Sides, make_sides, unavailable
from tests.unit.node.mirror.pods import local_pod

UID = "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76"
DONE = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0}}}]}


@pytest.fixture
def sides() -> Sides:
    sides = make_sides()
    sides.local.put(local_pod())
    return sides


def _status(sides: Sides) -> dict[str, Any]:
    pod = sides.local.pod()
    assert pod is not None
    status: dict[str, Any] = pod["status"]
    return status


def _delete(sides: Sides, *, grace_seconds: int = 30) -> None:
    pod = sides.local.pod()
    assert pod is not None
    at = datetime.now(UTC) + timedelta(seconds=grace_seconds)
    times = {"deletionTimestamp": at.isoformat(), "deletionGracePeriodSeconds": grace_seconds}
    sides.local.put({**pod, "metadata": {**pod["metadata"], **times}})


async def test_pod_is_started_once_and_marked_when_it_is_bound(sides: Sides) -> None:
    reconciler = sides.restart()
    await reconciler.reconcile(UID)
    await reconciler.reconcile(UID)
    assert sides.provider.creations == [UID]
    assert is_started({"status": _status(sides)})
    assert len(sides.local.patches) == 1


async def test_nothing_happens_when_a_side_was_not_listed(sides: Sides) -> None:
    reconciler = sides.restart()
    sides.provider.link = replace(UP, has_listed=False)
    await reconciler.reconcile(UID)
    sides.provider.link, sides.local.has_synced = UP, False
    await reconciler.reconcile(UID)
    assert (sides.provider.creations, sides.local.patches) == ([], [])


async def test_pod_is_not_doubled_when_the_answer_to_its_start_was_lost(sides: Sides) -> None:
    sides.provider.fault, sides.provider.is_done = unavailable(), True
    with pytest.raises(ProviderUnavailable):
        await sides.restart().reconcile(UID)
    await sides.restart().reconcile(UID)
    assert sides.provider.creations == [UID]
    assert _status(sides)["phase"] == "Pending"


async def test_pod_fails_when_it_is_gone_at_the_provider(sides: Sides) -> None:
    await sides.restart().reconcile(UID)
    sides.provider.remove(UID)
    reconciler = sides.restart()
    await reconciler.reconcile(UID)
    await reconciler.reconcile(UID)
    assert (_status(sides)["phase"], _status(sides)["reason"]) == ("Failed", "RemotePodGone")
    assert sides.provider.creations == [UID]
    assert UID in sides.gone
    assert UID in sides.provider.cleaned


async def test_pod_ends_as_it_did_when_its_end_was_seen_before_it_was_gone(sides: Sides) -> None:
    reconciler = sides.restart()
    await reconciler.reconcile(UID)
    sides.provider.show(UID, **DONE)
    sides.provider.remove(UID)
    await reconciler.reconcile(UID)
    assert _status(sides)["phase"] == "Succeeded"


async def test_pod_at_the_provider_is_stopped_when_the_local_one_is_gone(sides: Sides) -> None:
    reconciler = sides.restart()
    await reconciler.reconcile(UID)
    sides.local.remove()
    await sides.restart().reconcile(UID)
    assert sides.provider.stops == [(UID, 30)]
    sides.provider.remove(UID)
    await reconciler.reconcile(UID)
    assert sides.provider.cleaned == [UID]


async def test_leftover_is_kept_when_the_local_list_is_not_complete(sides: Sides) -> None:
    await sides.restart().reconcile(UID)
    sides.local.remove()
    sides.local.has_synced = False
    await sides.restart().reconcile(UID)
    assert sides.provider.stops == []


async def test_local_pod_goes_last_when_it_is_deleted(sides: Sides) -> None:
    reconciler = sides.restart()
    await reconciler.reconcile(UID)
    _delete(sides, grace_seconds=30)
    await reconciler.reconcile(UID)
    await reconciler.reconcile(UID)
    (uid, grace_seconds), *more = sides.provider.stops
    assert (uid, more) == (UID, [])
    assert 28 <= grace_seconds <= 30
    assert sides.local.pod() is not None
    _delete(sides, grace_seconds=1)
    await reconciler.reconcile(UID)
    assert sides.provider.stops[1:] == [(UID, 1)]
    sides.provider.remove(UID)
    await reconciler.reconcile(UID)
    assert sides.local.pod() is None
    assert UID in sides.gone


async def test_pod_keeps_a_second_to_end_when_its_grace_is_over(sides: Sides) -> None:
    await sides.restart().reconcile(UID)
    _delete(sides, grace_seconds=-5)
    await sides.restart().reconcile(UID)
    assert sides.provider.stops == [(UID, 1)]


async def test_status_is_written_once_when_the_watch_lags_behind(sides: Sides) -> None:
    reconciler = sides.restart()
    sides.local.is_lagging = True
    await reconciler.reconcile(UID)
    await reconciler.reconcile(UID)
    assert len(sides.local.patches) == 1


async def test_deleted_pod_stays_when_its_start_got_no_answer_and_the_link_is_down(sides: Sides) -> None:
    reconciler = sides.restart()
    sides.provider.fault = unavailable()
    with pytest.raises(ProviderUnavailable):
        await reconciler.reconcile(UID)
    _delete(sides)
    sides.provider.link = replace(UP, is_up=False)
    await reconciler.reconcile(UID)
    assert sides.local.pod() is not None
    sides.provider.link = UP
    await reconciler.reconcile(UID)
    assert sides.local.pod() is None


async def test_deleted_pod_is_removed_without_a_start_when_it_never_was_started(sides: Sides) -> None:
    _delete(sides)
    await sides.restart().reconcile(UID)
    assert sides.local.pod() is None
    assert sides.provider.creations == []


async def test_pod_that_ended_keeps_its_remains_for_logs_when_it_is_not_deleted(sides: Sides) -> None:
    reconciler = sides.restart()
    await reconciler.reconcile(UID)
    sides.provider.show(UID, **DONE)
    await reconciler.reconcile(UID)
    assert sides.gone == [UID]
    await reconciler.reconcile(UID)
    assert _status(sides)["phase"] == "Succeeded"
    assert (UID in sides.provider.held, sides.provider.stops) == (True, [])


async def test_pod_at_the_provider_is_stopped_when_the_local_one_was_failed_by_others(sides: Sides) -> None:
    reconciler = sides.restart()
    await reconciler.reconcile(UID)
    pod = sides.local.pod()
    assert pod is not None
    sides.local.put({**pod, "status": {**pod["status"], "phase": "Failed"}})
    await reconciler.reconcile(UID)
    assert sides.provider.stops == [(UID, 30)]


async def test_pod_waits_with_the_providers_words_when_it_is_refused(sides: Sides) -> None:
    """A failed one would be replaced by its controller at once, for ever."""
    sides.provider.fault = ProviderRefused("RefusedByProvider", "no privileged pods here")
    assert await sides.restart().reconcile(UID) is not None
    status = _status(sides)
    assert status["phase"] == "Pending"
    assert status["containerStatuses"][0]["state"] == {
        "waiting": {"reason": "RefusedByProvider", "message": "no privileged pods here"}
    }


async def test_nothing_is_taken_for_gone_when_the_link_is_down(sides: Sides) -> None:
    await sides.restart().reconcile(UID)
    del sides.provider.held[UID]
    sides.provider.link = replace(UP, is_up=False)
    reconciler = sides.restart()
    await reconciler.reconcile(UID)
    assert _status(sides)["phase"] != "Failed"
    sides.provider.link = UP
    await reconciler.reconcile(UID)
    assert _status(sides)["reason"] == "RemotePodGone"


async def test_pod_waits_and_is_tried_again_when_the_provider_is_full(sides: Sides) -> None:
    sides.provider.fault = ProviderFull("QuotaExceeded", "no room")
    reconciler = sides.restart()
    assert await reconciler.reconcile(UID) is not None
    assert _status(sides)["containerStatuses"][0]["state"] == {
        "waiting": {"reason": "QuotaExceeded", "message": "no room"}
    }
    assert sides.gone == []
    await reconciler.reconcile(UID)
    assert sides.provider.creations == [UID]


async def test_pod_says_what_it_waits_for_when_its_start_got_no_answer(sides: Sides) -> None:
    sides.provider.fault = ProviderUnavailable('namespaces "tenant" not found')
    with pytest.raises(ProviderUnavailable):
        await sides.restart().reconcile(UID)
    waiting = _status(sides)["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "ProviderUnavailable"
    assert 'namespaces "tenant" not found' in waiting["message"]


async def test_nothing_is_started_or_stopped_when_the_link_is_down(sides: Sides) -> None:
    sides.provider.link = replace(UP, is_up=False)
    await sides.restart().reconcile(UID)
    assert sides.provider.creations == []
    sides.provider.held[UID] = RemotePod(UID, "remote", {"phase": "Running"}, {})
    _delete(sides)
    await sides.restart().reconcile(UID)
    assert sides.provider.stops == []
    assert sides.local.pod() is not None


async def test_foreign_pod_is_not_run_but_can_be_deleted_when_somebody_else_bound_it(sides: Sides) -> None:
    sides.refusal = Refusal("NotBoundByAgent", "somebody else put it here")
    reconciler = sides.restart()
    await reconciler.reconcile(UID)
    assert sides.provider.creations == []
    waiting = _status(sides)["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "NotBoundByAgent"
    _delete(sides)
    await reconciler.reconcile(UID)
    assert sides.local.pod() is None


async def test_changed_labels_are_pushed_once_when_the_pod_runs(sides: Sides) -> None:
    reconciler = sides.restart()
    await reconciler.reconcile(UID)
    pod = sides.local.pod()
    assert pod is not None
    sides.local.put({**pod, "metadata": {**pod["metadata"], "labels": {"app": "y"}}})
    await reconciler.reconcile(UID)
    await reconciler.reconcile(UID)
    assert [workload.labels for workload in sides.provider.updates] == [{"app": "y"}]


async def test_pod_runs_once_and_leaves_nothing_when_anything_fails_at_any_time() -> None:
    """Crashes, lost answers and a link that comes and goes; then a deletion. Nobody removes pods behind our back."""
    for seed in range(200):
        await _live_through(random.Random(seed))


async def _live_through(chance: random.Random) -> None:
    sides = make_sides()
    sides.local.put(local_pod())
    reconciler = sides.restart()

    async def step() -> None:
        nonlocal reconciler
        if chance.random() < 0.3:
            reconciler = sides.restart()
        if chance.random() < 0.4:
            sides.provider.fault, sides.provider.is_done = unavailable(), chance.random() < 0.5
        sides.provider.link = replace(UP, is_up=chance.random() < 0.8, has_listed=chance.random() < 0.9)
        with suppress(ProviderError):
            await reconciler.reconcile(UID)
        sides.provider.fault = None

    for _ in range(chance.randrange(12)):
        await step()
    assert len(sides.provider.creations) <= 1
    assert _status(sides)["phase"] == "Pending"
    _delete(sides)
    for _ in range(chance.randrange(12)):
        await step()
        if UID in sides.provider.held and sides.provider.held[UID].is_deleting and chance.random() < 0.5:
            sides.provider.remove(UID)
    sides.provider.link = UP
    for _ in range(4):
        await sides.restart().reconcile(UID)
        if UID in sides.provider.held and sides.provider.held[UID].is_deleting:
            sides.provider.remove(UID)
    assert sides.local.pod() is None
    assert sides.provider.held == {}
    assert len(sides.provider.creations) <= 1
