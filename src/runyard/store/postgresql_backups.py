"""Backups of PostgreSQL with `pg_dump` and `pg_restore`."""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from sqlalchemy import text

from runyard.store.connections import make_postgresql_engine
from runyard.store.driver_errors import translate_errors
from runyard.store.epochs import STATEMENTS, make_epoch
from runyard.store.errors import BackupFailed, FutureSchema
from runyard.store.schema import VERSION_TABLE, list_known_revisions, read_schema
from runyard.store.urls import PostgresUrl

_PACKAGE = "it is in Debian's package postgresql-client"


async def backup_postgresql(url: PostgresUrl, path: Path) -> None:
    """Dump a consistent snapshot. The file gets its name only when it is complete."""
    part = path.with_name(f"{path.name}.part")
    try:
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
        with _connect_by_file(url) as address:
            await _run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={part}", address)
        part.rename(path)
    except OSError as error:
        raise BackupFailed(f"{path} was not made: {error}") from error
    finally:
        part.unlink(missing_ok=True)


async def restore_postgresql(path: Path, url: PostgresUrl) -> None:
    """Fill an empty database. Revision and epoch are written last, so that a partial restore is unusable."""
    status = await read_schema(url)
    if status.state != "empty":
        raise BackupFailed(f"{url.shown} is not empty: restore into an empty database; it was not changed")
    revision = await _read_revision(path)
    with tempfile.TemporaryDirectory() as folder, _connect_by_file(url) as address:
        chosen = Path(folder) / "list"
        contents = await _run("pg_restore", "--list", str(path))
        chosen.write_text("\n".join(line for line in contents.splitlines() if not _holds_revision(line)))
        options = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
        await _run("pg_restore", *options, f"--use-list={chosen}", f"--dbname={address}", str(path))
    engine = make_postgresql_engine(url, size=1)
    try:
        with translate_errors(url.shown):
            async with engine.begin() as connection:
                for statement in STATEMENTS:
                    await connection.execute(text(statement), {"epoch": make_epoch()} if ":epoch" in statement else {})
                await connection.execute(
                    text("INSERT INTO alembic_version (version_num) VALUES (:revision)"), {"revision": revision}
                )
    finally:
        await engine.dispose()


async def _read_revision(path: Path) -> str:
    script = await _run("pg_restore", "--data-only", f"--table={VERSION_TABLE}", "--file=-", str(path))
    found = re.search(rf"^COPY \S*{VERSION_TABLE} \(version_num\) FROM stdin;\n(.*)$", script, re.MULTILINE)
    if found is None or found[1] == "\\.":
        raise BackupFailed(f"{path} is not a backup of Runyard")
    if found[1] not in list_known_revisions():
        raise FutureSchema(f"{path} is of revision {found[1]}, which this release does not know; nothing was restored")
    return found[1]


def _holds_revision(line: str) -> bool:
    return " TABLE DATA " in line and f" {VERSION_TABLE} " in line


@contextmanager
def _connect_by_file(url: PostgresUrl) -> Iterator[str]:
    """Connection arguments for the programs. The password is in a file: command lines are visible to everyone."""
    parts = urlsplit(url.dsn)
    userinfo, at, hosts = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    options = dict(parse_qsl(parts.query))
    secret = options.pop("password", "") or unquote(password)
    with tempfile.TemporaryDirectory() as folder:
        if secret:
            passfile = Path(folder) / "passfile"
            passfile.touch(mode=0o600)
            escaped = secret.replace("\\", "\\\\").replace(":", "\\:")
            passfile.write_text(f"*:*:*:*:{escaped}\n")
            options["passfile"] = str(passfile)
        yield urlunsplit((parts.scheme, f"{user}{at}{hosts}", parts.path, urlencode(options, quote_via=quote), ""))


async def _run(program: str, *arguments: str) -> str:
    """Run a program and return its output. Raises `BackupFailed` with its error message."""
    executable = shutil.which(program)
    if executable is None:
        raise BackupFailed(f"`{program}` is needed for PostgreSQL and is not installed: {_PACKAGE}")
    process = await asyncio.create_subprocess_exec(
        executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        output, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise BackupFailed(f"{program} failed: {complaints.decode(errors='replace').strip()[-500:]}")
    return output.decode()
