from typing import Any

import pytest

from runyard.spec.lints import lint_fields
from runyard.spec.problems import Problem
from runyard.spec.run_fields import read_run_fields


def _lint(**fields: Any) -> list[Problem]:
    return list(lint_fields(read_run_fields(fields)))


def _volume(kind: str, **spec: Any) -> dict[str, Any]:
    return {"volume_type": kind, "name": "v", "mount_path": "/v", "spec": spec}


@pytest.mark.parametrize(
    ("resources", "code", "suggestion"),
    [
        ({"mem": 2048}, "lint.bytes", "2048Mi"),
        ({"mem": "2048"}, "lint.bytes", "2048Mi"),
        ({"mem": 2}, "lint.bytes", "2Mi"),
        ({"mem": "512m"}, "lint.bytes", "512Mi"),
        ({"mem": {"limits": 2048}}, "lint.bytes", "2048Mi"),
        ({"disk": 10}, "lint.bytes", "10Mi"),
        ({"cpu": "500"}, "lint.cores", "500m"),
        ({"cpu": 1000}, "lint.cores", "1000m"),
        ({"cpu": {"limits": 2000}}, "lint.cores", "2000m"),
        ({"mem": "32G"}, "lint.decimal", "32Gi"),
        ({"mem": "512M"}, "lint.decimal", "512Mi"),
        ({"mem": {"limits": "2T"}}, "lint.decimal", "2Ti"),
        ({"disk": "10G"}, "lint.decimal", "10Gi"),
        ({"gpu": 0}, "lint.no_gpu", "leave `gpu` out"),
        ({"gpu": {"limits": "0"}}, "lint.no_gpu", "leave `gpu` out"),
    ],
)
def test_an_amount_is_doubted_with_a_proposal_when_it_is_probably_not_meant(
    resources: dict[str, Any], code: str, suggestion: str
) -> None:
    (lint,) = _lint(resources=resources)

    assert (lint.code, lint.suggestion) == (code, suggestion)
    assert lint.path[:2] == ("resources", next(iter(resources)))


@pytest.mark.parametrize(
    "resources",
    [
        {"mem": "32Gi"},
        {"mem": "1Mi"},
        {"mem": "8Gi", "cpu": "8"},
        {"cpu": "500m"},
        {"cpu": 64},
        {"cpu": "255"},
        {"gpu": 1},
        {"disk": "10Gi"},
        {"mem": {"requests": "1Gi", "limits": "2Gi"}},
    ],
)
def test_nothing_is_doubted_when_the_amounts_are_plausible(resources: dict[str, Any]) -> None:
    assert _lint(resources=resources) == []


def test_the_gap_is_told_when_a_decimal_amount_is_doubted() -> None:
    (lint,) = _lint(resources={"mem": "32G"})

    assert "7 %" in lint.message


@pytest.mark.parametrize(
    "name",
    [
        *(
            "PASSWORD",
            "DB_PASSWORD",
            "PGPASSWORD",
            "MYSQL_PWD",
            "db_passwd",
            "myPassword",
            "dbPassword",
            "SSH_PASSPHRASE",
        ),
        *(
            "AWS_SECRET_ACCESS_KEY",
            "CLIENT_SECRET",
            "HF_TOKEN",
            "TOKEN",
            "githubToken",
            "WANDB_API_KEY",
            "OPENAI_APIKEY",
        ),
        *("PRIVATE_KEY", "ACCESS_KEY", "GOOGLE_CREDENTIALS", "SMTP_PASS"),
    ],
)
def test_a_variable_is_doubted_when_it_looks_like_a_credential(name: str) -> None:
    (lint,) = _lint(envs={name: "x"})

    assert (lint.code, lint.path, lint.suggestion) == ("lint.credential", ("envs", name), f"secrets: [{name}]")
    assert lint.value is None


@pytest.mark.parametrize(
    "name",
    [
        *(
            "HF_HOME",
            "EPOCHS",
            "TOKENIZERS_PARALLELISM",
            "MAX_TOKENS",
            "MAX_NEW_TOKENS",
            "COMPASS_URL",
            "PASSES",
            "KEYBOARD",
        ),
        *("SECRETARY", "BYPASS_CACHE", "API_URL", "MONKEY", "PATH"),
    ],
)
def test_a_variable_is_not_doubted_when_it_only_reminds_of_a_credential(name: str) -> None:
    assert _lint(envs={name: "x"}) == []


@pytest.mark.parametrize("image", ["python", "python:latest", "ghcr.io/a/b", "localhost:5000/x"])
def test_an_image_is_doubted_when_it_is_latest(image: str) -> None:
    (lint,) = _lint(image=image)

    assert (lint.code, lint.path) == ("lint.latest", ("image",))
    assert lint.suggestion


@pytest.mark.parametrize("image", ["python:3.11", "python@sha256:" + "0" * 64])
def test_an_image_is_not_doubted_when_its_version_is_said(image: str) -> None:
    assert _lint(image=image) == []


def test_a_command_is_doubted_when_one_word_holds_several() -> None:
    (lint,) = _lint(command="python train.py")

    assert (lint.code, lint.suggestion) == ("lint.command", "[python, train.py]")


@pytest.mark.parametrize("command", ["sh", ["python", "train.py"], ["sh", "-c", "echo hi"]])
def test_a_command_is_not_doubted_when_it_is_words(command: Any) -> None:
    assert _lint(command=command) == []


@pytest.mark.parametrize(
    ("volume", "code", "suggestion"),
    [
        (_volume("persistent_volume_claim", size=10), "lint.bytes", "10Gi"),
        (_volume("ephemeral", size="512"), "lint.bytes", "512Gi"),
        (_volume("empty_dir", size_limit=1), "lint.bytes", "1Gi"),
        (_volume("persistent_volume_claim", size="10G"), "lint.decimal", "10Gi"),
        (_volume("image", image="model"), "lint.latest", "a version or a digest"),
        (_volume("shared_volume", size="10Gi"), "lint.size", None),
    ],
)
def test_a_volume_is_doubted_when_it_is_probably_not_meant(
    volume: dict[str, Any], code: str, suggestion: str | None
) -> None:
    (lint,) = _lint(volumes=[volume])

    assert (lint.code, lint.suggestion) == (code, suggestion)
    assert lint.path[:2] == ("volumes", "v")


@pytest.mark.parametrize(
    "volume",
    [
        _volume("persistent_volume_claim", size="10Gi"),
        _volume("persistent_volume_claim"),
        _volume("empty_dir", size_limit="64Mi"),
        _volume("image", image="model:1"),
        _volume("shared_volume"),
    ],
)
def test_a_volume_is_not_doubted_when_it_is_plausible(volume: dict[str, Any]) -> None:
    assert _lint(volumes=[volume]) == []


def test_every_doubt_is_told_when_there_are_several() -> None:
    lints = _lint(resources={"mem": 2048, "cpu": 500, "gpu": 0}, image="a", envs={"TOKEN": "x", "A": "y"})

    assert {lint.code for lint in lints} == {
        "lint.bytes",
        "lint.cores",
        "lint.no_gpu",
        "lint.latest",
        "lint.credential",
    }
