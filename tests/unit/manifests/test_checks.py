"""What cannot be rendered is refused, all at once."""

from typing import Any

import pytest

from runyard.domain.effective_spec import Disk, EffectiveSpec
from runyard.manifests.render import render_anchor, render_dependents, render_run
from runyard.spec.environment import SecretUse
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problems import Problem, Refused
from tests.unit.manifests.samples import IDENTITY, OWNER, SPECS, make_spec, make_volume


def find_problems(spec: EffectiveSpec, **values: str) -> tuple[Problem, ...]:
    with pytest.raises(Refused) as refused:
        render_run(spec, IDENTITY, secret_values=values)
    return refused.value.problems


@pytest.mark.parametrize(
    ("fields", "code", "where"),
    [
        ({"action": "build"}, "run.not_run", "action"),
        ({"kind": "python", "command": ["python"], "action": "deploy"}, "run.not_run", "action"),
        ({"image": None}, "field.missing", "image"),
        ({"image": ""}, "field.missing", "image"),
        ({"kind": "python", "args": ["x"]}, "launcher.missing", "command"),
        ({"run_as_user": 0}, "identity.root", "run_as_user"),
        ({"run_as_group": 0}, "identity.root", "run_as_group"),
        ({"fs_group": -1}, "identity.root", "fs_group"),
        ({"gpu": 1}, "gpu.resource", "resources.gpu"),
        ({"action": "serve", "service_type": "ExternalName"}, "service_type.unsupported", "service_type"),
        ({"volumes": [make_volume("persistent_volume_claim")]}, "field.missing", "volumes[0].spec.size"),
        ({"volumes": [make_volume("ephemeral")]}, "field.missing", "volumes[0].spec.size"),
        ({"volumes": [make_volume("shared_volume")]}, "field.missing", "volumes[0].spec.claim_name"),
        ({"volumes": [make_volume("image")]}, "field.missing", "volumes[0].spec.image"),
        ({"volumes": [make_volume("config_map")]}, "field.missing", "volumes[0].spec.data"),
        ({"secrets": [SecretUse(name="TOKEN")]}, "secrets.missing", "secrets[0]"),
    ],
)
def test_run_is_refused_when_it_lacks_what_it_needs(fields: dict[str, Any], code: str, where: str) -> None:
    (problem,) = find_problems(make_spec(**fields))
    assert (problem.code, problem.where) == (code, where)


def test_run_is_refused_when_two_things_are_mounted_at_one_path() -> None:
    volumes = [make_volume("empty_dir", mount_path="/shared"), make_volume("empty_dir", name="b", mount_path="/b")]
    disk = Disk(size=Quantity.parse("1Gi"))
    spec = make_spec(disk=disk, volumes=volumes, secrets=[SecretUse(name="s", mount_path="/b")])
    problems = find_problems(spec, s="x")
    assert [problem.where for problem in problems] == ["volumes[0].mount_path", "secrets[0].mount_path"]
    assert {problem.code for problem in problems} == {"mount_path.twice"}


def test_run_is_refused_when_a_variable_has_two_values() -> None:
    (problem,) = find_problems(make_spec(envs={"A": "1"}, secrets=[SecretUse(name="A")]), A="2")
    assert problem.code == "secrets.env_twice"
    file = make_spec(envs={"A": "1"}, secrets=[SecretUse(name="A", mount_path="/a")])
    assert render_run(file, IDENTITY, secret_values={"A": "2"})


def test_run_is_refused_when_a_secret_cannot_be_a_key_or_is_too_large() -> None:
    (name,) = find_problems(make_spec(secrets=[SecretUse(name="a+b")]), **{"a+b": "1"})
    assert name.code == "secrets.name"
    (size,) = find_problems(make_spec(secrets=[SecretUse(name="A")]), A="ü" * 600_000)
    assert size.code == "size.bytes"


def test_run_is_rendered_when_the_value_of_its_secret_is_empty() -> None:
    spec = make_spec(secrets=[SecretUse(name="A"), SecretUse(name="B", mount_path="/b")])
    secret, _ = render_run(spec, IDENTITY, secret_values={"A": "", "B": ""})
    assert secret["data"] == {"A": "", "B": ""}


def test_every_problem_is_told_when_there_are_several() -> None:
    spec = make_spec(kind="python", action="build", image=None, gpu=1, secrets=[SecretUse(name="TOKEN")])
    assert {problem.where for problem in find_problems(spec)} == {
        "action",
        "image",
        "command",
        "resources.gpu",
        "secrets[0]",
    }


def test_values_are_not_told_when_a_run_is_refused() -> None:
    spec = make_spec(image=None, secrets=[SecretUse(name="A"), SecretUse(name="B")])
    assert "s3cret" not in str(find_problems(spec, A="s3cret"))


def test_anchor_and_dependents_are_refused_when_the_run_is() -> None:
    with pytest.raises(Refused):
        render_anchor(make_spec(image=None), IDENTITY)
    with pytest.raises(Refused):
        render_dependents(make_spec(image=None), IDENTITY, owner=OWNER, secret_values={})


def test_anchor_needs_no_values_when_the_run_has_secrets() -> None:
    assert render_anchor(SPECS["secret variable"], IDENTITY)["kind"] == "Job"
    with pytest.raises(Refused):
        render_dependents(SPECS["secret variable"], IDENTITY, owner=OWNER, secret_values={})
