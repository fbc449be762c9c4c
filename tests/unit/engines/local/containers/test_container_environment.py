import pytest

from runyard.app.engine import EngineRefusal
from runyard.domain.reasons import Reason
from runyard.engines.local.containers.container_environment import (
    LONGEST_ENV_LINE,
    choose_variables,
    split_environment,
)


@pytest.mark.parametrize(
    "value", ["", "plain", "eyJhbGciOi.J9-_x", "postgres://u:p@h:5432/db?x=1&y=2", "two words", "*"]
)
def test_secret_is_a_line_of_the_file_when_every_runtime_reads_it_alike(value: str) -> None:
    split = split_environment({"TOKEN": value}, secret_names=frozenset({"TOKEN"}))
    assert (split.lines, split.arguments, split.inherited) == ([f"TOKEN={value}"], [], {})


@pytest.mark.parametrize(
    "value",
    ["a\nb", "'a'", '"a', "a#b", "a\\nb", "$HOME", "`a`", " a", "a ", "a\tb", "ä", "a\r", "x" * LONGEST_ENV_LINE],
)
def test_secret_is_handed_on_by_the_runtime_when_it_is_not_plain(value: str) -> None:
    split = split_environment({"TOKEN": value}, secret_names=frozenset({"TOKEN"}))
    assert (split.lines, split.arguments, split.inherited) == ([], ["--env", "TOKEN"], {"TOKEN": value})


def test_value_is_an_argument_when_it_is_neither_plain_nor_secret() -> None:
    split = split_environment({"LD_PRELOAD": "a\nb"}, secret_names=frozenset())
    assert (split.lines, split.arguments, split.inherited) == ([], ["--env", "LD_PRELOAD=a\nb"], {})


@pytest.mark.parametrize(
    "name",
    [
        *(
            "LD_PRELOAD",
            "PATH",
            "HOME",
            "https_proxy",
            "HTTP_PROXY",
            "CONTAINERS_CONF",
            "CONTAINER_HOST",
            "GODEBUG",
            "_X",
        ),
        *("XDG_RUNTIME_DIR", "DOCKER_HOST", "GLIBC_TUNABLES", "TMPDIR", "RUNYARD_SUPERVISION", "STORAGE_DRIVER"),
    ],
)
def test_secret_is_refused_when_it_could_steer_the_runtime(name: str) -> None:
    with pytest.raises(EngineRefusal, match=f"the secret {name} cannot be an environment variable") as refused:
        split_environment({name: "a\nb"}, secret_names=frozenset({name}))
    assert refused.value.code == Reason.SECRETS_EXPOSED
    assert "a\nb" not in str(refused.value)


def test_secret_never_reaches_the_runtimes_own_variables_when_its_name_could_steer_it() -> None:
    split = split_environment({"PATH": "/evil"}, secret_names=frozenset({"PATH"}))
    assert (split.lines, split.inherited) == (["PATH=/evil"], {})


def test_everything_is_kept_when_variables_stay_in_memory() -> None:
    env = {"A": "1", "RUNYARD_TOKEN": "t"}
    warnings: list[str] = []
    assert choose_variables(env, secret_names=frozenset({"RUNYARD_TOKEN"}), exposure=None, warnings=warnings) == env
    assert warnings == []


def test_token_is_left_out_and_said_when_variables_reach_the_disk() -> None:
    env = {"A": "1", "RUNYARD_TOKEN": "t", "DHCORE_ACCESS_TOKEN": "t"}
    warnings: list[str] = []
    secret = frozenset({"RUNYARD_TOKEN", "DHCORE_ACCESS_TOKEN"})
    exposure = "docker's daemon writes them to its disk"
    kept = choose_variables(env, secret_names=secret, exposure=exposure, warnings=warnings)
    assert kept == {"A": "1"}
    assert warnings == [f"DHCORE_ACCESS_TOKEN, RUNYARD_TOKEN: left out, because variables are not private: {exposure}"]


def test_run_is_refused_when_its_secrets_would_reach_the_disk() -> None:
    with pytest.raises(EngineRefusal) as refused:
        choose_variables({"KEY": "v4lue"}, secret_names=frozenset({"KEY"}), exposure="it writes them", warnings=[])
    assert refused.value.code == Reason.SECRETS_EXPOSED
    assert str(refused.value) == (
        "secrets as environment variables (KEY) would be written to disk in clear: it writes them; "
        "give each a `mount_path`, so that it is a file in memory"
    )
