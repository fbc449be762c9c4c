"""Policy: an admin's defaults, limits, allow and deny lists and locks, per field, platform-wide and per project."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from runyard.spec.figures import format_figure
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.names import check_project_name, check_qualified_name, suggest_project_name
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, find_nearest, list_words, shorten
from runyard.spec.readers import (
    Findings,
    expect_keys,
    expect_mapping,
    expect_option,
    expect_text,
    note_unknown_field,
    read_each,
    refuse,
)
from runyard.spec.resources import note_spelling
from runyard.spec.rule_grammar import OTHER_RULE_NAMES, RULED, Rule, read_rule
from runyard.spec.run_fields import PYTHON_VERSIONS
from runyard.spec.volumes import read_image, read_object_name

PodSecurity = Literal["restricted", "baseline"]

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"
DEFAULT_MEM_TOLERANCE = Decimal("1.1")
_SIDES = ("", ".requests", ".limits")
_RULE_NAMES = frozenset({*RULED, *OTHER_RULE_NAMES})
_TWO_SIDED = tuple(name.removesuffix(".limits") for name in RULED if name.endswith(".limits"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Settings that do not belong to one field; None means that this scope does not set it."""

    pod_security: PodSecurity | None = None
    mem_tolerance: Decimal | None = None
    """Memory limit = request × this, where no limit is set."""
    gpu_resources: tuple[str, ...] | None = None
    """Kubernetes resource names of GPUs; `gpu` is the first."""
    disk_medium: Literal["ephemeral", "empty_dir"] | None = None
    image_pull_secrets: tuple[str, ...] | None = None
    python_images: Mapping[str, str] | None = None
    """The image for each `python_version`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The rules of one scope: built-in, platform or project."""

    name: str
    """Shown to users: `platform default`, `policy`, `policy of project vision`."""
    rules: Mapping[str, Rule] = field(default_factory=lambda: MappingProxyType({}))
    platform: Platform = field(default_factory=Platform)
    notes: tuple[Problem, ...] = field(default=(), compare=False)
    """Warnings of the reader; `lint_policy` reports them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An admin's policy: platform-wide rules, and narrower ones per project."""

    scope: Scope = field(default_factory=lambda: Scope(name="policy"))
    projects: Mapping[str, Scope] = field(default_factory=lambda: MappingProxyType({}))

    def get_scopes(self, project: str) -> tuple[Scope, ...]:
        """The scopes of a project, widest first. All of them are checked, so a narrower one can only tighten."""
        narrower = self.projects.get(project)
        return (BUILT_IN, self.scope) if narrower is None else (BUILT_IN, self.scope, narrower)


BUILT_IN = Scope(
    name="platform default",
    rules=MappingProxyType({"volumes.size": Rule(default=Quantity.parse("2Gi"))}),
    platform=Platform(
        pod_security="restricted",
        mem_tolerance=DEFAULT_MEM_TOLERANCE,
        gpu_resources=(DEFAULT_GPU_RESOURCE,),
        disk_medium="ephemeral",
        image_pull_secrets=(),
        python_images=MappingProxyType({f"PYTHON3_{minor}": f"python:3.{minor}" for minor in range(10, 15)}),
    ),
)
"""The rules without an admin's policy. `denials.py` has the values that are denied unless a policy allows them."""


def read_policy(given: Any) -> Policy:
    """The content of a policy file; raises `Refused` with every problem."""
    findings = Findings()
    entries = dict(expect_mapping({} if given is None else given, of="fields to rules"))
    projects: dict[str, Scope] = {}
    given_projects = entries.pop("projects", None)
    narrower = findings.read(_read_projects, {} if given_projects is None else given_projects, "projects")
    for name, rules in (narrower or {}).items():
        if error := check_project_name(name):
            nearest = suggest_project_name(name)
            findings.add(Code.PROJECT_NAME, ("projects", name), error, value=name, suggestion=nearest)
        read = findings.read(partial(_read_scope, f"policy of project {name}"), rules, "projects", name)
        if read is not None:
            projects[name] = read
    scope = findings.read(partial(_read_scope, "policy"), entries)
    _check_locks(scope or Scope(name="policy"), projects, findings)
    findings.finish()
    return Policy(scope=scope or Scope(name="policy"), projects=MappingProxyType(projects))


def _check_locks(platform: Scope, projects: Mapping[str, Scope], findings: Findings) -> None:
    """Check that locks agree: `resources.mem` is `resources.mem.requests`, and a limit is never below the request."""
    for project, scope in [(None, platform), *projects.items()]:
        for name in _TWO_SIDED:
            if project is not None and not any(f"{name}{side}" in scope.rules for side in _SIDES):
                continue
            plain, request, limit = (_find_locked(f"{name}{side}", platform, scope) for side in _SIDES)
            asked = plain if request is None else request
            parts = tuple(name.split("."))
            path: Path = parts if project is None else ("projects", project, *parts)
            if plain is not None and request is not None and plain != request:
                message = f"`{name}` and `{name}.requests` are locked to different values"
                findings.add(Code.POLICY_CONTRADICTION, path, message, value=_join_figures(name, plain, request))
            elif asked is not None and limit is not None and limit < asked:
                message = f"`{name}.limits` is locked to less than the request"
                findings.add(Code.POLICY_CONTRADICTION, path, message, value=_join_figures(name, asked, limit))


def _join_figures(name: str, *amounts: Any) -> str:
    return ", ".join(format_figure(name, amount) for amount in amounts)


def _find_locked(name: str, *scopes: Scope) -> Any:
    """The value that a field is locked to, of the widest scope that locks it."""
    rules = (scope.rules[name] for scope in scopes if name in scope.rules)
    return next((rule.default for rule in rules if rule.locked and rule.default is not None), None)


def lint_policy(policy: Policy) -> list[Problem]:
    """Lints of rules without effect: a project's rule that is wider than the platform's."""
    found = [*policy.scope.notes]
    for project, scope in policy.projects.items():
        found += [note.under("projects", project) for note in scope.notes]
        if scope.platform.pod_security == "baseline" and policy.scope.platform.pod_security != "baseline":
            message = "`baseline` has no effect here: only the platform's policy can relax Pod Security"
            found.append(Problem(Code.POLICY_IDLE, ("projects", project, "platform", "pod_security"), message))
        for name, rule in scope.rules.items():
            wider = policy.scope.rules.get(name)
            if wider is None:
                continue
            for clause in ("max", "min"):
                mine, theirs = getattr(rule, clause), getattr(wider, clause)
                if mine is not None and theirs is not None and (mine > theirs if clause == "max" else mine < theirs):
                    shown, tighter = (format_figure(name, bound) for bound in (mine, theirs))
                    message = f"{clause} {shown} has no effect: the platform's {clause} of {tighter} is tighter"
                    found.append(Problem(Code.POLICY_IDLE, ("projects", project, name, clause), message))
            if wider.locked and rule.default is not None:
                message = "the default has no effect: the platform's policy locks this field"
                found.append(Problem(Code.POLICY_IDLE, ("projects", project, name, "default"), message))
    return found


def _read_projects(given: Any) -> Mapping[str, Any]:
    return expect_mapping(given, of="projects")


def _read_scope(name: str, given: Any) -> Scope:
    findings, notes = Findings(), list[Problem]()
    rules: dict[str, Rule] = {}
    platform = Platform()
    for path, value in _iter_entries(expect_mapping({} if given is None else given, of="fields to rules")):
        if path == ("platform",):
            platform = findings.read(_read_platform, value, *path) or platform
            continue
        written = ".".join(map(str, path))
        key = OTHER_RULE_NAMES.get(written, written)
        known = RULED.get(key)
        if known is None:
            meant = find_nearest(key, RULED)
            findings.add(
                Code.POLICY_FIELD,
                path,
                f"unknown policy field `{key}`",
                allowed=list_words(RULED, most=60),
                suggestion=meant,
            )
            continue
        if key != written:
            notes.append(note_spelling(path, key.rpartition(".")[2]))
        if key in rules:
            findings.add(Code.POLICY_TWICE, path, f"`{key}` has two rules")
        rule = findings.read(partial(read_rule, known), value, *path)
        if rule is not None:
            rules[key] = rule
    findings.finish()
    return Scope(name=name, rules=MappingProxyType(rules), platform=platform, notes=tuple(notes))


def _iter_entries(given: Mapping[str, Any], *prefix: str) -> Iterator[tuple[Path, Any]]:
    """Rules by dotted or nested names: `resources.mem: {max: …}` is the same as `resources: {mem: {max: …}}`."""
    for key, value in given.items():
        path = (*prefix, *key.split("."))
        nested = ".".join(path)
        is_group = nested not in _RULE_NAMES and any(known.startswith(f"{nested}.") for known in RULED)
        if nested in _RULE_NAMES and isinstance(value, Mapping):
            clauses = {name: clause for name, clause in value.items() if f"{nested}.{name}" not in _RULE_NAMES}
            deeper = {name: rule for name, rule in value.items() if f"{nested}.{name}" in _RULE_NAMES}
            if clauses or not deeper:
                yield path, clauses
            yield from _iter_entries(deeper, *path)
        elif is_group and isinstance(value, Mapping):
            yield from _iter_entries(value, *path)
        else:
            yield path, value


def _read_platform(given: Any) -> Platform:
    findings = Findings()
    values: dict[str, Any] = {}
    for key, value in expect_mapping(given, of="platform settings").items():
        reader = _PLATFORM_READERS.get(key)
        if reader is None:
            note_unknown_field(key, _PLATFORM_READERS, findings, ())
        elif value is not None:
            values[key] = findings.read(reader, value, key)
    findings.finish()
    return Platform(**values)


def _read_tolerance(given: Any) -> Decimal:
    try:
        tolerance = Decimal(shorten(given))
    except InvalidOperation:
        tolerance = Decimal(0)
    if isinstance(given, bool) or not tolerance.is_finite() or not 1 <= tolerance <= 10:
        raise refuse(
            Code.NUMBER_RANGE, "must be a factor from 1 to 10", value=given, allowed="from 1 to 10, such as 1.1"
        )
    return tolerance


def _read_secret_names(given: Any) -> tuple[str, ...]:
    return read_each(read_object_name, given, of="names")


def _read_gpu_resources(given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        return (_read_gpu_resource(given),)
    names = read_each(_read_gpu_resource, given, of="names")
    if not names:
        raise refuse(Code.GPU_RESOURCES_NONE, "must name at least one GPU resource", allowed="such as nvidia.com/gpu")
    return names


def _read_gpu_resource(given: Any) -> str:
    name = expect_text(given, what="a name", most=317)
    error = check_qualified_name(name) if "/" in name else "must have the form `vendor/name`"
    if error:
        raise refuse(Code.GPU_RESOURCES_NAME, error, value=given, allowed="such as nvidia.com/gpu")
    return name


def _read_python_images(given: Any) -> Mapping[str, str]:
    findings = Findings()
    images = expect_mapping(given, of="python versions to images")
    expect_keys(images, PYTHON_VERSIONS, findings)
    read = {key: findings.read(read_image, value, key) or "" for key, value in images.items()}
    findings.finish()
    return MappingProxyType(read)


def _option_reader(what: str, *options: str) -> Callable[[Any], str]:
    return lambda given: expect_option(given, what=what, options=options)


_PLATFORM_READERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "pod_security": _option_reader("Pod Security level", "restricted", "baseline"),
        "mem_tolerance": _read_tolerance,
        "gpu_resources": _read_gpu_resources,
        "disk_medium": _option_reader("medium of `disk`", "ephemeral", "empty_dir"),
        "image_pull_secrets": _read_secret_names,
        "python_images": _read_python_images,
    }
)
