"""What the store holds after any sequence of writes, and what it says has changed."""

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from runyard.kube.errors import Malformed
from runyard.kube.resources import CONFIG_MAPS, NODES
from runyard.kube.store import StoreLimits, WritableStore, is_older
from runyard.kube.views import Key, Metadata, View, build_lens


class Labelled(Metadata, frozen=True):
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class Thing(View, frozen=True):
    metadata: Labelled


def build_store(**indexes: Any) -> WritableStore[Thing]:
    return WritableStore(build_lens(Thing, resource=CONFIG_MAPS), indexes=indexes)


def build_dictionary_store() -> WritableStore[dict[str, Any]]:
    return WritableStore(build_lens(dict, resource=CONFIG_MAPS))


def thing(name: str, version: str = "1", *, uid: str = "u", namespace: str = "n", **labels: str) -> Thing:
    return Thing(Labelled(name, namespace, uid, version, labels))


def stage(store: WritableStore[Thing], *views: Thing) -> dict[Key, Thing]:
    staged: dict[Key, Thing] = {}
    for view in views:
        store.stage(staged, view)
    return staged


def by_label(view: Thing) -> list[str]:
    return sorted(view.metadata.labels.values())


A = Key("n", "a")


def test_key_is_reported_once_when_the_same_state_comes_twice() -> None:
    store = build_store()

    assert [store.upsert(thing("a", "5")), store.upsert(thing("a", "5"))] == [A, None]


def test_every_state_is_news_when_the_server_gives_no_versions() -> None:
    store = build_store(label=by_label)
    store.upsert(thing("a", "", x="red"))

    assert store.upsert(thing("a", "", x="blue")) == A
    assert store.replace(stage(store, thing("a", "", x="green"))) == [A]
    assert store.index_values("label") == ["green"]


@pytest.mark.parametrize(("older", "newer"), [("5", "6"), ("9", "10"), ("99", "18446744073709551616")])
def test_state_does_not_go_back_when_an_older_event_comes(older: str, newer: str) -> None:
    store = build_store()
    store.upsert(thing("a", newer))

    assert store.upsert(thing("a", older)) is None
    assert store.version(A) == newer


def test_order_of_delivery_decides_when_versions_are_not_numbers() -> None:
    store = build_store()
    store.upsert(thing("a", "zzz"))

    assert store.upsert(thing("a", "aaa")) == A
    assert store.version(A) == "aaa"


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        ("1", "2", True),
        ("2", "1", False),
        ("2", "2", False),
        ("10", "9", False),
        ("9", "10", True),
        ("", "1", False),
        ("01", "2", False),
        ("1", "x", False),
        ("-1", "2", False),
        ("²", "3", False),
        ("0", "1", False),
    ],
)
def test_version_is_older_only_when_both_are_plain_decimals(version: str, than: str, expected: bool) -> None:
    assert is_older(version, than=than) is expected


def test_new_object_takes_the_name_when_the_uid_changed() -> None:
    store = build_store()
    store.upsert(thing("a", "5", uid="old"))

    assert store.upsert(thing("a", "8", uid="new")) == A
    assert store.find(A, uid="old") is None
    assert store.find(A, uid="new") is store.find(A)


def test_new_object_takes_the_name_when_even_the_version_is_the_same() -> None:
    store = build_store()
    store.upsert(thing("a", "5", uid="old"))

    assert store.upsert(thing("a", "5", uid="new")) == A
    assert store.replace(stage(store, thing("a", "5", uid="newest"))) == [A]
    assert store.find(A, uid="newest") is not None


def test_object_stays_when_its_predecessor_is_deleted_late() -> None:
    store = build_store()
    store.upsert(thing("a", "8", uid="new"))

    assert store.remove(thing("a", "7", uid="old")) is None
    assert store.find(A, uid="new") is not None


def test_object_goes_when_its_successor_is_deleted() -> None:
    store = build_store()
    store.upsert(thing("a", "5", uid="old"))

    assert store.remove(thing("a", "9", uid="new")) == A
    assert A not in store


def test_deletion_counts_when_its_version_looks_older() -> None:
    store = build_store()
    store.upsert(thing("a", "8"))

    assert store.remove(thing("a", "7")) == A
    assert store.remove(thing("a", "7")) is None
    assert len(store) == 0


def test_list_reports_the_difference_when_events_were_missed() -> None:
    store = build_store()
    for name in ("kept", "changed", "deleted", "replaced"):
        store.upsert(thing(name, "3", uid=f"{name}-1"))
    kept = store.find(("n", "kept"))

    changed = store.replace(
        stage(
            store,
            thing("kept", "3", uid="kept-1"),
            thing("changed", "7", uid="changed-1"),
            thing("replaced", "8", uid="replaced-2"),
            thing("added", "9", uid="added-1"),
        )
    )

    assert Counter(key.name for key in changed) == Counter(["changed", "deleted", "replaced", "added"])
    assert store.find(("n", "kept")) is kept
    assert store.find(("n", "replaced"), uid="replaced-2") is not None
    assert sorted(key.name for key in store) == ["added", "changed", "kept", "replaced"]


def test_list_is_believed_when_it_is_older_than_what_is_held() -> None:
    store = build_store()
    store.upsert(thing("a", "100"))

    assert store.replace(stage(store, thing("a", "40"))) == [A]
    assert store.version(A) == "40"


def test_store_is_untouched_when_a_list_is_only_staged() -> None:
    store = build_store()
    store.upsert(thing("a", "1"))

    stage(store, thing("b", "2"))

    assert list(store) == [A]


def test_answers_are_snapshots_when_the_store_changes_later() -> None:
    store = build_store(label=by_label)
    store.upsert(thing("a", "1", x="red"))
    answers = (list(store), store.views(), store.items(), store.find_by_index("label", "red"))

    store.upsert(thing("b", "2", x="red"))

    assert [len(answer) for answer in answers] == [1, 1, 1, 1]


def test_index_equals_a_full_scan_when_writes_are_random() -> None:
    seed = random.Random(7)
    store = build_store(label=by_label, name=lambda view: [view.metadata.name])
    labels = ("red", "green", "blue")
    for version in range(1, 3000):
        chosen = {str(i): seed.choice(labels) for i in range(seed.randrange(3))}
        view = thing(f"x{seed.randrange(12)}", str(version), uid=str(seed.randrange(3)), **chosen)
        match seed.randrange(20):
            case 0:
                store.replace(stage(store, *seed.sample(store.views(), len(store) // 2), view))
            case 1 | 2 | 3 | 4 | 5:
                store.remove(view)
            case _:
                store.upsert(view)

        expected = {label: {key for key, held in store.items() if label in by_label(held)} for label in labels}
        found = {label: set(store.find_keys_by_index("label", label)) for label in labels}
        assert found == expected
        assert set(store.index_values("label")) == {label for label, keys in expected.items() if keys}
        assert set(store.index_values("name")) == {key.name for key in store}
        for label in labels:
            assert all(label in by_label(held) for held in store.find_by_index("label", label))


def test_store_is_untouched_when_an_index_function_raises() -> None:
    def only_blue(view: Thing) -> list[str]:
        if "red" in view.metadata.labels.values():
            raise ValueError("red is not allowed")
        return by_label(view)

    store = build_store(first=by_label, second=only_blue)
    store.upsert(thing("a", "1", x="blue"))

    with pytest.raises(ValueError, match="red is not allowed"):
        store.upsert(thing("a", "2", x="red"))

    assert store.version(A) == "1"
    assert store.index_values("first") == ["blue"]


def test_index_refuses_when_its_function_returns_a_bare_string() -> None:
    store = build_store(label=lambda view: view.metadata.name)

    with pytest.raises(TypeError, match="bare string 'a'"):
        store.upsert(thing("a"))


def test_unknown_index_is_an_error_when_asked() -> None:
    with pytest.raises(KeyError):
        build_store().find_by_index("nope", "x")


def test_strings_are_shared_when_objects_have_the_same_namespace_and_name() -> None:
    store = build_store()
    for index in range(3):
        store.upsert(msgspec.json.decode(msgspec.json.encode(thing(f"x{index}", namespace="shared")), type=Thing))
    store.upsert(msgspec.json.decode(msgspec.json.encode(thing("x0", "2", namespace="shared")), type=Thing))

    assert len({id(view.metadata.namespace) for view in store.views()}) == 1
    for key, view in store.items():
        assert key.namespace is view.metadata.namespace
        assert key.name is view.metadata.name


def test_dictionary_is_complete_when_it_came_from_a_list() -> None:
    store = build_dictionary_store()
    listed: dict[str, Any] = {"metadata": {"name": "a", "namespace": "n", "managedFields": [1]}, "data": {"k": "v"}}

    store.upsert(listed)

    assert store.find(A) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "n"},
        "data": {"k": "v"},
    }


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"metadata": None},
        {"metadata": {}},
        {"metadata": {"name": 3}},
        {"metadata": {"name": "a", "namespace": 3}},
        {"metadata": {"name": "a", "uid": None}},
        {"metadata": {"name": "a", "resourceVersion": 3}},
    ],
)
def test_dictionary_is_malformed_when_it_has_no_identity(broken: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        build_dictionary_store().upsert(broken)


def test_key_has_no_namespace_when_the_object_is_cluster_scoped() -> None:
    store: WritableStore[dict[str, Any]] = WritableStore(build_lens(dict, resource=NODES))

    assert store.upsert({"metadata": {"name": "node-1"}}) == ("", "node-1")
    assert [str(key) for key in store] == ["node-1"]
    assert str(A) == "n/a"


def test_view_is_refused_when_it_is_neither_a_dictionary_nor_a_view() -> None:
    with pytest.raises(TypeError, match="subclass of"):
        build_lens(list, resource=NODES)


def graves(store: WritableStore[Thing]) -> list[tuple[str, str, str, bool]]:
    """Name, uid, version and finality of each last state."""
    return [
        (key.name, each.view.metadata.uid, each.view.metadata.resource_version, each.is_final)
        for key, each in store.take_tombstones()
    ]


def test_final_state_is_kept_when_an_object_is_removed() -> None:
    store = build_store()
    store.upsert(thing("a", "5"))
    store.remove(thing("a", "9"))

    assert graves(store) == [("a", "u", "9", True)]
    assert graves(store) == []


def test_last_known_state_is_kept_when_the_deletion_was_missed() -> None:
    store = build_store()
    store.upsert(thing("a", "5"))
    store.upsert(thing("b", "6", uid="old"))
    store.upsert(thing("c", "7", uid="old"))
    store.upsert(thing("b", "8", uid="new"))
    store.replace(stage(store, thing("b", "8", uid="new"), thing("c", "9", uid="new")))

    assert graves(store) == [("b", "old", "6", False), ("a", "u", "5", False), ("c", "old", "7", False)]


def test_both_last_states_are_kept_when_a_successor_that_was_never_seen_is_deleted() -> None:
    store = build_store()
    store.upsert(thing("a", "5", uid="old"))
    store.remove(thing("a", "9", uid="new"))

    assert graves(store) == [("a", "old", "5", False), ("a", "new", "9", True)]


def test_no_last_state_is_kept_when_nothing_was_dropped() -> None:
    store = build_store()
    store.upsert(thing("a", "5"))
    store.upsert(thing("a", "6"))
    store.remove(thing("b", "7"))
    store.upsert(thing("c", "9", uid="new"))
    store.remove(thing("c", "8", uid="old"))
    store.replace(stage(store, thing("a", "6"), thing("c", "9", uid="new")))

    assert graves(store) == []


def build_limited_store(*, most: int, most_per_value: int = 100) -> WritableStore[Thing]:
    """Holds what has a label."""
    limits: StoreLimits[Thing] = StoreLimits(
        holds=lambda view: bool(view.metadata.labels), index="label", most_per_value=most_per_value, most=most
    )
    return WritableStore(build_lens(Thing, resource=CONFIG_MAPS), indexes={"label": by_label}, limits=limits)


def test_object_is_not_held_when_the_limits_leave_it_out() -> None:
    store = build_limited_store(most=10)
    assert store.upsert(thing("a")) is None
    assert stage(store, thing("a")) == {}
    assert store.upsert(thing("a", x="red")) == A
    assert store.remove(thing("b")) is None
    assert list(store) == [A]


def test_newest_of_each_value_are_held_when_there_are_too_many() -> None:
    store = build_limited_store(most=10, most_per_value=2)
    for version in ("9", "11", "10", "8"):
        store.upsert(thing(f"red-{version}", version, x="red"))
    store.upsert(thing("blue", "1", x="blue"))
    assert sorted(key.name for key in store) == ["blue", "red-10", "red-11"]
    assert store.take_tombstones() == []
    store.upsert(thing("red-8", "12", x="red"))
    assert sorted(key.name for key in store.find_keys_by_index("label", "red")) == ["red-11", "red-8"]


def test_latest_are_held_when_there_are_too_many_in_all() -> None:
    store = build_limited_store(most=3)
    for number in range(6):
        store.upsert(thing(f"t{number}", str(number + 1), x=f"l{number}"))
        if number >= 2:
            store.upsert(thing("t2", str(100 + number), x="l2"))
    assert [key.name for key in store] == ["t4", "t5", "t2"]
    staged = stage(store, *(thing(f"s{number}", "1", x="l") for number in range(5)))
    assert [key.name for key in staged] == ["s2", "s3", "s4"]
    store.replace(staged)
    assert sorted(key.name for key in store) == ["s2", "s3", "s4"]
    assert store.index_values("label") == ["l"]
