"""The environments of the lines: complete pins, kept once made, and one line where nothing can be installed."""

import re
from pathlib import Path

import pytest

from tests.e2e.sdk import environments
from tests.e2e.sdk.environments import LINES, NoNetworkError, ensure_environment

FOLDER = Path(environments.__file__).parent


@pytest.mark.parametrize("line", LINES)
def test_pins_hold_what_was_asked_when_compiled(line: str) -> None:
    pinned = (FOLDER / f"requirements-{line}.txt").read_text()
    asked = (FOLDER / f"requirements-{line}.in").read_text().split()
    names = re.findall(r"^([a-z0-9.-]+)==", pinned, flags=re.MULTILINE)
    excluded = re.findall(r"^([a-z-]+)$", (FOLDER / "excluded.txt").read_text(), flags=re.MULTILINE)
    assert [one for one in asked if f"\n{one}\n" not in pinned] == []
    assert set(names) & set(excluded) == set()
    assert "http" not in pinned


def test_environment_is_used_again_when_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[Path] = []

    def install(_requirements: Path, *, into: Path) -> None:
        made.append(into)
        (into / "bin").mkdir(parents=True)
        (into / "bin/python").touch()

    monkeypatch.setattr(environments, "_install", install)
    assert ensure_environment("0.15") == ensure_environment("0.15") == made[0] / "bin/python"
    assert len(made) == 1
    assert re.fullmatch(r"sdk-0\.15-[0-9a-f]{12}", made[0].name)


def test_reason_is_one_line_and_nothing_stays_when_there_is_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    with pytest.raises(NoNetworkError) as caught:
        ensure_environment("0.15")
    assert "\n" not in str(caught.value)
    assert "Connection refused" in str(caught.value)
    assert [path.name for path in (tmp_path / "runyard").iterdir()] == ["sdk-0.15.lock"]
