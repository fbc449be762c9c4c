"""Turns an admitted pod into a plan of `procs`, as a kubelet would. Pure: files and the machine are given.

Only what was admitted is read: the pod, and the Secret and ConfigMaps beside it. A field that this machine cannot
honour is refused or listed in `find_not_enforced`; none is dropped in silence.
"""

import base64
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runyard.app.engine import EngineRefusal
from runyard.domain.reasons import Reason
from runyard.engines.local.user_numbers import is_project_user
from runyard.manifests.workloads import DEFAULT_GRACE_SECONDS
from runyard.pods.demand import pod_limits
from runyard.procs import Command, Identity, Limits, Mount, Plan, Readiness
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.launcher import LAUNCHER_NAME

MAIN = "main"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOOPBACK = "127.0.0.1"
LONGEST_READINESS_PERIOD_SECONDS = 1.0
"""How often a service is asked at least whether it is ready: nothing but this machine is loaded by it."""
LARGEST_EXPANSION = 2 << 20
"""Characters of an environment, and of a command, once their variables are expanded; Linux takes no more."""
LARGEST_SETUP_BYTES = 2 << 30
"""How much memory the set-up of a run may use if the run's own limit is lower."""
MOST_SETUP_MILLIS = 1000
"""How many thousandths of a core the set-up of a run may use if the run's own limit is lower."""
_VARIABLE = re.compile(r"\$(?:\$|\(([-._a-zA-Z][-._a-zA-Z0-9]*)\))")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedRun:
    """The objects of a run that were admitted, as they are executed."""

    workload: Mapping[str, Any]
    """The Job or Deployment."""
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """The values of each Secret, by name and key."""
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    claims: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The run's own claims, by name."""
    services: Sequence[Mapping[str, Any]] = ()

    @property
    def pod(self) -> Mapping[str, Any]:
        """The spec of its pod."""
        spec: Mapping[str, Any] = self.workload["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Mapping[str, Any]:
        """The container that executes the run."""
        first: Mapping[str, Any] = self.pod["containers"][0]
        return first

    @property
    def limits(self) -> Mapping[str, Quantity]:
        """The limits of its container. The init container that installs the launcher in a pod does not run here."""
        return pod_limits({**self.pod, "initContainers": []})

    @property
    def is_service(self) -> bool:
        """Whether it is started again whenever it ends."""
        return bool(self.workload["kind"] == "Deployment")

    @property
    def needs_launcher(self) -> bool:
        """Whether the launcher starts it."""
        return any(one["name"] == LAUNCHER_NAME for one in self.pod.get("initContainers") or ())


def read_admitted(objects: Sequence[Mapping[str, Any]]) -> AdmittedRun:
    """Sort the objects of a run."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for item in objects:
        by_kind.setdefault(item["kind"], []).append(item)
    (workload,) = [*by_kind.get("Job", []), *by_kind.get("Deployment", [])]
    return AdmittedRun(
        workload=workload,
        secrets={
            item["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in item["data"].items()}
            for item in by_kind.get("Secret", ())
        },
        config_maps={item["metadata"]["name"]: item.get("data") or {} for item in by_kind.get("ConfigMap", ())},
        claims={item["metadata"]["name"]: item for item in by_kind.get("PersistentVolumeClaim", ())},
        services=tuple(by_kind.get("Service", ())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who executes runs on this machine."""

    user: int
    """Of the server."""
    groups: frozenset[int]
    """Of the server."""
    project_user: int | None
    """As root: the user of the project, which executes its runs by default."""
    accounts: Mapping[int, str] = field(default_factory=dict)
    """Users of this machine by number, whose files and processes a run as their user could reach."""
    account_groups: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_root(self) -> bool:
        """Whether runs can have users of their own."""
        return self.user == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The folders of one release, all of which exist when it starts."""

    work: Path
    """The process starts here, unless the run says where."""
    temporary: Path
    termination: Path
    """The folder in which the process leaves its last words."""
    volumes: Path
    """Of the release: empty when it starts."""
    run_claims: Path
    """Of the run's own claims."""
    kept_volumes: Path
    """Of the project: `<claim>/data`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What must be there before a python function can start."""

    steps: tuple[Command, ...] = ()
    python: str | None = None
    """The interpreter of its environment."""
    path: tuple[str, ...] = ()
    """Folders before the others of PATH."""
    reachable: tuple[str, ...] = ()
    launcher: Path | None = None
    environment: str | None = None
    """The key of its virtual environment."""

    def with_step(self, step: Command, *, reachable: tuple[str, ...]) -> "Preparation":
        """The same after one more step, which needs these paths."""
        return replace(self, steps=(*self.steps, step), reachable=(*self.reachable, *reachable))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """Everything that a plan is made of."""

    run: AdmittedRun
    identity: Identity | None
    paths: Paths
    preparation: Preparation = Preparation()
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the machine: its GPUs."""
    log_bytes: int | None = None
    processes: int | None = None


def choose_identity(run: AdmittedRun, owner: Owner) -> Identity | None:
    """The user that executes the run, None for the server's own; raises `EngineRefusal` if that is impossible."""
    context = run.pod.get("securityContext") or {}
    user, group, shared = (context.get(name) for name in ("runAsUser", "runAsGroup", "fsGroup"))
    if owner.is_root:
        own = owner.project_user
        if own is None:
            raise EngineRefusal(Reason.USER_IMPOSSIBLE, "the project has no user on this machine")
        _refuse_users_of_others(owner, user=user, group=group, shared=shared)
        groups = () if shared is None else (shared,)
        return Identity(uid=own if user is None else user, gid=own if group is None else group, groups=groups)
    wanted = {
        "run_as_user": (user, {owner.user}),
        "run_as_group": (group, owner.groups),
        "fs_group": (shared, owner.groups),
    }
    for name, (given, possible) in wanted.items():
        if given is not None and given not in possible:
            message = (
                f"{name} {given} is impossible: the server is not root, so runs are executed as its own user "
                f"{owner.user}; leave {name} out, or start the server as root"
            )
            raise EngineRefusal(Reason.USER_IMPOSSIBLE, message)
    return None


def _refuse_users_of_others(owner: Owner, *, user: int | None, group: int | None, shared: int | None) -> None:
    """Refuse users of other projects and of people: a run as one of them could read all that is theirs."""
    for name, given, accounts in (
        ("run_as_user", user, owner.accounts),
        ("run_as_group", group, owner.account_groups),
        ("fs_group", shared, owner.account_groups),
    ):
        if given is None or given == owner.project_user:
            continue
        whose = "of projects" if is_project_user(given) else f"of {accounts[given]}" if given in accounts else None
        if whose is not None:
            message = (
                f"{name} {given} is impossible: it is a number {whose} on this machine; choose one that nobody has, "
                f"or leave {name} out"
            )
            raise EngineRefusal(Reason.USER_IMPOSSIBLE, message)


def make_plan(inputs: PlanInputs) -> Plan:
    """The plan of a run that is executed as a process; raises `EngineRefusal` if it cannot be one."""
    run, container = inputs.run, inputs.run.container
    ports = [port["containerPort"] for port in container.get("ports") or ()]
    env = _make_environment(inputs, ports)
    limits = run.limits
    return Plan(
        steps=inputs.preparation.steps,
        main=Command(
            name=MAIN,
            argv=_make_argv(inputs, env),
            env=env,
            cwd=container.get("workingDir") or str(inputs.paths.work),
            identity=inputs.identity,
        ),
        is_restarted=run.is_service,
        retries=0 if run.is_service else int(run.workload["spec"].get("backoffLimit") or 0),
        grace_seconds=get_grace_seconds(run),
        limits=Limits(
            memory_bytes=_count(limits.get("memory")),
            cpu_millis=None if "cpu" not in limits else limits["cpu"].milli_value,
            processes=inputs.processes,
            log_bytes=inputs.log_bytes,
        ),
        step_limits=_limit_setup(inputs),
        mounts=tuple(iter_mounts(inputs)),
        reachable=tuple(_iter_reachable(inputs)),
        # A command of the user's own may know its port from the run only; the launcher is told any free one.
        ports={port: None if run.needs_launcher else port for port in ports},
        readiness=read_readiness(container),
        termination_path=str(inputs.paths.termination / "message"),
    )


def _limit_setup(inputs: PlanInputs) -> Limits:
    """The limits of the set-up: those of the run, but enough to install packages. It executes code of the user, too."""
    memory, cpu = _count(inputs.run.limits.get("memory")), inputs.run.limits.get("cpu")
    return Limits(
        memory_bytes=None if memory is None else max(memory, LARGEST_SETUP_BYTES),
        cpu_millis=None if cpu is None else max(cpu.milli_value, MOST_SETUP_MILLIS),
        processes=inputs.processes,
        log_bytes=inputs.log_bytes,
    )


def get_grace_seconds(run: AdmittedRun) -> int:
    """How long the run has between SIGTERM and SIGKILL."""
    grace = run.pod.get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_SECONDS if grace is None else int(grace)


def read_variables(run: AdmittedRun, *, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of the container on top of `base`, with `$(NAME)` expanded as kubelet does.

    Raises `EngineRefusal` if it is too large then: variables that name each other twice double in size each time.
    """
    env = dict(base)
    room = LARGEST_EXPANSION
    for entry in run.container.get("env") or ():
        if "valueFrom" in entry:
            reference = entry["valueFrom"]["secretKeyRef"]
            env[entry["name"]] = run.secrets[reference["name"]][reference["key"]]
        else:
            env[entry["name"]] = expand(entry.get("value") or "", env, most=room)
        room -= len(env[entry["name"]])
    return env


def expand_words(words: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Expand each word of a command; raises `EngineRefusal` if they are too large together."""
    expanded: list[str] = []
    room = LARGEST_EXPANSION
    for word in words:
        expanded.append(expand(word, env, most=room))
        room -= len(expanded[-1])
    return expanded


def expand(text: str, env: Mapping[str, str], *, most: int | None = None) -> str:
    """Replace `$(NAME)` by the variable's value; one that is not set stays as written, and `$$` is a dollar.

    Raises `EngineRefusal` before the result has more than `most` characters (`LARGEST_EXPANSION`).
    """
    room = LARGEST_EXPANSION if most is None else most

    def choose(found: re.Match[str]) -> str:
        nonlocal room
        name = found[1]
        value = "$" if name is None else env.get(name, found[0])
        room -= len(value)
        if room < 0:
            message = (
                f"the environment or the command is too large once its variables are expanded; allowed: at most "
                f"{LARGEST_EXPANSION} characters"
            )
            raise EngineRefusal(Reason.START_FAILED, message)
        return value

    return _VARIABLE.sub(choose, text)


def read_readiness(container: Mapping[str, Any]) -> Readiness | None:
    """The readiness probe of the container."""
    probe = container.get("readinessProbe")
    if probe is None:
        return None
    http = probe.get("httpGet")
    return Readiness(
        port=(http or probe["tcpSocket"])["port"],
        path=None if http is None else http["path"],
        period_seconds=min(probe.get("periodSeconds", 10), LONGEST_READINESS_PERIOD_SECONDS),
        timeout_seconds=probe.get("timeoutSeconds", 1),
    )


def _make_environment(inputs: PlanInputs, ports: Sequence[int]) -> dict[str, str]:
    paths, preparation = inputs.paths, inputs.preparation
    base = {
        "PATH": ":".join((*preparation.path, SYSTEM_PATH)),
        "HOME": str(paths.work),
        "TMPDIR": str(paths.temporary),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        **inputs.variables,
    }
    env = read_variables(inputs.run, base=base)
    env |= {
        "RUNYARD_WORK": str(paths.work),
        "RUNYARD_TERMINATION_LOG": str(paths.termination / "message"),
    }
    if ports:
        env |= {"RUNYARD_HOST": LOOPBACK, "RUNYARD_PORT": f"$(PORT_{ports[0]})"}
        env |= {f"RUNYARD_PORT_{port}": f"$(PORT_{port})" for port in ports}
    return env


def _make_argv(inputs: PlanInputs, env: Mapping[str, str]) -> tuple[str, ...]:
    container, preparation = inputs.run.container, inputs.preparation
    args = expand_words(container.get("args") or (), env)
    if inputs.run.needs_launcher:
        if preparation.python is None or preparation.launcher is None:
            raise EngineRefusal(Reason.START_FAILED, "there is no launcher to start the function with")
        return (preparation.python, "-u", str(preparation.launcher), *args)
    command = expand_words(container.get("command") or (), env)
    if not command:
        raise EngineRefusal(Reason.START_FAILED, "the run has no command")
    return (*command, *args)


def iter_mounts(inputs: PlanInputs, *, left_out: Collection[str] = ()) -> Iterator[Mount]:
    """What the container finds at its mount paths, without some volumes; raises `EngineRefusal`."""
    volumes = {volume["name"]: volume for volume in inputs.run.pod.get("volumes") or ()}
    for mount in inputs.run.container.get("volumeMounts") or ():
        if mount["name"] != LAUNCHER_NAME and mount["name"] not in left_out:
            yield _make_mount(inputs, volumes[mount["name"]], mount)


def _make_mount(inputs: PlanInputs, volume: Mapping[str, Any], mount: Mapping[str, Any]) -> Mount:
    where = {
        "target": mount["mountPath"],
        "sub_path": mount.get("subPath"),
        "is_read_only": bool(mount.get("readOnly")),
    }
    if "secret" in volume or "configMap" in volume:
        contents, mode = _read_files(inputs.run, volume)
        return Mount(kind="files", contents=contents, mode=mode, **where)
    if (empty := volume.get("emptyDir")) is not None and empty.get("medium") == "Memory":
        size = empty.get("sizeLimit")
        return Mount(
            kind="tmpfs", size_bytes=None if size is None else Quantity.parse(size).value, mode=0o1777, **where
        )
    return Mount(kind="bind", source=str(get_source(inputs, volume)), **where)


def get_source(inputs: PlanInputs, volume: Mapping[str, Any]) -> Path:
    """The folder behind a volume; raises `EngineRefusal` if there can be none."""
    name = volume["name"]
    if "emptyDir" in volume or "ephemeral" in volume:
        return inputs.paths.volumes / str(name)
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        claim_name = str(claim["claimName"])
        if claim_name in inputs.run.claims:
            return inputs.paths.run_claims / claim_name
        return inputs.paths.kept_volumes / claim_name / "data"
    raise EngineRefusal(Reason.MOUNT_IMPOSSIBLE, f"volume {name}: an image cannot be mounted into a process")


def _read_files(run: AdmittedRun, volume: Mapping[str, Any]) -> tuple[dict[str, str], int]:
    if (secret := volume.get("secret")) is not None:
        values = run.secrets[secret["secretName"]]
        return {item["path"]: values[item["key"]] for item in secret["items"]}, int(secret.get("defaultMode", 0o644))
    config_map = volume["configMap"]
    return dict(run.config_maps[config_map["name"]]), int(config_map.get("defaultMode", 0o644))


def _iter_reachable(inputs: PlanInputs) -> Iterator[str]:
    paths, preparation = inputs.paths, inputs.preparation
    yield from map(str, (paths.work, paths.temporary, paths.termination))
    yield from preparation.reachable
    if preparation.launcher is not None:
        yield str(preparation.launcher)


def list_kept_claims(run: AdmittedRun) -> list[str]:
    """The claims that it mounts and that outlive it."""
    sources = [volume.get("persistentVolumeClaim") for volume in run.pod.get("volumes") or ()]
    names = [source["claimName"] for source in sources if source is not None]
    return sorted({name for name in names if name not in run.claims})


def find_memory_limit(run: AdmittedRun) -> int | None:
    """The memory limit of the run, in bytes."""
    return _count(run.limits.get("memory"))


def describe_service(run: AdmittedRun) -> dict[str, Any] | None:
    """What is known of a service before it runs."""
    if not run.services:
        return None
    first = run.services[0]
    ports = [
        {"name": port.get("name"), "port": port["port"], "target_port": port["targetPort"]}
        for port in first["spec"]["ports"]
    ]
    return {"type": first["spec"]["type"], "name": first["metadata"]["name"], "ports": ports}


def find_not_enforced(run: AdmittedRun, *, replicas: int, is_container: bool = False) -> list[str]:
    """What the run asks for and a single machine does not do, in words."""
    done = ("host_aliases",) if is_container else ()
    found = _iter_not_enforced(run, replicas)
    return [f"{what} has no effect: {why}" for what, why in found if what not in done]


_ONE_MACHINE = "the local engine has one machine"
_FIELDS = {
    "nodeSelector": "node_selector",
    "tolerations": "tolerations",
    "affinity": "affinity",
    "topologySpreadConstraints": "topology_spread",
    "priorityClassName": "priority_class",
    "schedulerName": "scheduler_name",
}
_OTHERS = {
    "runtimeClassName": ("runtime_class", "the local engine has one way to execute runs"),
    "serviceAccountName": ("service_account", "there is no cluster"),
    "hostAliases": ("host_aliases", "the machine's own names are used"),
}


def _iter_not_enforced(run: AdmittedRun, replicas: int) -> Iterator[tuple[str, str]]:
    pod = run.pod
    yield from ((name, _ONE_MACHINE) for key, name in _FIELDS.items() if pod.get(key))
    yield from (told for key, told in _OTHERS.items() if pod.get(key))
    if replicas > 1:
        yield f"replicas {replicas}", "the local engine starts one process"
    for volume in pod.get("volumes") or ():
        size = _find_size(volume, run)
        if size is not None and volume["name"] != LAUNCHER_NAME:
            yield f"size {size} of volume {volume['name']}", "the local engine does not limit the size of folders"
    if "ephemeral-storage" in run.limits:
        yield "the limit of ephemeral-storage", "the local engine does not limit the size of folders"
    for service in run.services[:1]:
        if service["spec"]["type"] != "ClusterIP":
            yield f"service_type {service['spec']['type']}", f"services of the local engine listen on {LOOPBACK}"


def _find_size(volume: Mapping[str, Any], run: AdmittedRun) -> str | None:
    empty = volume.get("emptyDir")
    if empty is not None:
        return None if empty.get("medium") == "Memory" else empty.get("sizeLimit")
    if (ephemeral := volume.get("ephemeral")) is not None:
        spec = ephemeral["volumeClaimTemplate"]["spec"]
    elif (claim := volume.get("persistentVolumeClaim")) is not None and claim["claimName"] in run.claims:
        spec = run.claims[claim["claimName"]]["spec"]
    else:
        return None
    size: str | None = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    return size


def _count(amount: Quantity | None) -> int | None:
    return None if amount is None else amount.value
