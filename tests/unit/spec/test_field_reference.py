import pytest

from runyard.cli.field_help import format_example
from runyard.spec.field_reference import ROOT, FieldReference, get_field, list_fields
from runyard.spec.kubernetes.affinity import _AFFINITY
from runyard.spec.kubernetes.placement import _TOLERATION
from runyard.spec.problems import Refused
from runyard.spec.run_documents import IDENTITY, read_run_file
from runyard.spec.run_fields import ADMIN_FIELDS, USER_FIELDS, read_admin_fields
from runyard.spec.yaml.loader import load_document

FIELDS = [field for field in list_fields() if field.path]
NO_EXAMPLES = {("affinity", name) for name in _AFFINITY}
"""Kubernetes' own; `affinity` has an example."""


def name_of(field: FieldReference) -> str:
    return field.name


def test_every_field_of_the_models_is_documented_when_listed() -> None:
    names = {field.path[0] for field in FIELDS}
    assert {*USER_FIELDS, *ADMIN_FIELDS} <= names
    assert set(get_field(ROOT).subfields) == names
    admins = {field.path[0] for field in FIELDS if field.is_admins and len(field.path) == 1}
    assert admins == set(ADMIN_FIELDS) - set(USER_FIELDS)


@pytest.mark.parametrize("field", FIELDS, ids=name_of)
def test_every_field_has_words_for_people_when_shown(field: FieldReference) -> None:
    assert len(field.description.split()) >= 2
    assert field.description.endswith(".")
    assert field.type
    assert bool(field.examples) is (field.path not in NO_EXAMPLES)


@pytest.mark.parametrize("field", [field for field in FIELDS if field.examples], ids=name_of)
def test_every_example_is_accepted_when_it_is_pasted(field: FieldReference) -> None:
    for example in field.examples:
        document = load_document(format_example(field, example).encode()).data
        if field.is_admins:
            read = getattr(read_admin_fields(document), field.path[0])
        else:
            run = read_run_file(document)
            read = getattr(run if field.path[0] in IDENTITY else run.fields, field.path[0])
        assert read not in (None, (), {})


def test_kubernetes_fields_are_those_of_the_reader_when_described() -> None:
    assert set(get_field("tolerations").subfields) == set(_TOLERATION)
    assert set(get_field("affinity").subfields) == set(_AFFINITY)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nodeSelector", "node_selector"),
        ("volumes[0].spec.size", "volumes.spec.size"),
        ("volumes[].mountPath", "volumes.mount_path"),
        ("volumes.1.name", "volumes.name"),
        ("env", "envs"),
        ("resources.cpu.request", "resources.cpu.requests"),
        ("tolerations.toleration_seconds", "tolerations.tolerationSeconds"),
        ("topologySpreadConstraints", "topology_spread"),
    ],
)
def test_field_is_found_when_it_is_spelt_another_way(written: str, meant: str) -> None:
    assert get_field(written).name == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("volums", "volumes"),
        ("resources.memory", "resources.mem"),
        ("mem", "resources.mem"),
        ("volumes.size", "volumes.spec.size"),
        ("resouces.cpu", "resources.cpu"),
        ("affinity.nodeAffinity.required", "kubectl explain pod.spec.affinity.nodeAffinity.required"),
    ],
)
def test_nearest_field_is_proposed_when_the_name_is_unknown(written: str, meant: str) -> None:
    with pytest.raises(Refused) as refused:
        get_field(written)
    assert refused.value.problems[0].suggestion == meant


def test_policy_and_defaults_are_told_when_tables_have_them() -> None:
    assert get_field("volumes.spec.size").default == "2Gi"
    assert "max" in get_field("resources.mem").rules
    assert get_field("volumes.volume_type").rules == ("options", "allowed", "denied")
    assert get_field("command").rules == ()
