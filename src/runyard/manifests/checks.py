"""Why a run cannot be rendered: every reason at once, before the first object is created.

`domain` refuses most of it earlier. Nothing here relies on that: the apiserver would refuse a bad object only after the
anchor exists.
"""

from collections.abc import Iterator, Mapping

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.environment import TOKEN_VARIABLES
from runyard.spec.environment import find_variables_set_twice
from runyard.spec.figures import format_bytes
from runyard.spec.kinds.registry import get_kind
from runyard.spec.launcher import LAUNCHER_PATH
from runyard.spec.names import check_config_key
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused, list_words
from runyard.spec.volumes import SCRATCH_PATH, Volume

MOST_SECRET_BYTES = 1_048_576
"""Kubernetes' limit for all values of a Secret together."""
_BUILD = "build"


def check_workload(spec: EffectiveSpec, *, has_launcher: bool = False) -> None:
    """Raise `Refused` if the Job or Deployment, its Services and claims cannot be rendered."""
    _refuse_if_any(find_unrenderable(spec, has_launcher=has_launcher))


def check_run(
    spec: EffectiveSpec, *, secret_values: Mapping[str, str], token: str | None = None, has_launcher: bool = False
) -> None:
    """The same for the whole run, including its Secret: every secret that the run uses needs a value."""
    problems = find_unrenderable(spec, has_launcher=has_launcher)
    _refuse_if_any([*problems, *_iter_secret_problems(spec, secret_values, token=token)])


def find_unrenderable(spec: EffectiveSpec, *, has_launcher: bool = False) -> list[Problem]:
    """Every reason why the spec cannot become objects, whatever the values of its secrets."""
    launcher = None if has_launcher else find_missing_launcher(spec)
    return [
        *_iter_spec_problems(spec, has_launcher=has_launcher),
        *([launcher] if launcher is not None else []),
    ]


def needs_launcher(spec: EffectiveSpec) -> bool:
    """Whether only a launcher can start the run."""
    return not spec.command and get_kind(spec.kind).needs_launcher


def may_use_launcher(spec: EffectiveSpec) -> bool:
    """Whether a launcher starts the run, or installs the requirements of its command."""
    return get_kind(spec.kind).needs_launcher and bool(not spec.command or spec.requirements)


def find_missing_launcher(spec: EffectiveSpec) -> Problem | None:
    """The problem of a run that only a launcher could start."""
    if not needs_launcher(spec):
        return None
    message = f"a {spec.kind} function without `command` needs a launcher, and there is none"
    return Problem(Code.LAUNCHER_MISSING, ("command",), message, allowed="the program to start, as words")


def _refuse_if_any(problems: list[Problem]) -> None:
    if problems:
        raise Refused(problems)


def _iter_spec_problems(spec: EffectiveSpec, *, has_launcher: bool) -> Iterator[Problem]:
    yield from _iter_action_problems(spec)
    if not spec.image:
        yield Problem(Code.FIELD_MISSING, ("image",), "a run needs an `image`")
    for field in ("run_as_user", "run_as_group", "fs_group"):
        given = getattr(spec, field)
        if given is not None and given < 1:
            yield Problem(Code.IDENTITY_ROOT, (field,), "a run is never root", value=given, allowed="1 or more")
    if spec.gpu and not spec.gpu_resource:
        yield Problem(
            Code.GPU_RESOURCE, ("resources", "gpu"), "the platform names no resource for GPUs", value=spec.gpu
        )
    if spec.action == "serve" and spec.service_type == "ExternalName":
        yield Problem(
            Code.SERVICE_TYPE_UNSUPPORTED,
            ("service_type",),
            "a Service of this type has no pods behind it",
            value=spec.service_type,
            allowed="ClusterIP, NodePort, LoadBalancer",
        )
    for index, volume in enumerate(spec.volumes):
        if lacking := _find_lacking(volume):
            message = f"a {volume.type} needs its `{lacking}`"
            yield Problem(Code.FIELD_MISSING, ("volumes", index, "spec", lacking), message)
    for index, use in enumerate(spec.secrets):
        if error := check_config_key(use.name):
            yield Problem(Code.SECRETS_NAME, ("secrets", index), error, value=use.name)
    yield from _iter_clashes(spec, has_launcher=has_launcher)


def _iter_action_problems(spec: EffectiveSpec) -> Iterator[Problem]:
    actions = get_kind(spec.kind).actions
    if spec.action == _BUILD:
        message = "images are not built here; build the image elsewhere and name it in `image`"
    elif spec.action not in actions:
        message = f"a {spec.kind} function has no action `{spec.action}`"
    else:
        return
    allowed = ", ".join(action for action in actions if action != _BUILD)
    yield Problem(Code.RUN_NOT_RUN, ("action",), message, value=spec.action, allowed=allowed)


def _find_lacking(volume: Volume) -> str | None:
    match volume.type:
        case "persistent_volume_claim" if volume.claim_name is None and volume.size is None:
            return "size"
        case "ephemeral" if volume.size is None:
            return "size"
        case "shared_volume" if volume.claim_name is None:
            return "claim_name"
        case "image" if not volume.image:
            return "image"
        case "config_map" if volume.data is None:
            return "data"
    return None


def _iter_clashes(spec: EffectiveSpec, *, has_launcher: bool) -> Iterator[Problem]:
    """Two mounts at one path, or two values of one variable: only one of them can hold."""
    taken = {SCRATCH_PATH: "`resources.disk`"} if spec.disk else {}
    if has_launcher and may_use_launcher(spec):
        taken[LAUNCHER_PATH] = "the launcher"
    mounts = [(("volumes", index, "mount_path"), volume.mount_path) for index, volume in enumerate(spec.volumes)]
    mounts += [(("secrets", i, "mount_path"), use.mount_path) for i, use in enumerate(spec.secrets) if use.mount_path]
    for path, mount_path in mounts:
        if mount_path in taken:
            message = f"{taken[mount_path]} is mounted there"
            yield Problem(Code.MOUNT_PATH_TWICE, path, message, value=mount_path)
        taken.setdefault(mount_path, "another volume or secret")
    yield from find_variables_set_twice(spec.envs, spec.secrets)


def _iter_secret_problems(spec: EffectiveSpec, values: Mapping[str, str], *, token: str | None) -> Iterator[Problem]:
    used = {use.name: values.get(use.name) for use in spec.secrets}
    for index, use in enumerate(spec.secrets):
        if used[use.name] is None:
            message = f"the secret `{use.name}` has no value"
            known = f"secrets with values: {list_words(sorted(values))}" if values else None
            yield Problem(Code.SECRETS_MISSING, ("secrets", index), message, value=use.name, allowed=known)
    tokens = len(token.encode()) * len(TOKEN_VARIABLES) if token else 0
    if sum(len(value.encode()) for value in used.values() if value) + tokens > MOST_SECRET_BYTES:
        yield Problem(
            Code.SIZE_BYTES,
            ("secrets",),
            "the secrets of one run are too large",
            allowed=f"at most {format_bytes(MOST_SECRET_BYTES)}",
        )
