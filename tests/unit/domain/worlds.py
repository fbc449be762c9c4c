"""Small worlds to decide in, written as people write them: raw fields, raw policy, raw profiles."""

from collections.abc import Mapping
from typing import Any

from runyard.domain.effective_spec import Leaf
from runyard.domain.resolution import Resolution, resolve
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.spec.policy import read_policy
from runyard.spec.profile import BaseKind, Profile
from runyard.spec.run_fields import read_admin_fields, read_run_fields

Raw = Mapping[str, Any]

PROJECT = "vision"
NOTHING = ProjectInventory()


def make_request(
    run: Raw | None = None,
    *,
    task: Raw | None = None,
    function: Raw | None = None,
    action: Any = "job",
    kind: str = "container",
    project: str = PROJECT,
) -> Request:
    return Request(
        project=project,
        action=action,
        kind=kind,
        run=read_run_fields(run or {}),
        task=None if task is None else read_run_fields(task),
        function=None if function is None else read_run_fields(function),
    )


def make_profile(name: str, fields: Raw | None = None, *, base: Mapping[BaseKind, Raw] | None = None) -> Profile:
    bases = {kind: read_admin_fields(content) for kind, content in (base or {}).items()}
    return Profile(id=name, fields=read_admin_fields(fields or {}), base=bases)


def prepare(policy: Raw | None = None, *profiles: Profile) -> AdminRules:
    return AdminRules(profiles={profile.id: profile for profile in profiles}, policy=read_policy(policy or {}))


def decide(
    run: Raw | None = None,
    *,
    policy: Raw | None = None,
    profile: Raw | None = None,
    base: Mapping[BaseKind, Raw] | None = None,
    inventory: ProjectInventory = NOTHING,
    **request: Any,
) -> Resolution:
    """Resolve a run; `profile` and `base` are those of a profile `p`, which the run then names."""
    if profile is None and base is None:
        return resolve(make_request(run, **request), prepare(policy), inventory)
    admin_rules = prepare(policy, make_profile("p", profile, base=base))
    return resolve(make_request({"profile": "p", **(run or {})}, **request), admin_rules, inventory)


def show(resolution: Resolution, *path: str | int) -> Any:
    """What stands at a path of the effective spec in plain form; None where it is blank."""
    value: Any = resolution.spec.to_dict()
    for part in path:
        if isinstance(value, list):
            value = next((entry for entry in value if entry.get("name") == part), None)
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def get_leaf(resolution: Resolution, *path: str | int) -> Leaf:
    (leaf,) = [leaf for leaf in resolution.leaves if leaf.path == path]
    return leaf


def list_refusals(resolution: Resolution) -> list[tuple[str, str]]:
    """Code and place of each refusal."""
    return [(problem.code, problem.where) for problem in resolution.refusals]


def list_warnings(resolution: Resolution) -> list[tuple[str, str]]:
    """Code and place of each warning."""
    return [(problem.code, problem.where) for problem in resolution.warnings]
