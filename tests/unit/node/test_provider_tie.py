"""A node keeps to the provider that has its pods."""

from typing import Any

import pytest

from runyard.node.provider_tie import PROVIDER_ANNOTATION, ProviderTie


class World:
    def __init__(self, identity: str | None = "uid-a", *, accepted: str = "", has_pods: bool = True) -> None:
        self.identity, self.has_pods, self.changes = identity, has_pods, 0
        self.annotations: dict[str, str] = {}
        self.uid = "node-1"
        self.tie = ProviderTie(
            lambda: self.identity, accepted=accepted, has_pods=lambda: self.has_pods, on_changed=self._count
        )

    def _count(self) -> None:
        self.changes += 1

    def beat(self) -> str | None:
        """As `VirtualNode` does; returns the reason why the provider is not trusted."""
        node: dict[str, Any] = {"metadata": {"uid": self.uid, "annotations": dict(self.annotations)}}
        self.tie.note_node(node)
        if (annotation := self.tie.find_annotation()) is not None:
            self.annotations[PROVIDER_ANNOTATION] = annotation
            self.tie.note_written(annotation)
        mismatch = self.tie.find_mismatch()
        return None if mismatch is None else mismatch.reason


def test_provider_is_written_down_before_it_is_trusted() -> None:
    world = World(identity=None)
    assert world.beat() == "ProviderUnidentified"
    world.identity = "uid-a"
    assert world.tie.find_mismatch() is not None
    assert world.beat() is None
    assert world.annotations == {PROVIDER_ANNOTATION: "uid-a"}
    assert world.changes


def test_term_is_told_when_the_node_names_the_provider_from_the_beginning() -> None:
    world = World()
    world.annotations = {PROVIDER_ANNOTATION: "uid-a"}
    assert world.beat() is None
    assert world.changes == 1
    assert world.beat() is None
    assert world.changes == 1


def test_another_provider_is_not_trusted_when_pods_are_bound() -> None:
    world = World("uid-b")
    world.annotations = {PROVIDER_ANNOTATION: "uid-a"}
    assert world.beat() == "ProviderChanged"
    mismatch = world.tie.find_mismatch()
    assert mismatch is not None
    assert "uid-a" in mismatch.message
    assert "--accept-provider=uid-b" in mismatch.message
    assert world.annotations == {PROVIDER_ANNOTATION: "uid-a"}


@pytest.mark.parametrize(("accepted", "has_pods"), [("uid-b", True), ("", False)])
def test_another_provider_is_taken_when_it_is_accepted_or_there_are_no_pods(accepted: str, *, has_pods: bool) -> None:
    world = World("uid-b", accepted=accepted, has_pods=has_pods)
    world.annotations = {PROVIDER_ANNOTATION: "uid-a"}
    assert world.beat() is None
    assert world.annotations == {PROVIDER_ANNOTATION: "uid-b"}


def test_another_provider_is_taken_when_somebody_removes_the_annotation() -> None:
    world = World("uid-b")
    world.annotations = {PROVIDER_ANNOTATION: "uid-a"}
    assert world.beat() == "ProviderChanged"
    world.annotations = {}
    assert world.beat() is None


def test_provider_is_remembered_when_the_node_is_deleted() -> None:
    world = World("uid-b")
    world.annotations = {PROVIDER_ANNOTATION: "uid-a"}
    assert world.beat() == "ProviderChanged"
    world.uid, world.annotations = "node-2", {}
    assert world.beat() == "ProviderChanged"
    assert world.annotations == {PROVIDER_ANNOTATION: "uid-a"}


def test_namespace_that_was_made_anew_is_not_trusted_in_the_middle_of_a_term() -> None:
    world = World()
    assert world.beat() is None
    world.identity = "uid-new"
    assert world.beat() == "ProviderChanged"


def test_provider_that_cannot_be_told_is_trusted_only_when_none_was_written_down() -> None:
    world = World("")
    assert world.beat() is None
    world.annotations = {PROVIDER_ANNOTATION: "uid-a"}
    assert world.beat() == "ProviderUnidentified"


def test_a_provider_without_an_identity_is_trusted() -> None:
    told: list[bool] = []
    tie = ProviderTie(None, accepted="", has_pods=lambda: True, on_changed=lambda: told.append(True))
    assert tie.find_mismatch() is None
    tie.note_node({"metadata": {"uid": "node-1"}})
    assert tie.find_annotation() is None
    assert told == [True]
