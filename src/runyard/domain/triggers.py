"""Checks the spec of a trigger, and matches entities against it. Pure."""

from collections.abc import Mapping
from typing import Any

from runyard.domain.placeholders import find_problem
from runyard.domain.schedule import ScheduleError, parse_schedule
from runyard.spec.document_size import count_values
from runyard.spec.patterns import matches
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, find_nearest

SCHEDULER, LIFECYCLE = "scheduler", "lifecycle"
KINDS = (SCHEDULER, LIFECYCLE)
FOREIGN_KINDS = ("automl",)
"""Kinds of DigitalHub that are stored but never fire here."""
ROOTS = ("input", "trigger")
"""What the placeholders of a template may refer to."""
MOST_KEY_CHARACTERS = 2048
"""Maximum length of the pattern of a lifecycle trigger."""
MOST_STATES = 64
"""Maximum number of states of a lifecycle trigger; there are fewer than 20."""
MOST_TEMPLATE_VALUES = 10_000
"""Maximum number of values in a template: the fields of one run."""
_ANY = "*"
_FIELDS = {
    SCHEDULER: ("task", "function", "workflow", "template", "schedule", "timezone"),
    LIFECYCLE: ("task", "function", "workflow", "template", "key", "states"),
}


def find_trigger_problems(kind: str, spec: Mapping[str, Any], *, project: str, states: frozenset[str]) -> list[Problem]:
    """Every problem of a trigger's spec; `states` are the states that entities may have.

    Specs of foreign kinds are stored unchanged.
    """
    if kind in FOREIGN_KINDS:
        return []
    if kind not in KINDS:
        nearest = find_nearest(kind, KINDS)
        message = "unknown kind of trigger"
        return [
            Problem(Code.TRIGGER_KIND, ("kind",), message, value=kind, allowed=", ".join(KINDS), suggestion=nearest)
        ]
    problems = [*_check_fields(kind, spec), *_check_template(spec)]
    if not isinstance(spec.get("task"), str):
        problems.append(Problem(Code.FIELD_MISSING, ("spec", "task"), "missing spec: a trigger needs its `task`"))
    if kind == SCHEDULER:
        return [*problems, *_check_schedule(spec)]
    return [*problems, *_check_key(spec, project), *_check_states(spec, states)]


def matches_key(pattern: str, key: str) -> bool:
    """Whether the pattern matches an entity's key: `*` stands for anything; without `:id`, it matches every version.

    Takes linear time: users write both the pattern and the key.
    """
    versionless = key.rpartition(":")[0] if ":" in key.rpartition("/")[2] else key
    return any(matches(pattern, candidate) for candidate in (key, versionless))


def find_types(pattern: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The types of entities that a pattern can match."""
    parts = pattern.removeprefix("store://").split("/")
    if len(parts) < 2 or _ANY in parts[0]:
        return known
    named = parts[1]
    return tuple(name for name in known if name == named) if _ANY not in named else known


def _check_fields(kind: str, spec: Mapping[str, Any]) -> list[Problem]:
    allowed = _FIELDS[kind]
    return [
        Problem(
            Code.FIELD_UNKNOWN,
            ("spec", name),
            f"a {kind} trigger has no such field",
            allowed=", ".join(allowed),
            suggestion=find_nearest(name, allowed),
        )
        for name in spec
        if name not in allowed
    ]


def _check_template(spec: Mapping[str, Any]) -> list[Problem]:
    template = spec.get("template", {})
    path = ("spec", "template")
    if not isinstance(template, Mapping):
        return [Problem(Code.TYPE_MAPPING, path, "must be the fields of a run's spec", value=template)]
    if template.get("local_execution"):
        return [
            Problem(
                Code.TRIGGER_LOCAL,
                (*path, "local_execution"),
                "a trigger cannot start a run that its client executes",
                value=True,
            )
        ]
    if count_values(template, most=MOST_TEMPLATE_VALUES) > MOST_TEMPLATE_VALUES:
        allowed = f"at most {MOST_TEMPLATE_VALUES}"
        return [Problem(Code.SIZE_ENTRIES, path, "the template has too many values", allowed=allowed)]
    found = find_problem(template, roots=ROOTS)
    return [Problem(Code.TEMPLATE_PLACEHOLDER, path, found)] if found else []


def _check_schedule(spec: Mapping[str, Any]) -> list[Problem]:
    text, zone = spec.get("schedule"), spec.get("timezone")
    if not isinstance(text, str):
        return [Problem(Code.FIELD_MISSING, ("spec", "schedule"), "missing spec: a scheduler needs its `schedule`")]
    if zone is not None and not isinstance(zone, str):
        return [Problem(Code.TYPE_TEXT, ("spec", "timezone"), "must be text", value=zone)]
    try:
        schedule = parse_schedule(text, timezone=zone)
    except ScheduleError as error:
        is_zone = error.field == "timezone"
        code, name = (Code.TIMEZONE_INVALID, "timezone") if is_zone else (Code.SCHEDULE_INVALID, "schedule")
        given = zone if is_zone else text
        return [Problem(code, ("spec", name), str(error), value=given, allowed=error.allowed)]
    if not schedule.is_ever_due:
        return [
            Problem(
                Code.SCHEDULE_NEVER, ("spec", "schedule"), "the schedule never fires: no such day exists", value=text
            )
        ]
    return []


def _check_key(spec: Mapping[str, Any], project: str) -> list[Problem]:
    key, path = spec.get("key"), ("spec", "key")
    allowed = f"store://{project}/type/kind/name, with `*` for anything"
    if not isinstance(key, str) or not key.startswith("store://") or len(key) > MOST_KEY_CHARACTERS:
        return [Problem(Code.TRIGGER_KEY, path, "must be a pattern of entity keys", value=key, allowed=allowed)]
    named = key.removeprefix("store://").split("/")[0]
    if named != project:
        message = f"invalid project: a trigger matches only entities of its own project, `{project}`"
        return [Problem(Code.REFERENCE_PROJECT, path, message, value=key, allowed=allowed)]
    return []


def _check_states(spec: Mapping[str, Any], known: frozenset[str]) -> list[Problem]:
    given, path = spec.get("states"), ("spec", "states")
    if not isinstance(given, list) or not given:
        return [Problem(Code.FIELD_MISSING, path, "a lifecycle trigger needs the `states` at which it fires")]
    if len(given) > MOST_STATES:
        return [Problem(Code.SIZE_ENTRIES, path, f"has {len(given)} entries", allowed=f"at most {MOST_STATES}")]
    return [
        Problem(
            Code.STATE_UNKNOWN,
            (*path, index),
            "unknown state",
            value=state,
            allowed=", ".join(sorted(known)),
            suggestion=find_nearest(str(state), known),
        )
        for index, state in enumerate(given)
        if not isinstance(state, str) or state not in known
    ]
