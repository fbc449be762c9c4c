"""Kubernetes and its add-ons, compiled from the Go modules in `go/`, once, into the cache.

A program's key is the hash of sources, mod and sum file, flags and machine. The Go release is in `build.json` only: a
cached program serves without Go, and a newer Go does not make it wrong.
"""

import hashlib
import json
import os
import re
from pathlib import Path

from testbed.cache import cache_dir, ensure_entry
from testbed.errors import TestbedError
from testbed.gobuild import BuildRecord, Product, build_product, release_of

_GO = Path(__file__).parent / "go"
# Minor version → mod file. The patch release is written there, and only there.
_KUBERNETES = {"1.36": "go.mod", "1.34": "go-1.34.mod"}
# Name → package to build, and the module that its version is taken from.
_ADDONS = {
    "coredns": ("./coredns", "github.com/coredns/coredns"),
    "device-plugin": ("./device-plugin", "k8s.io/kubelet"),
    "kwok": ("sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
    "local-path-provisioner": ("github.com/rancher/local-path-provisioner",) * 2,
    "metrics-server": ("sigs.k8s.io/metrics-server/cmd/metrics-server", "sigs.k8s.io/metrics-server"),
    "pause": ("./pause", ""),
}
DEFAULT_KUBERNETES = "1.36"
KUBERNETES_VERSIONS = tuple(_KUBERNETES)
ADDON_NAMES = tuple(_ADDONS)


def ensure_kube(version: str = DEFAULT_KUBERNETES) -> Path:
    """The multi-call Kubernetes program of a minor version. Idempotent; blocks for minutes the first time."""
    return _ensure_program(_kube(version))


def is_cached(version: str = DEFAULT_KUBERNETES) -> bool:
    """Whether the Kubernetes program is cached, so that Go is not needed."""
    return _is_cached(_kube(version))


def _is_cached(product: Product) -> bool:
    return (cache_dir() / "bin" / f"{product.name}-{_key(product)}" / product.program).exists()


def ensure_addon(name: str) -> Path:
    """The program of an add-on. Idempotent; blocks while it is built."""
    if name not in _ADDONS:
        raise TestbedError(f"unknown add-on `{name}`; allowed: {', '.join(_ADDONS)}")
    folder, (package, module) = _GO / "addons", _ADDONS[name]
    version = _read_requirement(folder / "go.mod", module) if module else ""
    return _ensure_program(
        Product(
            name=name,
            version=version,
            program=name,
            module=folder,
            modfile="go.mod",
            package=package,
            shares_with=_kube(DEFAULT_KUBERNETES).name,
        )
    )


def ensure_reference_parser() -> Path:
    """The program that parses image references with the library of the container runtimes. Idempotent."""
    return _ensure_program(_reference_parser())


def is_reference_parser_cached() -> bool:
    """Whether that program is cached, so that Go is not needed."""
    return _is_cached(_reference_parser())


def _reference_parser() -> Product:
    folder = _GO / "references"
    return Product(
        name="references",
        version=_read_requirement(folder / "go.mod", "github.com/distribution/reference"),
        program="references",
        module=folder,
        modfile="go.mod",
        package=".",
        shares_with=_kube(DEFAULT_KUBERNETES).name,
    )


def ensure_traefik() -> Path:
    """The program of Traefik, a controller of Ingress and of the Gateway API. Idempotent; blocks for long."""
    return _ensure_program(_traefik())


def is_traefik_cached() -> bool:
    """Whether Traefik is cached. Nothing but `make test-ingress` builds it."""
    return _is_cached(_traefik())


def _traefik() -> Product:
    folder, module = _GO / "traefik", "github.com/traefik/traefik/v3"
    return Product(
        name="traefik",
        version=_read_requirement(folder / "go.mod", module),
        program="traefik",
        module=folder,
        modfile="go.mod",
        package=f"{module}/cmd/traefik",
        shares_with="traefik",
    )


def required_go() -> str:
    """The Go release that compiles everything here."""
    files = [*(_GO / "kube").glob("*.mod"), *(_GO / name / "go.mod" for name in ("addons", "references", "traefik"))]
    lines = [re.search(r"^go (\S+)", file.read_text(), re.MULTILINE) for file in files]
    return max((line[1] for line in lines if line), key=release_of)


def kubernetes_release(version: str) -> str:
    """The full release behind a minor version: "1.36" → "1.36.3"."""
    return _kube(version).version


def read_record(program: Path) -> BuildRecord:
    """The record of a program that `ensure_kube` or `ensure_addon` returned."""
    return BuildRecord(**json.loads((program.parent / "build.json").read_text()))


def _kube(version: str) -> Product:
    folder = _GO / "kube"
    releases = {
        minor: _read_requirement(folder / modfile, "k8s.io/kubernetes") for minor, modfile in _KUBERNETES.items()
    }
    for minor, release in releases.items():
        if version in (minor, release):
            return Product(
                name=f"kube-{minor}",
                version=release,
                program="kube",
                module=folder,
                modfile=_KUBERNETES[minor],
                package=".",
                shares_with=f"kube-{minor}",
                ldflags=f"-s -w {_version_stamps(release)}",
            )
    raise TestbedError(f"unknown Kubernetes version `{version}`; allowed: {', '.join(releases)}")


def _version_stamps(release: str) -> str:
    """Set the version of the components, which otherwise report v0.0.0-master."""
    major, minor, _patch = release.split(".")
    values = {"gitVersion": f"v{release}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    return " ".join(
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in values.items()
    )


def _read_requirement(modfile: Path, module: str) -> str:
    """The version that a mod file requires of a module, without its `v`."""
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} v(\S+)", modfile.read_text(), re.MULTILINE)
    if found is None:
        raise TestbedError(f"{modfile} does not require {module}: restore it from the repository")
    return found[1]


def _key(product: Product) -> str:
    digest = hashlib.sha256()
    modfile = product.module / product.modfile
    files = [modfile, modfile.with_suffix(".sum")]
    if product.package.startswith("."):
        files += sorted((product.module / product.package).rglob("*.go"))
    for file in files:
        digest.update(f"{file.relative_to(product.module)}\0".encode() + file.read_bytes() + b"\0")
    digest.update(f"{product.package}\0{product.ldflags}\0{os.uname().machine}".encode())
    return digest.hexdigest()[:12]


def _ensure_program(product: Product) -> Path:
    def make(folder: Path, lock: int) -> None:
        build_product(product, folder=folder, lock=lock)

    return ensure_entry("bin", name=product.name, key=_key(product), holds=product.program, make=make)
