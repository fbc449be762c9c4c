"""Names: legal for every id, and never the same for two."""

import itertools

from hypothesis import assume, example, given
from hypothesis import strategies as st

from runyard.manifests import names
from runyard.manifests.metadata import to_label_value
from runyard.spec.names import check_dns_1035_label, check_dns_label, check_dns_subdomain, check_label_value

legal_ids = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789._+-", min_size=1, max_size=256)
volumes = st.text("ab-1", min_size=1, max_size=63).filter(lambda name: check_dns_label(name) is None)
anything = st.text(max_size=300)
# Few letters and short texts meet often: ids that are nearly the same, and joins that can be cut in two places.
near_ids = st.text("aAx-.", min_size=1, max_size=6)
near_parts = st.text("a-B", min_size=1, max_size=5)


def imitations(run_id: str) -> list[str]:
    """Ids that somebody would choose to get another run's names."""
    made = [
        names.run_name(run_id),
        to_label_value(run_id),
        names.secret_name(run_id),
        names.claim_name(run_id, volume="v"),
    ]
    stems = [name.removeprefix(prefix) for name in made for prefix in ("run-", "runx-", "")]
    return [*stems, run_id.lower(), run_id.upper(), f"{run_id}-secrets", run_id.replace("_", "-"), f"x-{run_id}"]


@given(legal_ids | anything)
@example("a" * 40)
@example("a" * 49)
@example("a" * 63)
@example("---")
@example("ſtraße.İ")
@example("\ud800")
def test_every_name_is_legal_when_the_id_is_anything(run_id: str) -> None:
    name = names.run_name(run_id)
    assert check_dns_1035_label(name) is None
    assert len(name) <= names.MOST_RUN_NAME_CHARACTERS
    assert check_dns_1035_label(names.service_name(run_id)) is None
    assert check_dns_subdomain(names.secret_name(run_id)) is None
    for volume in ("v", "v" * 63, run_id):
        assert check_dns_subdomain(names.claim_name(run_id, volume=volume)) is None
        assert check_dns_subdomain(names.config_map_name(run_id, volume=volume)) is None
    assert check_label_value(to_label_value(run_id)) is None


def test_name_is_the_id_when_the_id_is_a_short_dns_label() -> None:
    assert names.run_name("8f14e45fceea167a5a36dedd4bea2543") == "run-8f14e45fceea167a5a36dedd4bea2543"
    assert names.claim_name("a", volume="data") == "run-a.data"
    assert names.secret_name("a") == "run-a-secrets"
    assert names.service_name("a") == "run-a"


def test_name_is_readable_and_hashed_when_the_id_is_not_a_label() -> None:
    name = names.run_name("My_Run.1")
    assert name.startswith("runx-my-run-1-")
    assert name == names.run_name("My_Run.1")
    assert names.run_name("a" * 40) == f"run-{'a' * 40}"
    assert names.run_name("a" * 41).startswith(f"runx-{'a' * 20}")
    assert len({names.run_name(text) for text in ("My_Run.1", "my-run-1", "my_run.1", "MY-RUN-1")}) == 4


@given(legal_ids | near_ids, legal_ids | near_ids)
def test_names_differ_when_ids_differ(one: str, other: str) -> None:
    assume(one != other)
    for make in (names.run_name, names.secret_name, names.service_name, to_label_value):
        assert make(one) != make(other)


@given(legal_ids | near_ids)
@example("A")
@example("a" * 64)
def test_names_differ_when_an_id_imitates_anothers_name(run_id: str) -> None:
    for other in imitations(run_id):
        if other != run_id:
            assert names.run_name(other) != names.run_name(run_id)
            assert to_label_value(other) != to_label_value(run_id)


@given(near_ids | legal_ids, volumes | near_parts, near_ids | legal_ids, volumes | near_parts)
@example("a", "b-c", "a-b", "c")
@example("a", "b", "A", "b")
def test_claims_differ_when_run_or_volume_differ(one: str, volume: str, other: str, other_volume: str) -> None:
    assume((one, volume) != (other, other_volume))
    assert names.claim_name(one, volume=volume) != names.claim_name(other, volume=other_volume)


def test_claims_differ_when_every_short_run_and_volume_is_paired() -> None:
    texts = ["".join(letters) for size in (1, 2, 3, 4) for letters in itertools.product("ab-", repeat=size)]
    pairs = list(itertools.product(texts, texts))
    assert len({names.claim_name(run_id, volume=volume) for run_id, volume in pairs}) == len(pairs)


def test_volume_cannot_be_named_to_imitate_a_hashed_one() -> None:
    hashed = names.claim_name("r", volume="Odd")
    for cut in (hashed.removeprefix("run-r."), hashed.removeprefix("run-r.").removesuffix(".x")):
        assert names.claim_name("r", volume=cut) != hashed


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
    assert names.alias_name(project, function=None, service=service) != names.service_name(run_id)


def test_label_value_is_the_text_when_it_is_legal() -> None:
    for text in ("", "vision", "My_Run.1", "a" * 63):
        assert to_label_value(text) == text


def test_label_value_is_hashed_when_it_is_illegal_or_looks_hashed() -> None:
    value = to_label_value("ada@example.com")
    assert value.startswith("ada-example.com-x")
    assert to_label_value(value) != value
    assert len(to_label_value("é" * 300)) <= 63
