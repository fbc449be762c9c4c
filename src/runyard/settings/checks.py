"""Checks across settings: combinations that are errors, and combinations that deserve a warning."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from runyard.settings.settings import is_loopback
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

_OPENED = "open_to_everyone_on_this_machine"
PROJECT_SETTINGS = ("project_quota", "project_default_requests", "project_default_limits", "project_networks")
"""Settings of namespaces that the server creates."""
_GUARDS = "--tls-certificate and --tls-key, or --behind-proxy"


def check_together(values: Mapping[str, Any], sources: Mapping[str, str], wrong: Collection[str]) -> Iterator[Problem]:
    """Yield the errors of combinations. Settings in `wrong` are invalid by themselves, and already reported."""
    yield from _check_exposure(values, sources, wrong)
    for one, other in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
        if values[one] is not None and values[other] is None:
            yield _make(sources[one], f"has no effect without {_flag(other)}")
    if values["key"] is not None and sources["key_file"] != "default":
        yield _make(sources["key_file"], "conflicts with RUNYARD_KEY, which holds the key itself; set only one")
    if values["namespace"] is not None and values["namespace_per_project"] is True:
        yield _make(sources["namespace"], f"contradicts {sources['namespace_per_project']}; set only one")
    yield from _check_s3(values, sources, wrong)
    yield from _check_files_store(values, sources, wrong)


def _check_s3(values: Mapping[str, Any], sources: Mapping[str, str], wrong: Collection[str]) -> Iterator[Problem]:
    """Storage in S3 needs credentials, and a place of its own."""
    for place in ("logs", "files"):
        if place in wrong or not str(values[place]).startswith("s3://"):
            continue
        for name in ("s3_access_key", "s3_secret_key"):
            if values[name] is None:
                yield _make(sources[place], f"`{values[place]}` requires the variable RUNYARD_{name.upper()}")


def _check_files_store(
    values: Mapping[str, Any], sources: Mapping[str, str], wrong: Collection[str]
) -> Iterator[Problem]:
    """Clients must not reach what the server stores, nor get its own credentials."""
    place = None if "files_store" in wrong else values["files_store"]
    for name in ("logs", "files"):
        if place is not None and name not in wrong and _overlap(str(values[name]), place):
            yield _make(
                sources["files_store"],
                f"`{place}` overlaps {_flag(name)} `{values[name]}`: a project could read the storage of all others; "
                "use another bucket or prefix",
            )
    if values["s3_credentials_for_clients"] is not True:
        return
    where = sources["s3_credentials_for_clients"]
    if values["files_store"] is None:
        yield _make(where, "has no effect without --files-store")
    for name in ("s3_client_access_key", "s3_client_secret_key"):
        if values[name] is None:
            yield _make(where, f"requires the variable RUNYARD_{name.upper()}")
    own = values["s3_access_key"]
    if own is not None and own == values["s3_client_access_key"]:
        yield _make(
            where, "RUNYARD_S3_CLIENT_ACCESS_KEY is the key of the server itself; make one for this bucket only"
        )


def _overlap(one: str, other: str) -> bool:
    """Whether one place in S3 is within the other."""
    if not one.startswith("s3://"):
        return False
    first, second = f"{one}/", f"{other}/"
    return first.startswith(second) or second.startswith(first)


def list_warnings(values: Mapping[str, Any], sources: Mapping[str, str], *, is_whole: bool) -> Iterator[str]:
    """Yield warnings about combinations that are valid but probably a mistake.

    Pass `is_whole=False` if only some settings were read.
    """
    if sources["database"].startswith("--") and urlsplit(values["database"]).password:
        yield (
            "--database: a password on the command line is visible to every user of this machine; "
            "set RUNYARD_DATABASE instead"
        )
    if values["endpoint"] is None and not is_loopback(values["host"]):
        yield "--endpoint: not set; clients and pods get the listening address, which they may not be able to reach"
    if sources["trusted_proxies"] != "default" and not values["behind_proxy"]:
        yield f"{sources['trusted_proxies']}: has no effect without --behind-proxy"
    if values["engine"] == "kubernetes" and values["endpoint"] is None and is_loopback(values["host"]):
        yield (
            "--endpoint: not set; pods cannot reach the server at its loopback address: functions that report "
            "results, or read sources and files from it, fail"
        )
    if not values["namespace_per_project"]:
        for name in PROJECT_SETTINGS:
            if sources[name] != "default":
                yield f"{sources[name]}: has no effect without --namespace-per-project"
    if values["engine"] != "kubernetes":
        for name in (
            *("kubeconfig", "context", "namespace", "namespace_per_project"),
            *("launcher_image", "package_index"),
        ):
            if sources[name] != "default":
                yield f"{sources[name]}: has no effect without --engine kubernetes"
    if is_whole:
        yield from _list_server_warnings(values, sources)


def _list_server_warnings(values: Mapping[str, Any], sources: Mapping[str, str]) -> Iterator[str]:
    if values["behind_proxy"] and sources["trusted_proxies"] == "default" and not is_loopback(values["host"]):
        yield (
            "--trusted-proxies: not set; only a proxy on this machine is trusted. Behind any other proxy, all clients "
            "share one address and one rate limit: set the address or network of the proxy"
        )
    if not values["database"].startswith("sqlite") and values["logs"].startswith("database:"):
        where = "--logs" if sources["logs"] == "default" else sources["logs"]
        yield (
            f"{where}: run logs are stored in a file that only this server can read. If several servers share the "
            "database, use folder:PATH on a shared file system, or s3://bucket/prefix"
        )


def _check_exposure(values: Mapping[str, Any], sources: Mapping[str, str], wrong: Collection[str]) -> Iterator[Problem]:
    """A server that other machines can reach needs accounts, and TLS or a proxy that terminates it."""
    if "host" in wrong or "behind_proxy" in wrong:
        return
    host, is_reachable = values["host"], not is_loopback(values["host"])
    cause = f"{sources['host']} `{host}`" if is_reachable else f"{sources['behind_proxy']}"
    if values[_OPENED] is True:
        if is_reachable or values["behind_proxy"]:
            yield _make(sources[_OPENED], f"works on loopback only, and {cause} lets other machines in")
        elif values["auth"] == "accounts":
            yield _make(sources[_OPENED], f"contradicts {sources['auth']} `accounts`; set only one")
    elif values["auth"] == "open" and (is_reachable or values["behind_proxy"]):
        yield Problem(
            Code.SETTINGS_WRONG,
            (),
            f"{sources['auth']}: `open` needs no sign-in, and {cause} makes the server reachable from other machines",
            allowed="open on loopback, without a proxy",
            suggestion="accounts",
        )
    has_tls = values["tls_certificate"] is not None or values["tls_key"] is not None
    if is_reachable and not has_tls and not values["behind_proxy"]:
        yield _make(
            sources["host"],
            f"`{host}` is reachable from other machines, and passwords would be sent in clear: set {_GUARDS}",
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _make(where: str, message: str) -> Problem:
    return Problem(Code.SETTINGS_WRONG, (), f"{where}: {message}")
