"""`runyard keys`: what was sealed before a rotation opens after it, with the new key alone in use."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from runyard.cli.main import root
from runyard.store import open_store
from runyard.vault import open_vault
from tests.unit.cli.conftest import Call


def run(*words: str, data: Path) -> str:
    result = CliRunner().invoke(root, ["keys", *words, "--data", str(data)])
    assert result.exit_code == 0, result.output
    return result.output


async def seal(data: Path, text: str) -> None:
    store = await open_store(f"sqlite:///{data}/runyard.db")
    async with store.begin() as unit:
        await unit.secrets.put(open_vault(data / "key", text=None).seal("demo", "token", 1, text))
        await unit.commit()
    await store.close()


async def read(data: Path) -> tuple[str, str]:
    store = await open_store(f"sqlite:///{data}/runyard.db")
    async with store.begin(is_read_only=True) as unit:
        sealed = await unit.secrets.find("demo", "token")
    await store.close()
    assert sealed is not None
    return open_vault(data / "key", text=None).open(sealed), sealed.key_id


@pytest.mark.parametrize("word", ["rotate", "rewrap"])
def test_value_opens_when_keys_were_rotated(word: str, tmp_path: Path) -> None:
    asyncio.run(seal(tmp_path, "s3cr3t"))
    _, old = asyncio.run(read(tmp_path))
    output = run(word, data=tmp_path)
    text, new = asyncio.run(read(tmp_path))
    assert text == "s3cr3t"
    assert (new != old) is (word == "rotate")
    assert new in output
    assert "s3cr3t" not in output


@pytest.mark.parametrize("word", ["rotate", "rewrap"])
def test_no_key_is_made_when_the_key_file_is_missing(call: Call, word: str, tmp_path: Path) -> None:
    asyncio.run(seal(tmp_path, "s3cr3t"))
    (tmp_path / "key").unlink()
    called = call("keys", word, "--data", tmp_path)
    cure = "restore it, or name another with --key-file"
    assert (called.code, called.err) == (1, f"error: the key file {tmp_path}/key does not exist: {cure}\n")
    assert not (tmp_path / "key").exists()
