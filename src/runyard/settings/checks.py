"""Settings that bear on each other: what cannot be together, and what is odd together."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from runyard.settings.settings import is_loopback
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

_GUARDS = "--tls-certificate and --tls-key, or --behind-proxy"


def check_together(values: Mapping[str, Any], sources: Mapping[str, str], wrong: Collection[str]) -> Iterator[Problem]:
    """What is wrong with several settings at once. What is wrong by itself (`wrong`) was told and counts as given."""
    yield from _check_exposure(values, sources, wrong)
    for one, other in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
        if values[one] is not None and values[other] is None:
            yield _make(sources[one], f"is of no use without {_flag(other)}")
    if values["key"] is not None and sources["key_file"] != "default":
        yield _make(sources["key_file"], "names a file while RUNYARD_KEY holds the key: give one of the two")
    if "logs" not in wrong and str(values["logs"]).startswith("s3://"):
        for name in ("s3_access_key", "s3_secret_key"):
            if values[name] is None:
                yield _make(sources["logs"], f"`{values['logs']}` needs the variable RUNYARD_{name.upper()}")


def list_doubts(values: Mapping[str, Any], sources: Mapping[str, str], *, is_whole: bool) -> Iterator[str]:
    """What may be meant and probably is not; not `is_whole` where only some settings were looked at."""
    if sources["database"].startswith("--") and urlsplit(values["database"]).password:
        yield "--database: every user of this machine sees a password on a command line; set RUNYARD_DATABASE instead"
    if values["endpoint"] is None and not is_loopback(values["host"]):
        yield "--endpoint: is not given; clients and pods are told an address that they may not be able to reach"
    if sources["trusted_proxies"] != "default" and not values["behind_proxy"]:
        yield f"{sources['trusted_proxies']}: counts only with --behind-proxy"
    if is_whole:
        yield from _list_doubts_of_several(values, sources)


def _list_doubts_of_several(values: Mapping[str, Any], sources: Mapping[str, str]) -> Iterator[str]:
    if values["behind_proxy"] and sources["trusted_proxies"] == "default" and not is_loopback(values["host"]):
        yield (
            "--trusted-proxies: is not given; only a proxy on this machine is believed whom it speaks for, and behind "
            "any other all clients count as one address: name the proxy's address or network"
        )
    if not values["database"].startswith("sqlite") and values["logs"].startswith("database:"):
        where = "--logs" if sources["logs"] == "default" else sources["logs"]
        yield (
            f"{where}: logs of runs go to a file of this server alone, which others that share the database do not "
            "see: where there are several, give folder:PATH (a shared one) or s3://bucket/prefix"
        )


def _check_exposure(values: Mapping[str, Any], sources: Mapping[str, str], wrong: Collection[str]) -> Iterator[Problem]:
    """Whoever can be reached from elsewhere has accounts, and nobody reads along."""
    if "host" in wrong or "behind_proxy" in wrong:
        return
    host, is_reachable = values["host"], not is_loopback(values["host"])
    if values["auth"] == "open" and (is_reachable or values["behind_proxy"]):
        reached = f"{sources['host']}: `{host}` is" if is_reachable else f"{sources['behind_proxy']}: a proxy makes it"
        yield Problem(
            Code.SETTINGS_WRONG,
            (),
            f"{sources['auth']}: `open` lets everybody in, and {reached} reachable from elsewhere",
            allowed="open on loopback, without a proxy",
            suggestion="accounts",
        )
    has_tls = values["tls_certificate"] is not None or values["tls_key"] is not None
    if is_reachable and not has_tls and not values["behind_proxy"]:
        yield _make(
            sources["host"], f"`{host}` is reachable from elsewhere, and passwords would be too: give {_GUARDS}"
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _make(where: str, message: str) -> Problem:
    return Problem(Code.SETTINGS_WRONG, (), f"{where}: {message}")
