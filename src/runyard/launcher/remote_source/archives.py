"""Zip archives of source: extracted with bounds, and never outside of their folder (zip slip, zip bombs)."""

import itertools
import os
import stat
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from ..failures import NotPrepared

MOST_FILES = 20_000
"""Entries of an archive."""
LARGEST_SOURCE_BYTES = 2 << 30
"""All files of an archive together, extracted."""
LARGEST_DIRECTORY_BYTES = 16 << 20
"""The table of contents of an archive, which is read at once."""
MOST_NAME_CHARACTERS = 1024
"""Of an entry's path."""
_CHUNK_BYTES = 1 << 20
_END = b"PK\x05\x06"
_END_BYTES = 22
_ZIP64_LOCATOR = b"PK\x06\x07"
_ZIP64_LOCATOR_BYTES = 20


def extract_zip(archive: Path, into: Path) -> None:
    """Extract the archive; raises `NotPrepared` before anything is written outside of `into` or over a bound."""
    try:
        _check_directory(archive)
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            _check_entries(entries)
            left = LARGEST_SOURCE_BYTES
            for entry in entries:
                left -= _extract(opened, entry, into, left)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeError) as error:
        raise NotPrepared(f"the source archive cannot be read: {str(error)[:200]}") from None


def find_root(folder: Path) -> Path:
    """The folder of the source: the only folder of an archive that has nothing else, as GitHub makes them."""
    found = list(itertools.islice(folder.iterdir(), 2))
    if len(found) == 1 and found[0].is_dir() and not (found[0] / "__init__.py").exists():
        return found[0]
    return folder


def _check_directory(archive: Path) -> None:
    """Check the size of the table of contents before it is read: an archive may hold millions of empty entries."""
    size = archive.stat().st_size
    with archive.open("rb") as file:
        file.seek(max(0, size - (1 << 16) - _END_BYTES - _ZIP64_LOCATOR_BYTES))
        tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + _END_BYTES:
        raise zipfile.BadZipFile("it is not a zip archive")
    count, directory_bytes = struct.unpack_from("<HL", tail, at + 10)
    locator = tail[max(0, at - _ZIP64_LOCATOR_BYTES) : at]
    if count > MOST_FILES or directory_bytes > LARGEST_DIRECTORY_BYTES or locator.startswith(_ZIP64_LOCATOR):
        raise NotPrepared(f"the source archive has more than {MOST_FILES} files or is too large (zip64)")


def _check_entries(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MOST_FILES:
        raise NotPrepared(f"the source archive has {len(entries)} files; at most {MOST_FILES} are allowed")
    total = sum(entry.file_size for entry in entries)
    if total > LARGEST_SOURCE_BYTES:
        raise NotPrepared(f"the source archive has {total} bytes extracted; at most {LARGEST_SOURCE_BYTES} are allowed")
    for entry in entries:
        _check_entry(entry)


def _check_entry(entry: zipfile.ZipInfo) -> None:
    name, path = entry.filename, PurePosixPath(entry.filename)
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if not name or len(name) > MOST_NAME_CHARACTERS or "\x00" in name or "\\" in name:
        allowed = f"at most {MOST_NAME_CHARACTERS} characters, no backslash"
        raise NotPrepared(f"the source archive has the unusable name {_quote(name)}; allowed: {allowed}")
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise NotPrepared(f"the source archive has the path {_quote(name)}, which leads out of its folder")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise NotPrepared(
            f"{_quote(name)} of the source archive is a link or device; only files and folders are allowed"
        )
    if entry.flag_bits & 1:
        raise NotPrepared(f"{_quote(name)} of the source archive is encrypted")


def _quote(name: str) -> str:
    """The name of an entry, for a message; an archive may put control characters there."""
    shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in name[:80])
    return f"`{shown}`"


def _extract(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, into: Path, left: int) -> int:
    """Extract one entry and answer with its real size: the declared one may be a lie."""
    target = into / entry.filename
    try:
        if entry.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            return 0
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o755 if entry.external_attr >> 16 & stat.S_IXUSR else 0o644
        # Exclusive: two entries of one name, or a name in two spellings, are refused.
        with (
            opened.open(entry) as source,
            open(target, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file,
        ):
            size = 0
            while chunk := source.read(_CHUNK_BYTES):
                size += len(chunk)
                if size > left:
                    raise NotPrepared(f"the source archive is larger than {LARGEST_SOURCE_BYTES} bytes when extracted")
                file.write(chunk)
            return size
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise NotPrepared(f"the source archive has {_quote(entry.filename)} twice") from None
