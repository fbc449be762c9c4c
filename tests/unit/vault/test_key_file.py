"""The file of the keys: made once, for its owner alone, and changed whole or not at all."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.vault import FileVault, KeyFileUnusable, KeysUnusable, TextVault, UnknownKey, open_vault
from runyard.vault.keyring import Keyring, make_key

KEY = Keyring([bytes(range(32))]).to_text().strip()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "keys"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_file_is_its_owners_alone_when_it_is_made(path: Path, umask: int) -> None:
    path.parent.mkdir()
    before = os.umask(umask)
    try:
        FileVault(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["keys"]


def test_values_open_when_the_file_is_read_by_another_process(path: Path) -> None:
    sealed = FileVault(path).seal("p", "n", 1, "value")
    assert FileVault(path).open(sealed) == "value"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620, 0o777])
def test_file_is_refused_when_others_can_use_it(path: Path, mode: int) -> None:
    FileVault(path)
    path.chmod(mode)
    with pytest.raises(KeyFileUnusable, match=rf"mode 0{mode:o}.*chmod 600 {path}"):
        FileVault(path)


def test_file_is_taken_when_it_can_only_be_read(path: Path) -> None:
    FileVault(path)
    path.chmod(0o400)
    assert FileVault(path).current_key_id


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "contains no key"),
        ("# nothing\n\n", "contains no key"),
        ("sesame open", "line 1: not a key"),
        (f"{KEY}\nc2hvcnQ=\n", "line 2: the key has 5 bytes; allowed: 32 bytes in base64"),
        (f"{KEY}\n{KEY}\n", "contains the same key twice"),
        (f"{KEY[:-3]}é!\n", "line 1: not a key"),
        ("x" * 100_000, "is not a key file: it has more than"),
    ],
)
def test_file_is_refused_without_being_shown_when_it_holds_something_else(
    path: Path, content: str, complaint: str
) -> None:
    path.parent.mkdir()
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(KeysUnusable, match=complaint) as caught:
        FileVault(path)
    assert str(path) in str(caught.value)
    assert all(part not in str(caught.value) for part in ("sesame", "c2hvcnQ", KEY[:10], "xxxx"))


def test_reason_is_given_when_the_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyFileUnusable, match=r"cannot be made: (Not a directory|File exists)"):
        FileVault(tmp_path / "file" / "keys")
    (tmp_path / "folder").mkdir()
    with pytest.raises(KeyFileUnusable, match="Is a directory"):
        FileVault(tmp_path / "folder")


def test_one_key_is_used_by_all_when_many_make_the_file_at_once(path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        vaults = list(threads.map(lambda _: FileVault(path), range(8)))
    assert len({vault.current_key_id for vault in vaults}) == 1
    assert [one.name for one in path.parent.iterdir()] == ["keys"]


def test_new_key_is_current_everywhere_when_one_replica_makes_it(path: Path) -> None:
    here, there = FileVault(path), FileVault(path)
    old = there.seal("p", "n", 1, "old")
    key_id = here.make_key()
    assert there.seal("p", "n", 3, "newer").key_id == key_id == there.current_key_id
    assert FileVault(path).open(here.seal("p", "n", 2, "new")) == "new"
    assert here.open(old) == "old"
    assert here.old_key_ids == (old.key_id,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_value_is_opened_when_another_replica_sealed_it_with_a_newer_key(path: Path) -> None:
    here, there = FileVault(path), FileVault(path)
    here.make_key()
    assert there.open(here.seal("p", "n", 1, "new")) == "new"


def test_no_key_is_lost_when_many_make_one_at_once(path: Path) -> None:
    vaults = [FileVault(path) for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(FileVault.make_key, vaults))
    assert len(FileVault(path).old_key_ids) == 6


def test_nothing_is_sealed_when_the_file_is_gone(path: Path) -> None:
    vault = FileVault(path)
    sealed = vault.seal("p", "n", 1, "value")
    path.unlink()
    with pytest.raises(KeyFileUnusable, match="does not exist: restore it, or name another with --key-file"):
        vault.seal("p", "n", 2, "value")
    assert vault.open(sealed) == "value"


def test_value_is_refused_when_its_file_was_lost_and_made_anew(path: Path) -> None:
    sealed = FileVault(path).seal("p", "n", 1, "value")
    path.unlink()
    with pytest.raises(UnknownKey, match=sealed.key_id):
        FileVault(path).open(sealed)


def test_text_wins_when_there_is_a_file_too(path: Path) -> None:
    assert isinstance(open_vault(path, text=KEY), TextVault)
    assert not path.exists()
    with pytest.raises(KeysUnusable, match="there are no keys"):
        open_vault(None)
    with pytest.raises(KeysUnusable, match="the keys of the environment: contains no key"):
        open_vault(None, text=" ")


def test_keys_are_read_when_a_text_separates_them_by_commas_and_leaves_padding_out() -> None:
    other = Keyring([make_key()]).to_text().strip()
    safe = other.translate(str.maketrans("+/", "-_")).rstrip("=")
    vault = TextVault(f" {KEY}, {safe} ")
    assert vault.current_key_id == TextVault(other).current_key_id
    assert vault.old_key_ids == (TextVault(KEY).current_key_id,)


def test_way_is_told_when_keys_of_the_environment_are_to_be_rotated() -> None:
    with pytest.raises(KeysUnusable, match="add a new key as the last line"):
        TextVault(KEY).make_key()
