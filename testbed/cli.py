"""`python -m testbed`: start, inspect and stop clusters."""

import argparse
import collections
import dataclasses
import difflib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from testbed import build, doctor
from testbed.addresses import SLOTS
from testbed.cluster import Cluster, describe_running, prepare, remove_remains
from testbed.errors import TestbedError
from testbed.site import DEFAULT_NAME, Options, cluster_directory, find_site, iter_names
from testbed.supervision import SupervisorHandle, environment_without_proxies

_EPILOG = """\
examples:
  python -m testbed up                      a cluster with one real node, DNS and storage
  python -m testbed up --name big --no-node --fake-nodes 500
  python -m testbed up --flag kube-apiserver=--v=4 --gpus 4
  python -m testbed kubectl get pods -A
  python -m testbed kubectl --name big get nodes
  eval "$(python -m testbed kubeconfig --export)"
  python -m testbed down
"""


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit code. Expected failures are one paragraph on standard error."""
    own, foreign = _split_at_kubectl(argv)
    arguments = _parser().parse_args(own)
    arguments.rest = foreign
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except (TestbedError, OSError) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("testbed: interrupted", file=sys.stderr)
        return 130


def _split_at_kubectl(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split our arguments from kubectl's: all that follow its name, except for a `--name N` directly after it."""
    if "kubectl" not in argv:
        return argv, []
    end = argv.index("kubectl") + 1
    following = argv[end] if end < len(argv) else ""
    end += 2 if following == "--name" else int(following.startswith("--name="))
    return argv[:end], argv[end:]


def _up(arguments: argparse.Namespace) -> int:
    options = Options(
        kubernetes=arguments.kubernetes,
        node=arguments.node,
        dns=arguments.dns,
        storage=arguments.storage,
        metrics=arguments.metrics,
        audit=arguments.audit,
        gpus=arguments.gpus,
        fake_nodes=arguments.fake_nodes,
        flags=tuple(_parse_flag(text) for text in arguments.flag),
    )
    if arguments.slot is not None and not 0 <= arguments.slot < SLOTS:
        raise TestbedError(f"--slot {arguments.slot}: out of range; allowed: 0 to {SLOTS - 1}")
    site = find_site(arguments.name)
    if site and SupervisorHandle(site.directory).pid:
        if site.options != options:
            raise TestbedError(
                f"cluster {arguments.name} is already running with other options: "
                f"{_differences(site.options, options)}; "
                f"run `python -m testbed down --name {arguments.name}` first, or choose another --name"
            )
        cluster = Cluster(site)
        cluster.check_alive()
        if not cluster.api.is_ready():
            raise TestbedError(f"cluster {arguments.name} is starting, or does not answer: see `status`")
        print(f"cluster {arguments.name} is already running\nKUBECONFIG={cluster.kubeconfig}")
        return 0
    cluster = Cluster.up(arguments.name, options, slot=arguments.slot, say=_say)
    print(f"KUBECONFIG={cluster.kubeconfig}")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


def _differences(old: Options, new: Options) -> str:
    before, after = dataclasses.asdict(old), dataclasses.asdict(new)
    return ", ".join(key.replace("_", " ") for key in before if before[key] != after[key])


def _parse_flag(text: str) -> tuple[str, str]:
    component, _, flag = text.partition("=")
    if component not in COMPONENTS:
        near = difflib.get_close_matches(component, COMPONENTS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise TestbedError(f"--flag {text}: unknown component `{component}`: {hint}allowed: {', '.join(COMPONENTS)}")
    if not flag.startswith("-"):
        raise TestbedError(f"--flag {text}: not a flag; allowed: COMPONENT=--FLAG=VALUE, such as kube-apiserver=--v=4")
    return component, flag


def _down(arguments: argparse.Namespace) -> int:
    names = iter_names() if arguments.all else [arguments.name]
    for name in names:
        began = time.monotonic()
        if remove_remains(name):
            print(f"cluster {name} removed ({time.monotonic() - began:.1f} s)")
        else:
            print(f"no cluster {name} ({describe_running()})")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    names = [arguments.name] if arguments.name else iter_names()
    if not names:
        print("no clusters")
    return max([_print_status(name) for name in names], default=0)


def _print_status(name: str) -> int:
    site = find_site(name)
    if site is None or SupervisorHandle(site.directory).pid is None:
        left = cluster_directory(name).exists()
        remedy = f", but crashed and not cleaned up: run `python -m testbed down --name {name}`"
        print(f"{name}: not running{remedy if left else ''}")
        return 1
    cluster = Cluster(site)
    is_ready = cluster.api.is_ready()
    print(f"{name}: Kubernetes {site.options.kubernetes}, {cluster.server}, {'ready' if is_ready else 'NOT READY'}")
    memory = cluster.memory_bytes()
    healthy = is_ready
    for component in cluster.components().values():
        if component.is_running:
            print(f"  {component.name:26} running  {memory[component.name] // 1024**2:5} MiB")
        elif component.has_died:
            healthy = False
            print(f"  {SupervisorHandle(site.directory).describe_death(component)}")
        else:
            print(f"  {component.name:26} stopped")
    print(f"  {'total':26}          {sum(memory.values()) // 1024**2:5} MiB")
    return 0 if healthy else 1


def _kubeconfig(arguments: argparse.Namespace) -> int:
    cluster = Cluster.find(arguments.name)
    print(f"export KUBECONFIG={cluster.kubeconfig}" if arguments.export else cluster.kubeconfig)
    return 0


def _kubectl(arguments: argparse.Namespace) -> int:
    cluster = Cluster.find(arguments.name)
    program = str(cluster.directory / "bin/kubectl")
    environment = {**environment_without_proxies(), "KUBECONFIG": str(cluster.kubeconfig)}
    os.execve(program, ["kubectl", *arguments.rest], environment)


def _load_image(arguments: argparse.Namespace) -> int:
    Cluster.find(arguments.name).load_image(arguments.archive)
    print(f"{arguments.archive} loaded")
    return 0


def _logs(arguments: argparse.Namespace) -> int:
    cluster = Cluster.find(arguments.name)
    path = cluster.site.logs / f"{arguments.component}.log"
    if not path.is_file():
        known = sorted(entry.stem for entry in cluster.site.logs.glob("*.log"))
        hint = "; to have an audit log, start the cluster with --audit" if arguments.component == "audit" else ""
        raise TestbedError(f"no log of `{arguments.component}`; allowed: {', '.join(known)}{hint}")
    if arguments.tail is not None and arguments.tail < 0:
        raise TestbedError(f"--tail {arguments.tail}: out of range; allowed: 0 or more")
    with path.open("rb") as file:
        lines = file if arguments.tail is None else collections.deque(file, maxlen=arguments.tail)
        sys.stdout.buffer.writelines(lines)
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    if arguments.install:
        doctor.install_packages()
    findings = [*doctor.examine(), *doctor.examine_build(), *doctor.examine_tests()]
    for finding in findings:
        print(
            f"{'ok     ' if finding.is_there else 'MISSING'} {finding.what}"
            + ("" if finding.is_there else f": {finding.remedy}")
        )
    print(f"        cgroup version {doctor.cgroup_version()}")
    return 0 if all(finding.is_there for finding in findings) else 1


def _setup(arguments: argparse.Namespace) -> int:
    """Called by `make`: install, and with --build compile, what the tests need for one Kubernetes version.

    A machine that cannot run a cluster is reported, and fails only where a cluster is required: the tests that
    need one skip themselves. A failed installation or build is always a failure.
    """
    doctor.install_packages()
    for finding in doctor.examine_tests():
        if not finding.is_there:
            print(f"testbed: SKIPPED, some tests: missing {finding.what} ({finding.remedy})", file=sys.stderr)
    version = arguments.kubernetes
    lacking = doctor.missing(node=True, kubernetes=version)
    if lacking:
        reasons = "; ".join(f"{finding.what} ({finding.remedy})" for finding in lacking)
        print(f"testbed: SKIPPED, Kubernetes {version} cannot run here: it lacks {reasons}", file=sys.stderr)
        return 1 if os.environ.get(doctor.REQUIRED_VARIABLE) == "1" else 0
    if arguments.build:
        prepare(Options(kubernetes=version, metrics=True, gpus=1, fake_nodes=1))
    if arguments.traefik:
        build.ensure_traefik()
    return 0


_NO_CLUSTER = ""
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "coredns",
    "local-path-provisioner",
    "metrics-server",
    "device-plugin",
    "kwok",
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m testbed",
        description="A real Kubernetes on this machine, for tests and trials.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_up(_command(commands, "up", _up, "start a cluster"))
    down = _command(commands, "down", _down, "stop a cluster and remove every trace, also after a crash")
    down.add_argument("--all", action="store_true", help="every cluster of this state folder")
    _command(commands, "status", _status, "what runs; exit code 1 when something died", default=None)
    kubeconfig = _command(commands, "kubeconfig", _kubeconfig, "print the path of the admin's kubeconfig")
    kubeconfig.add_argument("--export", action="store_true", help="as a line for eval")
    _command(commands, "kubectl", _kubectl, "run kubectl as admin, with all that follows")
    load = _command(commands, "load-image", _load_image, "import an image archive into the node")
    load.add_argument("archive", type=Path)
    logs = _command(commands, "logs", _logs, "print a component's log")
    logs.add_argument("component", help=f"{', '.join(COMPONENTS)}, containerd, supervisor or audit")
    logs.add_argument("--tail", type=int, metavar="N", help="only the last N lines")
    doc = _command(commands, "doctor", _doctor, "say what this machine lacks and how to get it", default=_NO_CLUSTER)
    doc.add_argument("--install", action="store_true", help="install missing Debian packages first")
    setup = _command(commands, "setup", _setup, "install the packages that a cluster needs", default=_NO_CLUSTER)
    setup.add_argument("--build", action="store_true", help="and compile all that the tests use")
    setup.add_argument("--traefik", action="store_true", help="and compile Traefik: a quarter of an hour, once")
    _add_version(setup)
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    *,
    default: str | None = DEFAULT_NAME,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    if default != _NO_CLUSTER:
        parser.add_argument("--name", default=default, help=f"the cluster ({default or 'all of them'} by default)")
    parser.set_defaults(run=run)
    return parser


def _add_up(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_version(parser)
    add("--no-node", dest="node", action="store_false", help="a control plane only")
    add("--no-dns", dest="dns", action="store_false", help="no cluster DNS")
    add("--no-storage", dest="storage", action="store_false", help="no StorageClass")
    add("--metrics", action="store_true", help="with metrics-server")
    add("--audit", action="store_true", help="with an audit log: `logs audit`")
    add("--gpus", type=int, default=0, metavar="N", help="pretend GPUs (nvidia.com/gpu) on the node")
    add("--fake-nodes", type=int, default=0, metavar="N", help="nodes that KWOK pretends")
    add("--flag", action="append", default=[], metavar="COMPONENT=FLAG", help="a flag for a component")
    add("--slot", type=int, metavar="N", help="an address range, 0 to 63; chosen by itself")


def _add_version(parser: argparse.ArgumentParser) -> None:
    versions = " or ".join(
        f"{version} (default)" if version == build.DEFAULT_KUBERNETES else version
        for version in build.KUBERNETES_VERSIONS
    )
    parser.add_argument("--kubernetes", default=build.DEFAULT_KUBERNETES, metavar="VERSION", help=versions)
