"""Names: legal for every id and uid, and never the same for two uids."""

import itertools

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from runyard.manifests import names
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import to_label_value
from runyard.spec.names import check_dns_1035_label, check_dns_label, check_dns_subdomain, check_label_value

legal_ids = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789._+-", min_size=1, max_size=256)
volumes = st.text("ab-1", min_size=1, max_size=63).filter(lambda name: check_dns_label(name) is None)
anything = st.text(max_size=300)
# Few letters and short texts meet often: ids that are nearly the same, and joins that can be cut in two places.
near_ids = st.text("aAx-.", min_size=1, max_size=6)
near_parts = st.text("a-B", min_size=1, max_size=5)


def identify(run_id: str, run_uid: str = "u1") -> RunIdentity:
    return RunIdentity(run_id=run_id, run_uid=run_uid, project="p")


def imitations(text: str) -> list[str]:
    """Texts that somebody would choose to get another's label."""
    return [to_label_value(text), text.lower(), text.upper(), text.replace("_", "-"), f"x-{text}"]


@given(legal_ids | anything, legal_ids | anything)
@example("a" * 31, "u1")
@example("a" * 32, "u1")
@example("a" * 33, "u1")
@example("---", "---")
@example("ſtraße.İ", "ſtraße.İ")
@example("\ud800", "\ud800")
def test_every_name_is_legal_when_id_and_uid_are_anything(run_id: str, run_uid: str) -> None:
    identity = identify(run_id, run_uid)
    name = names.run_name(identity)
    assert check_dns_1035_label(name) is None
    assert len(name) <= names.MOST_RUN_NAME_CHARACTERS
    assert check_dns_1035_label(names.service_name(identity)) is None
    assert check_dns_subdomain(names.secret_name(identity)) is None
    for volume in ("v", "v" * 63, run_id):
        assert check_dns_subdomain(names.claim_name(identity, volume=volume)) is None
        assert check_dns_subdomain(names.config_map_name(identity, volume=volume)) is None
    assert check_label_value(to_label_value(run_id)) is None


def test_name_has_the_id_and_a_hash_of_the_uid_when_both_are_plain() -> None:
    identity = identify("8f14e45fceea167a5a36dedd4bea2543")
    assert names.run_name(identity) == "run-8f14e45fceea167a5a36dedd4bea2543-bb82030dbc2bcab"
    assert names.claim_name(identify("a"), volume="data") == "run-a-bb82030dbc2bcab.data"
    assert names.secret_name(identify("a")) == "run-a-bb82030dbc2bcab-secrets"
    assert names.service_name(identify("a")) == "run-a-bb82030dbc2bcab"


@pytest.mark.parametrize(
    ("run_id", "slug"), [("My_Run.1", "my-run-1-"), ("a" * 40, f"{'a' * 32}-"), ("-", ""), ("\N{SNOWMAN}", "")]
)
def test_name_has_what_is_legal_of_the_id_when_the_id_is_not_a_label(run_id: str, slug: str) -> None:
    assert names.run_name(identify(run_id)) == f"run-{slug}bb82030dbc2bcab"


@given(legal_ids | near_ids, legal_ids | near_ids, legal_ids | near_ids)
def test_names_differ_when_uids_differ_whatever_the_ids_are(run_id: str, one: str, other: str) -> None:
    assume(one != other)
    for make in (names.run_name, names.secret_name, names.service_name):
        made = make(identify(run_id, one))
        assert made != make(identify(run_id, other))
        assert made != make(identify(made.removeprefix("run-"), other))
    assert to_label_value(one) != to_label_value(other)


@given(legal_ids | near_ids)
@example("A")
@example("a" * 64)
def test_labels_differ_when_a_text_imitates_anothers_label(text: str) -> None:
    for other in imitations(text):
        if other != text:
            assert to_label_value(other) != to_label_value(text)


@given(near_ids | legal_ids, volumes | near_parts, near_ids | legal_ids, volumes | near_parts)
@example("a", "b-c", "a-b", "c")
@example("a", "b", "A", "b")
def test_claims_differ_when_uid_or_volume_differ(one: str, volume: str, other: str, other_volume: str) -> None:
    assume((one, volume) != (other, other_volume))
    made = [names.claim_name(identify("r", uid), volume=name) for uid, name in ((one, volume), (other, other_volume))]
    assert made[0] != made[1]


def test_claims_differ_when_every_short_run_and_volume_is_paired() -> None:
    texts = ["".join(letters) for size in (1, 2, 3, 4) for letters in itertools.product("ab-", repeat=size)]
    pairs = list(itertools.product(texts, texts))
    assert len({names.claim_name(identify(uid, uid), volume=volume) for uid, volume in pairs}) == len(pairs)


def test_claim_cannot_be_a_secret_or_workload_of_another_run_when_its_volume_is_named_so() -> None:
    claim = names.claim_name(identify("r"), volume="secrets")
    assert claim != names.secret_name(identify("r"))
    assert claim.count(".") == 1


def test_volume_cannot_be_named_to_imitate_a_hashed_one() -> None:
    hashed = names.claim_name(identify("r"), volume="Odd")
    _, _, volume = hashed.partition(".")
    for cut in (volume, volume.removesuffix(".x")):
        assert names.claim_name(identify("r"), volume=cut) != hashed


def test_alias_is_readable_when_its_parts_are_labels() -> None:
    assert names.alias_name("vision", function="detector", service="main") == "svc-vision--detector--main"
    assert names.alias_name("vision", function=None, service="main") == "svc-vision--main"


@given(*[near_parts, st.none() | near_parts, near_parts] * 2)
@example("a", "b-c", "d", "a-b", "c", "d")
@example("a", "b--c", "d", "a--b", "c", "d")
@example("a", None, "b--c", "a", "b", "c")
def test_aliases_differ_when_any_part_differs(
    project: str, function: str | None, service: str, project2: str, function2: str | None, service2: str
) -> None:
    assume((project, function, service) != (project2, function2, service2))
    one = names.alias_name(project, function=function, service=service)
    assert one != names.alias_name(project2, function=function2, service=service2)


def test_aliases_differ_when_every_short_triple_is_tried() -> None:
    texts = ["".join(letters) for size in (1, 2, 3) for letters in itertools.product("a-", repeat=size)]
    triples = list(itertools.product(texts, [None, *texts], texts))
    made = {names.alias_name(project, function=function, service=service) for project, function, service in triples}
    assert len(made) == len(triples)


@given(anything, st.none() | anything, anything)
@example("p" * 38, "f" * 256, "s" * 63)
def test_alias_is_legal_when_its_parts_are_anything(project: str, function: str | None, service: str) -> None:
    assert check_dns_1035_label(names.alias_name(project, function=function, service=service)) is None


@given(legal_ids, st.text("ab-", min_size=1, max_size=20), st.text("ab-", min_size=1, max_size=20))
def test_alias_is_never_a_runs_service_when_both_are_in_one_namespace(run_id: str, project: str, service: str) -> None:
    assert names.alias_name(project, function=None, service=service) != names.service_name(identify(run_id))


def test_label_value_is_the_text_when_it_is_legal() -> None:
    for text in ("", "vision", "My_Run.1", "a" * 63):
        assert to_label_value(text) == text


def test_label_value_is_hashed_when_it_is_illegal_or_looks_hashed() -> None:
    value = to_label_value("ada@example.com")
    assert value.startswith("ada-example.com-x")
    assert to_label_value(value) != value
    assert len(to_label_value("é" * 300)) <= 63


@given(run_id=anything, run_uid=anything, volume=volumes)
def test_run_is_known_by_the_names_of_its_objects_when_controllers_add_to_them(
    run_id: str, run_uid: str, volume: str
) -> None:
    identity = identify(run_id, run_uid)
    name = names.run_name(identity)
    own = [name, f"{name}-x7k2p", f"{name}-7c9c4b8c99", f"{name}-7c9c4b8c99-x7k2p"]
    for each in [*own, names.claim_name(identity, volume=volume), names.secret_name(identity)]:
        assert names.find_run_name(each) == name


@pytest.mark.parametrize("name", ["", "run", "run-", "web-7c9c4b8c99", "run-a-0123456789abcd", "x-run-0123456789abcde"])
def test_no_run_is_known_when_a_name_is_a_stranger_s(name: str) -> None:
    assert names.find_run_name(name) is None
