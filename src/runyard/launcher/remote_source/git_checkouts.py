"""Source from a git repository over HTTPS, by the `git` program.

Credentials travel in the environment of git and its credential helper, for the address's own host only: never on a
command line, which every user of the machine may read.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from ..failures import NotPrepared
from .downloads import redact

LONGEST_GIT_SECONDS = 900.0
"""For all of one checkout."""
LARGEST_GIT_MESSAGE_BYTES = 64 << 10
"""Read of what git prints; a message quotes its last line."""
_HELPER = (
    '!f() { test "$1" = get || return 0; '
    'printf "username=%s\\npassword=%s\\n" "$RUNYARD_GIT_USERNAME" "$RUNYARD_GIT_PASSWORD"; }; f'
)
"""Runs in a shell; the values are read from the environment there."""


def check_out(address: str, into: Path) -> None:
    """Check out `https://host/path#ref` into a folder; ref is a branch, tag or commit. Raises `NotPrepared`."""
    parts = urlsplit(address)
    if parts.scheme != "https" or not parts.hostname:
        raise NotPrepared(f"the source {redact(address)} must be git+https://host/path#ref")
    ref = unquote(parts.fragment)
    if ref.startswith("-") or any(character.isspace() for character in ref):
        raise NotPrepared(f"{ref[:80]} is not the name of a branch, tag or commit")
    plain = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))
    git = _Git(into, environment=_make_environment(address), shown=redact(address))
    git.run("init", "--quiet", ".")
    wanted = ref or "HEAD"
    # One commit is enough; servers without support for that (dumb HTTP, old ones for a commit) give all of them.
    if not git.attempt("fetch", "--quiet", "--depth", "1", "--no-tags", "--", plain, wanted):
        git.run(
            "fetch",
            "--quiet",
            "--tags",
            "--",
            plain,
            "+HEAD:refs/remotes/origin/HEAD",
            "+refs/heads/*:refs/remotes/origin/*",
        )
        found = [f"refs/remotes/origin/{wanted}", f"refs/tags/{wanted}", wanted]
        commit = next(
            (each for each in found if git.attempt("rev-parse", "--quiet", "--verify", f"{each}^{{commit}}")), None
        )
        if commit is None:
            raise NotPrepared(f"the source {redact(address)} has no branch, tag or commit {wanted[:80]}")
        git.run("checkout", "--quiet", "--detach", commit, "--")
        return
    git.run("checkout", "--quiet", "--detach", "FETCH_HEAD", "--")


class _Git:
    def __init__(self, folder: Path, *, environment: Mapping[str, str], shown: str) -> None:
        self._folder, self._environment, self._shown = folder, environment, shown
        folder.mkdir(parents=True, exist_ok=True)

    def attempt(self, *arguments: str) -> bool:
        return self._call(*arguments)[0] == 0

    def run(self, *arguments: str) -> None:
        code, text = self._call(*arguments)
        if code != 0:
            lines = [line for line in text.splitlines() if line.strip()]
            reason = " ".join((lines[-1] if lines else f"exit code {code}").split())[:300]
            raise NotPrepared(f"the source {self._shown} cannot be checked out: {reason}")

    def _call(self, *arguments: str) -> tuple[int, str]:
        try:
            done = subprocess.run(
                ["git", *arguments],
                cwd=self._folder,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=LONGEST_GIT_SECONDS,
                check=False,
            )
        except FileNotFoundError:
            raise NotPrepared("a source in git needs the program git, which this image or machine lacks") from None
        except subprocess.TimeoutExpired:
            raise NotPrepared(f"git did not end within {LONGEST_GIT_SECONDS:.0f} s for {self._shown}") from None
        return done.returncode, done.stderr[-LARGEST_GIT_MESSAGE_BYTES:].decode("utf-8", "replace")


def _make_environment(address: str) -> dict[str, str]:
    """Git's environment: https only, no questions, and a credential helper if the run has credentials."""
    environment = {
        **os.environ,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https",
        "GIT_ASKPASS": "true",
        "LC_ALL": "C",
    }
    username, password = _find_credentials(address)
    if password is None:
        return environment
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    return {
        **environment,
        "RUNYARD_GIT_USERNAME": username,
        "RUNYARD_GIT_PASSWORD": password,
        # An empty helper first: helpers of the image's configuration are not asked.
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "credential.helper",
        "GIT_CONFIG_VALUE_0": "",
        "GIT_CONFIG_KEY_1": f"credential.{parts.scheme}://{host}.helper",
        "GIT_CONFIG_VALUE_1": _HELPER,
    }


def _find_credentials(address: str) -> tuple[str, str | None]:
    """User name and password: of the address, else the run's secrets GIT_TOKEN, or GIT_USERNAME and GIT_PASSWORD."""
    parts = urlsplit(address)
    if parts.username and parts.password:
        return unquote(parts.username), unquote(parts.password)
    token = os.environ.get("GIT_TOKEN") or (unquote(parts.username) if parts.username else None)
    if token:
        return "oauth2", token
    return os.environ.get("GIT_USERNAME", ""), os.environ.get("GIT_PASSWORD") or None
