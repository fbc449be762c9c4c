"""The ledger follows both sides."""

from datetime import UTC, datetime
from typing import Any, cast

from runyard.node.admission.judgement import find_demand
from runyard.node.ledger import Ledger
from runyard.node.offer import CPU, GPU, MEMORY, PODS
from runyard.node.providers.provider import Link, RemotePod
from runyard.node.reservations import UNSEEN_SECONDS, Reservations
from runyard.spec.kubernetes.quantity import Quantity
from tests.unit.node.test_binder import Pods, make_pod

ONE = {CPU: Quantity.parse("2"), MEMORY: Quantity.parse("4Gi"), GPU: Quantity.parse("1")}


class Remote:
    """Stands for a provider."""

    def __init__(self) -> None:
        self.pods: dict[str, RemotePod] = {}
        self.link = Link(is_up=True, has_listed=True, since=datetime.now(UTC))

    def add(self, uid: str, phase: str = "Running") -> None:
        self.pods[uid] = RemotePod(uid=uid, name=f"pod-{uid}", status={"phase": phase}, requests=ONE)


class World:
    def __init__(self, *pods: dict[str, Any]) -> None:
        self.ledger = Ledger(
            {**{name: Quantity.parse("64") for name in (CPU, GPU, PODS)}, MEMORY: Quantity.parse("1Ti")}
        )
        self.remote, self.bound, self.changes = Remote(), Pods(*pods), 0
        self.binding: set[str] = set()
        self.reservations = Reservations(
            self.ledger,
            cast("Any", self.remote),
            cast("Any", self.bound),
            is_ours=lambda pod: pod["spec"]["schedulerName"] == "k8s.gpu",
            find_demand=find_demand,
            is_binding=lambda uid: uid in self.binding,
            read_link=lambda: self.remote.link,
            on_changed=self._count,
        )

    def _count(self) -> None:
        self.changes += 1

    @property
    def uids(self) -> set[str]:
        return set(self.ledger.reserved)


def make_bound(name: str, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    return {**make_pod(name, nodeName="k8s.gpu", **spec), "status": {"phase": phase}}


def test_both_sides_are_counted_when_the_ledger_is_rebuilt() -> None:
    world = World(make_bound("here"), make_bound("ended", "Succeeded"), make_bound("foreign", schedulerName="other"))
    world.remote.add("leftover")
    world.remote.add("over", "Failed")
    world.reservations.rebuild()
    assert world.uids == {"uid-here", "leftover"}


def test_a_pod_that_has_ended_here_is_counted_when_it_lives_at_the_provider() -> None:
    world = World(make_bound("here", "Failed"))
    world.remote.add("uid-here")
    world.reservations.rebuild()
    assert world.uids == {"uid-here"}


def test_a_pod_is_counted_once_when_it_is_seen_again() -> None:
    world = World()
    pod = make_bound("here")
    world.reservations.note_bound([pod])
    world.reservations.note_bound([pod])
    assert (world.uids, world.changes) == ({"uid-here"}, 1)


def test_a_reservation_is_released_when_neither_side_has_known_it_for_a_while() -> None:
    world = World(make_bound("here"))
    world.remote.add("there")
    world.reservations.rebuild()
    world.ledger.reserve("binding", ONE)
    assert world.reservations.sweep(now=0.0) == []
    assert world.reservations.sweep(now=UNSEEN_SECONDS - 1) == []
    assert world.reservations.sweep(now=UNSEEN_SECONDS) == ["binding"]
    assert world.uids == {"uid-here", "there"}


def test_a_reservation_is_kept_when_nobody_knows_whether_its_pod_was_bound() -> None:
    world = World()
    world.ledger.reserve("unknown", ONE)
    world.binding.add("unknown")
    world.reservations.sweep(now=0.0)
    assert world.reservations.sweep(now=2 * UNSEEN_SECONDS) == []
    assert world.uids == {"unknown"}


def test_the_time_begins_anew_when_a_pod_was_seen_in_between() -> None:
    world = World()
    world.ledger.reserve("binding", ONE)
    world.reservations.sweep(now=0.0)
    world.remote.add("binding")
    world.reservations.sweep(now=UNSEEN_SECONDS / 2)
    del world.remote.pods["binding"]
    assert world.reservations.sweep(now=UNSEEN_SECONDS) == []
    assert world.reservations.sweep(now=2 * UNSEEN_SECONDS) == ["binding"]


def test_others_are_told_once_when_a_pod_is_released_twice() -> None:
    world = World()
    world.ledger.reserve("one", ONE)
    world.reservations.release("one")
    world.reservations.release("one")
    assert (world.uids, world.changes) == (set(), 1)


def test_a_pod_that_is_gone_is_not_counted_again_when_the_watch_shows_it_late() -> None:
    late = make_bound("here")
    world = World(late)
    world.reservations.rebuild()
    world.reservations.release("uid-here")
    world.reservations.note_bound([late])
    world.reservations.rebuild()
    assert world.uids == set()


def test_a_pod_that_is_gone_is_forgotten_when_the_local_list_has_it_no_more() -> None:
    world = World(make_bound("here"))
    world.reservations.release("uid-here")
    world.reservations.sweep(now=0.0)
    world.reservations.note_bound([make_bound("here")])
    assert world.uids == set()
    world.bound.held.clear()
    world.reservations.sweep(now=1.0)
    world.reservations.note_bound([make_bound("here")])
    assert world.uids == {"uid-here"}


def test_a_pod_is_counted_when_it_is_seen_after_its_reservation_was_swept() -> None:
    world = World()
    world.ledger.reserve("uid-here", ONE)
    world.reservations.sweep(now=0.0)
    assert world.reservations.sweep(now=UNSEEN_SECONDS) == ["uid-here"]
    world.reservations.note_bound([make_bound("here")])
    assert world.uids == {"uid-here"}
