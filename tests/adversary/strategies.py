"""Hypothesis strategies for the same worlds and requests, with values beyond the tables."""

from typing import Any

from hypothesis import strategies as st

from tests.adversary import policies as policy_draws
from tests.adversary import profiles as profile_draws
from tests.adversary import words
from tests.adversary.cases import World
from tests.adversary.draws import Draws
from tests.adversary.users import FIELDS, Mood, UserDraws

_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_AMOUNTS = st.one_of(
    st.integers(-2, 2**66),
    st.floats(),
    st.from_regex(r"[+-]?[0-9]{0,20}(\.[0-9]{0,12})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(words.CPUS + words.MEMORIES),
)
_SIDES = _AMOUNTS | st.fixed_dictionaries({}, optional={"requests": _AMOUNTS, "limits": _AMOUNTS})
_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True) | st.text(max_size=6)
_TOLERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["", *words.TAINT_KEYS]) | _NAMES,
        "operator": st.sampled_from(["Exists", "Equal", ""]),
        "value": st.sampled_from(["", "a"]) | _NAMES,
        "effect": st.sampled_from(["", *words.EFFECTS]),
        "tolerationSeconds": st.integers(),
    },
)
_PATHS = st.sampled_from(words.MOUNT_PATHS + words.ODD_PATHS) | st.from_regex(r"(/[a-z.]{0,4}){1,4}", fullmatch=True)
_SEEDS = st.integers(0, 2**32)


def _drawn_field(name: str) -> st.SearchStrategy[Any]:
    moods: tuple[Mood, ...] = ("plain", "sly", "hostile")
    return st.builds(
        lambda seed, mood: UserDraws(Draws(f"field {seed}")).draw_field(name, mood), _SEEDS, st.sampled_from(moods)
    )


def run_layers() -> st.SearchStrategy[dict[str, Any]]:
    """The fields of a run or task."""
    fields: dict[str, st.SearchStrategy[Any]] = {name: _drawn_field(name) for name in FIELDS}
    fields["resources"] |= st.fixed_dictionaries({}, optional=dict.fromkeys(("cpu", "mem", "gpu", "disk"), _SIDES))
    fields["tolerations"] |= st.lists(_TOLERATIONS, max_size=3)
    fields["node_selector"] |= st.dictionaries(_NAMES, _NAMES, max_size=3)
    fields["envs"] |= st.dictionaries(_NAMES, st.text(max_size=8), max_size=3)
    fields["runtime_class"] |= _NAMES
    fields["run_as_user"] |= st.integers() | st.integers().map(str)
    fields["volumes"] |= st.lists(
        st.fixed_dictionaries(
            {"volume_type": st.sampled_from(["empty_dir", "ephemeral"]), "name": _NAMES, "mount_path": _PATHS}
        ),
        max_size=3,
    )
    fields["profile"] = st.sampled_from(words.PROFILES)
    fields["anything"] = _ANY
    image = st.sampled_from(words.IMAGES + words.SLY_IMAGES)
    return st.fixed_dictionaries({"image": image}, optional=fields)


def policies() -> st.SearchStrategy[dict[str, Any]]:
    """Legal policies: hypothesis says which fields have a rule, here and in projects; a seed draws the rule."""
    return st.builds(_narrow, _rules(), st.dictionaries(st.sampled_from(words.PROJECTS), _rules(), min_size=1))


def _narrow(wide: dict[str, Any], projects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A policy in which no two locks contradict each other: reading would refuse it."""
    policy_draws.unlock_sides(wide, wide)
    for narrow in projects.values():
        policy_draws.unlock_sides(wide, narrow)
    return {**wide, "projects": projects}


def _rules() -> st.SearchStrategy[dict[str, Any]]:
    chosen = st.dictionaries(st.sampled_from(policy_draws.FIELDS), _SEEDS, max_size=5)
    return chosen.map(
        lambda seeds: {
            field: rule
            for field, seed in seeds.items()
            if (rule := policy_draws.PolicyDraws(Draws(f"rule {seed}")).draw_rule(field))
        }
    )


def profiles(name: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Legal profiles: hypothesis says which fields are set, a seed draws the value; and some with base objects."""
    chosen = st.dictionaries(st.sampled_from((*profile_draws.FIELDS, "resources")), _SEEDS, max_size=6)
    plain = chosen.map(lambda seeds: [{"id": name, **_draw_fields(seeds)}])
    whole = _SEEDS.map(lambda seed: profile_draws.ProfileDraws(Draws(f"profile {seed}")).draw_file(name))
    return plain | whole


def _draw_fields(seeds: dict[str, int]) -> dict[str, Any]:
    fields = {
        field: profile_draws.ProfileDraws(Draws(f"field {seed}")).draw_field(field) for field, seed in seeds.items()
    }
    profile_draws.unset_twice(fields)
    return fields


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Legal inputs of an admin."""
    names = draw(st.lists(st.sampled_from(words.PROFILES), unique=True, max_size=3))
    return World(
        policy=draw(policies()),
        profiles=[draw(profiles(name)) for name in names],
        secrets=dict.fromkeys(words.SECRETS, "value"),
        volumes={"models": "run-old.models", "kept": "run-older.kept"},
        claims=["legacy"],
        config_maps=dict(words.CONFIG_MAPS),
        kubernetes_version=draw(st.sampled_from(words.KUBERNETES_VERSIONS)),
    )
