"""Policy: what an admin sets by default, caps, allows, denies and locks, per field, platform-wide and per project."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from runyard.spec.problems import Path, Problem, find_nearest, list_words
from runyard.spec.quantity import Quantity
from runyard.spec.reading import Findings, expect_list, expect_mapping, expect_option, expect_text, refuse
from runyard.spec.rules import RULED, Rule, read_rule

PodSecurity = Literal["restricted", "baseline"]

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"
DEFAULT_MEM_TOLERANCE = Decimal("1.1")
MOST_PROJECTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Facts and choices that are not about one field; None means that this scope says nothing."""

    pod_security: PodSecurity | None = None
    mem_tolerance: Decimal | None = None
    """Memory limit = request × this, where no limit is asked for."""
    gpu_resources: tuple[str, ...] | None = None
    """Kubernetes' names of GPUs; the first is what `gpu` means."""
    disk_medium: Literal["ephemeral", "empty_dir"] | None = None
    image_pull_secrets: tuple[str, ...] | None = None
    python_images: Mapping[str, str] | None = None
    """The image for each `python_version`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The rules of one place: the built-in ones, the platform's, or a project's."""

    name: str
    """For people: `built-in policy`, `policy`, `policy of project vision`."""
    rules: Mapping[str, Rule] = field(default_factory=lambda: MappingProxyType({}))
    platform: Platform = field(default_factory=Platform)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An admin's policy as a whole."""

    scope: Scope = field(default_factory=lambda: Scope(name="policy"))
    projects: Mapping[str, Scope] = field(default_factory=lambda: MappingProxyType({}))

    def get_scopes(self, project: str) -> tuple[Scope, ...]:
        """What applies to a project, the widest first; each is checked, so the narrower can only tighten."""
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
"""What holds where no admin said anything. What it denies unless allowed is in `denials.py`."""


def read_policy(given: Any) -> Policy:
    """A policy file's content; raises `Refused` with everything that is wrong with it."""
    findings = Findings()
    entries = dict(expect_mapping(given or {}, of="fields to rules"))
    projects: dict[str, Scope] = {}
    narrower = findings.read(_read_projects, entries.pop("projects", None) or {}, "projects")
    for name, rules in (narrower or {}).items():
        read = findings.read(partial(_read_scope, f"policy of project {name}"), rules, "projects", name)
        if read is not None:
            projects[name] = read
    scope = findings.read(partial(_read_scope, "policy"), entries)
    findings.finish()
    return Policy(scope=scope or Scope(name="policy"), projects=MappingProxyType(projects))


def lint_policy(policy: Policy) -> list[Problem]:
    """What is legal and does nothing: a project's rule that is wider than the platform's."""
    found = []
    for project, scope in policy.projects.items():
        for name, rule in scope.rules.items():
            wider = policy.scope.rules.get(name)
            if wider is None:
                continue
            for clause in ("max", "min"):
                mine, theirs = getattr(rule, clause), getattr(wider, clause)
                if mine is not None and theirs is not None and (mine > theirs if clause == "max" else mine < theirs):
                    message = (
                        f"{clause} {mine} does nothing: the platform's {clause} is {theirs}, and the tighter one holds"
                    )
                    found.append(Problem("policy.idle", ("projects", project, name, clause), message))
            if wider.locked and rule.default is not None:
                message = "a default does nothing here: the platform's policy locks this field"
                found.append(Problem("policy.idle", ("projects", project, name, "default"), message))
    return found


def _read_projects(given: Any) -> Mapping[str, Any]:
    return expect_mapping(given, of="projects")


def _read_scope(name: str, given: Any) -> Scope:
    findings = Findings()
    rules: dict[str, Rule] = {}
    platform = Platform()
    for path, value in _iter_entries(expect_mapping(given or {}, of="fields to rules")):
        if path == ("platform",):
            platform = findings.read(_read_platform, value, *path) or platform
            continue
        key = ".".join(map(str, path))
        known = RULED.get(key)
        if known is None:
            meant = find_nearest(key, RULED)
            findings.add(
                "policy.field",
                path,
                f"no rule can be set for `{key}`",
                allowed=list_words(RULED, most=60),
                suggestion=meant,
            )
            continue
        if key in rules:
            findings.add("policy.twice", path, f"`{key}` has rules in two places")
        rule = findings.read(partial(read_rule, known), value, *path)
        if rule is not None:
            rules[key] = rule
    findings.finish()
    return Scope(name=name, rules=MappingProxyType(rules), platform=platform)


def _iter_entries(given: Mapping[str, Any], *prefix: str) -> Iterator[tuple[Path, Any]]:
    """Rules by dotted names and nested ones alike: `resources.mem: {max: …}` is `resources: {mem: {max: …}}`."""
    for key, value in given.items():
        path = (*prefix, *key.split("."))
        nested = ".".join(path)
        is_group = nested not in RULED and any(known.startswith(f"{nested}.") for known in RULED)
        if nested in RULED and isinstance(value, Mapping):
            clauses = {name: clause for name, clause in value.items() if f"{nested}.{name}" not in RULED}
            deeper = {name: rule for name, rule in value.items() if f"{nested}.{name}" in RULED}
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
            meant = find_nearest(key, _PLATFORM_READERS)
            findings.add(
                "field.unknown",
                (key,),
                f"`{key}` is not known here",
                allowed=", ".join(_PLATFORM_READERS),
                suggestion=meant,
            )
        elif value is not None:
            values[key] = findings.read(reader, value, key)
    findings.finish()
    return Platform(**values)


def _read_tolerance(given: Any) -> Decimal:
    try:
        tolerance = Decimal(str(given))
    except InvalidOperation:
        tolerance = Decimal(0)
    if isinstance(given, bool) or not tolerance.is_finite() or not 1 <= tolerance <= 10:
        raise refuse("number.range", "must be a factor", value=given, allowed="from 1 to 10, such as 1.1")
    return tolerance


def _read_names(given: Any) -> tuple[str, ...]:
    names = expect_list(given, of="names")
    return tuple(expect_text(name, what="a name", most=253) for name in names)


def _read_gpu_resources(given: Any) -> tuple[str, ...]:
    names = _read_names([given] if isinstance(given, str) else given)
    if not names or any("/" not in name for name in names):
        raise refuse(
            "number.range", "must name at least one GPU resource", value=given, allowed="names such as nvidia.com/gpu"
        )
    return names


def _read_python_images(given: Any) -> Mapping[str, str]:
    images = expect_mapping(given, of="python versions to images")
    return MappingProxyType({key: expect_text(value, what="an image") for key, value in images.items()})


def _option_reader(what: str, *options: str) -> Callable[[Any], str]:
    return lambda given: expect_option(given, what=what, options=options)


_PLATFORM_READERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "pod_security": _option_reader("the Pod Security level", "restricted", "baseline"),
        "mem_tolerance": _read_tolerance,
        "gpu_resources": _read_gpu_resources,
        "disk_medium": _option_reader("the medium of `disk`", "ephemeral", "empty_dir"),
        "image_pull_secrets": _read_names,
        "python_images": _read_python_images,
    }
)
