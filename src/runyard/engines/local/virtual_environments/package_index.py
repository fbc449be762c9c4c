"""Where uv gets packages from: the settings of uv and pip that the server was started with.

uv does not read pip's settings. A machine behind a mirror often has only those, so they are translated. The variables
reach code of the run (a source distribution is built by code of its own): credentials in an index URL are known to it.
"""

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

LARGEST_PIP_FILE_BYTES = 64 << 10
"""How much of a configuration file of pip is read."""

_PASSED = frozenset(
    {
        *("UV_CONFIG_FILE", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX", "UV_INDEX_STRATEGY"),
        *("UV_INDEX_URL", "UV_INSECURE_HOST", "UV_OFFLINE", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS"),
        *("UV_CONCURRENT_BUILDS", "UV_CONCURRENT_DOWNLOADS", "UV_CONCURRENT_INSTALLS", "UV_HTTP_TIMEOUT"),
        *("UV_EXCLUDE_NEWER", "UV_LINK_MODE", "UV_TORCH_BACKEND"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
        *("all_proxy", "http_proxy", "https_proxy", "no_proxy"),
    }
)
"""Variables of the server that uv gets as they are."""
_CREDENTIALS = "UV_INDEX_"
"""Begins the variables with the credentials of named indexes."""
_PATHS = ("UV_CONFIG_FILE", "UV_FIND_LINKS", "SSL_CERT_FILE", "SSL_CERT_DIR")
_FROM_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "timeout": "UV_HTTP_TIMEOUT",
    "no-index": "UV_OFFLINE",
}
_PIP_VARIABLES = {
    **{f"PIP_{name.upper().replace('-', '_')}": name for name in _FROM_PIP},
    "PIP_DEFAULT_TIMEOUT": "timeout",
}
_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")


def read_index_variables(environ: Mapping[str, str] = os.environ, *, prefix: Path | None = None) -> dict[str, str]:
    """The variables for uv; those of uv win over those of pip. Blocks: it reads pip's configuration files."""
    variables = {
        name: value for name, value in environ.items() if value and (name in _PASSED or name.startswith(_CREDENTIALS))
    }
    has_index = any(name in variables for name in _INDEX_VARIABLES)
    for name, value in _read_pip_settings(environ, prefix or Path(sys.prefix)).items():
        target = _FROM_PIP[name]
        if target in variables or (has_index and target == "UV_DEFAULT_INDEX"):
            continue
        if translated := _translate(name, value):
            variables[target] = translated
    return variables


def iter_local_paths(variables: Mapping[str, str]) -> Iterator[str]:
    """The files and folders of this machine that the variables name, so that uv must reach them."""
    for name in _PATHS:
        for part in variables.get(name, "").replace(",", " ").split():
            path = part.removeprefix("file://")
            if path.startswith("/"):
                yield path


def _read_pip_settings(environ: Mapping[str, str], prefix: Path) -> dict[str, str]:
    """Settings by pip's names: of the machine, the user, the installation, a file of its own, and variables."""
    settings: dict[str, str] = {}
    for path in _iter_pip_files(environ, prefix):
        settings |= _read_pip_file(path)
    return settings | {name: environ[key] for key, name in _PIP_VARIABLES.items() if environ.get(key)}


def _iter_pip_files(environ: Mapping[str, str], prefix: Path) -> Iterator[Path]:
    own = environ.get("PIP_CONFIG_FILE")
    if own == os.devnull:  # pip reads no file at all then
        return
    yield Path("/etc/pip.conf")
    if home := environ.get("HOME"):
        yield Path(home) / ".pip/pip.conf"
        yield Path(environ.get("XDG_CONFIG_HOME") or Path(home) / ".config") / "pip/pip.conf"
    yield prefix / "pip.conf"
    if own:
        yield Path(own)


def _read_pip_file(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        with path.open("rb") as file:
            parser.read_string(file.read(LARGEST_PIP_FILE_BYTES).decode())
    except (OSError, ValueError, configparser.Error):
        return {}
    found = {}
    for section in ("global", "install"):
        for key, value in parser.items(section) if parser.has_section(section) else ():
            name = key.replace("_", "-")
            if name in _FROM_PIP and value:
                found[name] = value
    return found


def _translate(name: str, value: str) -> str | None:
    """A value of pip in uv's syntax; None if it says nothing."""
    words = value.split()
    if name == "no-index":
        return "1" if value.lower() in ("1", "true", "yes", "on") else None
    return ",".join(words) if name == "find-links" else " ".join(words)
