import pytest

from tests.unit.cli.conftest import Call

USAGE = "Usage: runyard explain [OPTIONS]\nTry `runyard explain --help` for help.\n\n"
WRONG_USES = {
    ("explain",): "missing option `-f` / `--file`",
    ("explain", "train.yaml"): "unexpected argument `train.yaml`; did you mean `-f train.yaml`?",
    ("explain", "--project", "demo", "train.yaml"): "unexpected argument `train.yaml`; did you mean `-f train.yaml`?",
    ("explain", "-f", "-", "train.yaml"): "got unexpected extra argument (train.yaml)",
    ("explain", "-f", "nowhere.yaml"): "invalid value for `-f` / `--file`: file `nowhere.yaml` does not exist",
    ("explain", "-f", "-", "--action", "x"): "invalid value for `--action`: `x` is not one of `job`, `serve`, `deploy`",
    (
        "explain",
        "-f",
        "-",
        "--projct",
        "x",
    ): "no such option `--projct`; did you mean `--policy`, `--project`, `--strict`?",
    ("explain", "-f", "-", "--actio", "x"): "no such option `--actio`; did you mean `--action`?",
}


@pytest.mark.parametrize(("words", "message"), WRONG_USES.items())
def test_error_has_one_form_when_click_refuses_the_words(call: Call, words: tuple[str, ...], message: str) -> None:
    called = call(*words)
    assert (called.code, called.out, called.err) == (2, "", f"{USAGE}error: {message}\n")


def test_option_is_suggested_when_render_gets_its_file_as_an_argument(call: Call) -> None:
    assert call("render", "train.yaml").err.endswith(
        "error: unexpected argument `train.yaml`; did you mean `-f train.yaml`?\n"
    )


def test_control_characters_are_escaped_when_an_argument_has_them(call: Call) -> None:
    assert "`\\x1b[31m`" in call("explain", "\x1b[31m").err
