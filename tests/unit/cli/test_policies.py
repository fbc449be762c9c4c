from pathlib import Path

import pytest

from runyard.cli.findings import Failed
from runyard.cli.policies import LoadedPolicy, load_policy
from runyard.spec.kubernetes.quantity import Quantity


def load(tmp_path: Path, content: str | bytes) -> LoadedPolicy:
    file = tmp_path / "policy"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_policy(str(file))


def get_default(loaded: LoadedPolicy, field: str) -> object:
    return loaded.policy.scope.rules[field].default


@pytest.mark.parametrize(
    "text",
    [
        "K8S_RESOURCE_CPU_DEFAULT=100m\n",
        "\n# of Core\nexport K8S_RESOURCE_CPU_DEFAULT='100m'\n",
        'DEBUG=1\nK8S_RESOURCE_CPU_DEFAULT="100m"\r\n',
        "K8S_RESOURCE_CPU_DEFAULT: 100m\n",
        '{"K8S_RESOURCE_CPU_DEFAULT": "100m", "K8S_NAMESPACE": null}',
    ],
)
def test_settings_are_a_policy_when_the_file_has_digitalhubs_names(tmp_path: Path, text: str) -> None:
    loaded = load(tmp_path, text)
    assert loaded.is_settings
    assert get_default(loaded, "resources.cpu") == Quantity.parse("100m")


def test_values_are_as_written_when_settings_are_yaml(tmp_path: Path) -> None:
    loaded = load(tmp_path, "K8S_RESOURCE_MEM_TOLERATION: 1.10\nK8S_SEC_DISABLE_ROOT: true\nK8S_SEC_USER: 1000\n")
    assert str(loaded.policy.scope.platform.mem_tolerance) == "1.10"
    assert get_default(loaded, "run_as_user") == 1000


def test_own_form_is_read_when_the_file_is_no_settings(tmp_path: Path) -> None:
    loaded = load(tmp_path, "resources.mem: {default: 256Mi, max: 64Gi}\n")
    assert not loaded.is_settings
    assert get_default(loaded, "resources.mem") == Quantity.parse("256Mi")


def test_every_bad_setting_has_its_line_when_refused(tmp_path: Path) -> None:
    with pytest.raises(Failed) as caught:
        load(tmp_path, "# settings\nK8S_RESOURCE_CPU_DEFAULT=many\n\nexport K8S_SEC_USER=root\n")
    assert [error.place for error in caught.value.errors] == [(2, 26), (4, 21)]


def test_every_bad_rule_has_its_line_when_refused(tmp_path: Path) -> None:
    with pytest.raises(Failed) as caught:
        load(tmp_path, "resources.mem: {max: 64Gb}\nresources: {cpu: {most: 4}}\ntimeout: {max: soon}\n")
    assert [error.place and error.place[0] for error in caught.value.errors] == [1, 2, 3]


def test_doubts_have_their_places_when_a_policy_is_read(tmp_path: Path) -> None:
    text = "resources.mem: {max: 8Gi}\nprojects:\n  ai:\n    resources.mem:\n      max: 9Gi\n"
    (doubt,) = load(tmp_path, text).warnings
    assert (doubt.problem.code, doubt.place) == ("policy.idle", (5, 12))
    settings = "K8S_NAMESPACE=x\nK8S_SEC_USER=1\nK8S_SEC_USER=2\n"
    assert [(doubt.problem.code, doubt.place) for doubt in load(tmp_path, settings).warnings] == [
        ("setting.twice", (2, 14)),
        ("setting.elsewhere", (1, 15)),
    ]


def test_last_value_holds_when_a_setting_stands_twice(tmp_path: Path) -> None:
    assert get_default(load(tmp_path, "K8S_SEC_USER=1\nK8S_SEC_USER=2\n"), "run_as_user") == 2


@pytest.mark.parametrize("content", [b"\x00\xff\x00", b"- a\n", b"x: [", b"\xff\xfea"])
def test_problem_names_the_file_when_it_is_no_policy(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Failed) as caught:
        load(tmp_path, content)
    assert all(error.file == str(tmp_path / "policy") for error in caught.value.errors)
