"""Draws worlds and cases from a seed. The same seed and number, the same case."""

from typing import Any

from runyard.spec.problems import Refused
from runyard.spec.profile_documents import read_profiles
from tests.adversary import words
from tests.adversary.boundaries import ask_near_bound
from tests.adversary.cases import CONTAINER, PYTHON, Case, Raw, World
from tests.adversary.draws import Draws
from tests.adversary.placements import spell_snake
from tests.adversary.policies import PolicyDraws
from tests.adversary.profiles import ProfileDraws
from tests.adversary.raw import read_scopes, snake
from tests.adversary.ruled_images import ask_ruled_image
from tests.adversary.ruled_variables import ask_ruled_variable
from tests.adversary.users import Mood, UserDraws

CASES_PER_WORLD = 100
"""Reading a policy costs more than playing a case."""


_IDENTITY = ("kind", "action", "project", "id", "name", "function", "metadata", "status", "user", "key", "spec")


def draw_world(seed: int, number: int) -> World:
    """Draw an admin's inputs."""
    draws = Draws(f"world {seed} {number}")
    profiles = ProfileDraws(draws)
    names = [name for name in words.PROFILES if draws.chance(0.35 if name == "default" else 0.93)]
    policy = PolicyDraws(draws).draw_policy()
    files = [profiles.draw_file(name) for name in names]
    return World(
        policy=policy,
        profiles=[_move_to_bound(draws, file, policy) for file in files],
        secrets={name: f"value of {name}" for name in words.SECRETS if draws.chance(0.85)},
        volumes={"models": "run-old.models", "kept": "run-older.kept"}
        | ({"data": "run-x.data"} if draws.chance() else {}),
        claims=["legacy"] if draws.chance() else [],
        config_maps=dict(words.CONFIG_MAPS) if draws.chance(0.9) else {},
        kubernetes_version=draws.pick_of(words.KUBERNETES_VERSIONS),
    )


def _move_to_bound(draws: Draws, file: list[Raw], policy: Raw) -> list[Raw]:
    """The profile's file, at times with one figure at a bound of the policy or beside it; only if that is legal."""
    if not draws.chance(0.15):
        return file
    profile, *bases = file
    moved = ask_near_bound(draws, read_scopes(policy, draws.pick_of(words.PROJECTS)))
    kept = {key: value for key, value in profile.items() if snake(key) not in moved}
    try:
        read_profiles([{**kept, **moved}, *bases])
    except Refused:
        return file
    return [{**kept, **moved}, *bases]


def draw_case(seed: int, number: int, world: World) -> Case:
    """Draw a request for the world of the same seed and number."""
    draws = Draws(f"case {seed} {number}")
    mood: Mood = "plain" if (chance := draws.chance_of()) < 0.62 else "sly" if chance < 0.87 else "hostile"
    users = UserDraws(draws)
    kind = PYTHON if draws.chance(0.12) else CONTAINER
    action = draws.pick("job", "job", "job", "serve", "serve", "deploy") if draws.chance(0.97) else "build"
    has_function, has_task = draws.chance(0.3), draws.chance(0.2)
    function = users.draw_layer(mood, most=4, has_image=draws.chance()) if has_function else None
    has_image = kind == PYTHON and draws.chance()
    run = users.draw_layer(mood, most=6, has_image=draws.chance(0.9) or not has_image)
    if kind == PYTHON and draws.chance(0.8):
        run.setdefault("command", ["python", "-V"])
    if mood == "hostile":
        run = _spoil(draws, run)
    project = draws.pick_of(words.PROJECTS)
    if mood != "hostile" and draws.chance(0.25):
        run |= ask_near_bound(draws, read_scopes(world.policy, project))
    if mood != "hostile" and draws.chance(0.12):
        run |= ask_ruled_variable(draws, world, project)
    if mood != "hostile" and draws.chance(0.15):
        run |= ask_ruled_image(draws, read_scopes(world.policy, project))
    chance = draws.chance_of()
    return Case(
        project=project,
        action=action,
        kind=kind,
        run_id=draws.pick_of(words.RUN_IDS),
        form="fields" if chance < 0.6 else "file" if chance < 0.85 else "document",
        run=run,
        task=users.draw_layer(mood, most=3, has_image=False) if has_task else None,
        function=function,
        function_name=draws.pick("train", "x" * 80, None),
        user=draws.pick("ada", "ada@example.com", None),
        is_anchor=draws.chance(0.3),
        extras={draws.pick_of(_IDENTITY): draws.pick_of(words.JUNK)} if mood == "hostile" and draws.chance() else {},
    )


def _spoil(draws: Draws, document: Any) -> Any:
    """The document with one or two random faults."""
    for _ in range(draws.pick(0, 1, 1, 2)):
        document = _spoil_once(draws, document)
    return document


def _spoil_once(draws: Draws, document: Any) -> Any:
    if isinstance(document, list) and document and draws.chance(0.8):
        index = draws.number(0, len(document) - 1)
        return [*document[:index], _spoil_once(draws, document[index]), *document[index + 1 :]]
    if not isinstance(document, dict):
        return draws.pick_of(words.JUNK)
    trick = draws.number(0, 6)
    if trick == 0 or not document:
        return {**document, draws.pick_of(words.STRANGE_KEYS): draws.pick_of(words.JUNK)}
    key = draws.pick_of(list(document))
    if trick == 1 and isinstance(key, str):
        return {
            **document,
            spell_snake(key): document[key],
            draws.pick(key.upper(), key.title(), key + " "): document[key],
        }
    if trick == 2:
        return {**document, key: _nest(draws.number(2, 60), document[key])}
    if trick == 3 and isinstance(document[key], list):
        return {**document, key: document[key] * draws.pick(2, 300)}
    return {**document, key: _spoil_once(draws, document[key])}


def _nest(depth: int, value: Any) -> Any:
    for level in range(depth):
        value = [value] if level % 2 else {"x": value}
    return value
