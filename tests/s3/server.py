"""The S3-compatible server of the tests: its environment, kept outside the work tree, and its process."""

import contextlib
import fcntl
import hashlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runyard.app.blob_store import BlobStore
from runyard.app.files_store import FilesStore
from runyard.app.log_store import LogStore
from runyard.files import open_blobs, open_files_store
from runyard.logs import open_logs
from tests.e2e.sdk.environments import cache_folder

INSTALL_SECONDS = 240
_HERE = Path(__file__).parent
_UV = Path(sys.executable).parent / "uv"


class NoS3Server(Exception):
    """It cannot be installed here; one line says why."""


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where it is, and who may use it."""

    endpoint: str
    bucket: str
    access_key: str
    secret_key: str
    files_bucket: str = ""
    """The bucket of clients."""
    client_access_key: str = ""
    client_secret_key: str = ""
    """Good for that bucket only."""

    def open_logs(self, prefix: str, *, secret_key: str | None = None, bucket: str | None = None) -> LogStore:
        """A log store under a prefix of its own."""
        return open_logs(
            f"s3://{bucket or self.bucket}/{prefix}",
            s3_endpoint=self.endpoint,
            s3_access_key=self.access_key,
            s3_secret_key=secret_key or self.secret_key,
        )

    def open_blobs(self, prefix: str, *, secret_key: str | None = None, bucket: str | None = None) -> BlobStore:
        """A file storage under a prefix of its own."""
        return open_blobs(
            f"s3://{bucket or self.bucket}/{prefix}",
            s3_endpoint=self.endpoint,
            s3_access_key=self.access_key,
            s3_secret_key=secret_key or self.secret_key,
        )

    def open_files_store(self, prefix: str) -> FilesStore:
        """The files store of clients under a prefix of its own."""
        store = open_files_store(
            f"s3://{self.files_bucket}/{prefix}",
            s3_endpoint=self.endpoint,
            s3_access_key=self.access_key,
            s3_secret_key=self.secret_key,
        )
        assert store is not None
        return store


@contextlib.contextmanager
def serve_s3() -> Iterator[S3Server]:
    """A server in a process of its own, on a free port of loopback."""
    argv = [str(_ensure_environment()), str(_HERE / "serve.py")]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield S3Server(**json.loads(process.stdout.readline()))
        finally:
            process.stdin.close()
            process.wait(timeout=30)


def _ensure_environment() -> Path:
    """The python that has the server, installed once however many processes ask."""
    requirements = _HERE / "requirements.txt"
    interpreter = f"{sys.base_prefix} {platform.python_version()} {platform.machine()}"
    digest = hashlib.sha256(requirements.read_bytes() + interpreter.encode()).hexdigest()[:12]
    environment = cache_folder() / f"s3-{digest}"
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "s3.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not environment.exists():
            part = environment.with_name(f".{environment.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            _uv("venv", "--relocatable", "--python", sys.executable, str(part))
            _uv("pip", "sync", "--compile-bytecode", "--python", str(part / "bin/python"), str(requirements))
            part.rename(environment)
    return environment / "bin/python"


def _uv(*arguments: str) -> None:
    try:
        done = subprocess.run([_UV, "--quiet", *arguments], capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise NoS3Server(f"its packages did not come within {INSTALL_SECONDS} s") from error
    if done.returncode != 0:
        raise NoS3Server(f"uv {' '.join(arguments[:2])} failed with {done.returncode}")
