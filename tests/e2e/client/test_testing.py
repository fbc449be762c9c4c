"""`runyard.testing`: a server for a test, which leaves nothing behind."""

import tempfile
from pathlib import Path

import pytest

import runyard as ry
from examples.demo.stage import list_processes
from runyard.testing import start_server
from tests.e2e.client.conftest import PROGRAM, RULES, SECONDS


def test_nothing_is_left_when_a_test_ends_while_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with start_server(profiles=RULES / "profiles", policy=RULES / "policy.yaml") as client:
        assert client.list_profiles() == ["small"]
        func = client.get_or_create_project("demo").new_function("sleep", code=PROGRAM, handler="sleep")
        func.run().wait(until="running", timeout=SECONDS)
        (folder,) = tmp_path.iterdir()
    assert list(tmp_path.iterdir()) == []
    assert list_processes(folder / "data", marks=set()) == []


def test_words_of_the_server_are_told_when_it_does_not_start(tmp_path: Path) -> None:
    with (
        pytest.raises(ry.ConfigurationError, match="the server did not start"),
        start_server(profiles=tmp_path / "lost"),
    ):
        pass
