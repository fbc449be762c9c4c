from pathlib import Path

import pytest

from tests.unit.cli.conftest import Call

USAGE = "Usage: runyard explain [OPTIONS] [FIELD]\nTry `runyard explain --help` for help.\n\n"
WRONG_USES = {
    ("explain",): "missing: -f FILE, or the FIELD to document, such as `resources.mem`",
    ("explain", "train.yaml"): "unexpected argument `train.yaml`; did you mean `-f train.yaml`?",
    ("explain", "--project", "demo", "train.yaml"): "unexpected argument `train.yaml`; did you mean `-f train.yaml`?",
    ("explain", "-f", "-", "train.yaml"): "unexpected argument `train.yaml`: set either -f FILE or a FIELD",
    ("explain", "-f", "nowhere.yaml"): "invalid value for `-f` / `--file`: file `nowhere.yaml` does not exist",
    ("explain", "-f", "-", "--action", "sreve"): (
        "invalid value for `--action`: `sreve` is not one of `job`, `serve`, `deploy`; did you mean `serve`?"
    ),
    ("explain", "-f", "-", "--action", "x"): "invalid value for `--action`: `x` is not one of `job`, `serve`, `deploy`",
    (
        "explain",
        "-f",
        "-",
        "--projct",
        "x",
    ): "no such option `--projct`; did you mean `--project`?",
    ("explain", "-f", "-", "--actio", "x"): "no such option `--actio`; did you mean `--action`?",
}


@pytest.mark.parametrize(("words", "message"), WRONG_USES.items())
def test_error_has_one_form_when_click_refuses_the_words(call: Call, words: tuple[str, ...], message: str) -> None:
    called = call(*words)
    assert (called.code, called.out, called.err) == (2, "", f"{USAGE}error: {message}\n")


def test_nearest_file_is_proposed_when_one_does_not_exist(call: Call, folder: Path) -> None:
    assert call("explain", "-f", "runn.yaml").err.endswith(
        "file `runn.yaml` does not exist; did you mean `run.yaml`?\n"
    )
    assert call("policy", "check", "./profiles/a10.yaml").err.endswith("; did you mean `./profiles/a100.yaml`?\n")
    assert call("policy", "check", "nowhere/a10.yaml").err.endswith("file `nowhere/a10.yaml` does not exist\n")


def test_argument_is_named_without_brackets_when_its_value_is_unknown(call: Call) -> None:
    assert "invalid value for `KIND`: `runfile` is not one of " in call("schema", "runfile").err


def test_option_is_suggested_when_render_gets_its_file_as_an_argument(call: Call) -> None:
    assert call("render", "train.yaml").err.endswith(
        "error: unexpected argument `train.yaml`; did you mean `-f train.yaml`?\n"
    )


def test_control_characters_are_escaped_when_an_argument_has_them(call: Call) -> None:
    assert "`\\x1b[31m`" in call("explain", "\x1b[31m").err
