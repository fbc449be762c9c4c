"""Checks that what a run refers to belongs to its project, and that mounts and variables do not collide."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from runyard.domain.board import Board, Offer
from runyard.domain.effective_spec import OWNERS
from runyard.domain.environment_variables import list_variables
from runyard.domain.resolve_inputs import ProjectInventory
from runyard.spec.config_maps import (
    MOST_CONFIG_MAPS,
    MOST_RUN_CONFIG_BYTES,
    ConfigMapReference,
    count_bytes,
    parse_config_map_reference,
)
from runyard.spec.figures import format_bytes
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, find_nearest, list_words
from runyard.spec.volumes import SCRATCH_PATH, Volume


def settle_references(board: Board, inventory: ProjectInventory, *, project: str) -> None:
    """Refuse references to what the project does not have.

    The name of a kept volume is replaced by that of its claim. A config map is pinned: its newest version, or the one
    that is named, is copied into the run, which then no longer depends on it.
    """
    for path, _ in board.under("secrets"):
        if path[1] not in inventory.secrets:
            board.refusals.append(_unknown("secret", path, str(path[1]), inventory.secrets))
    for path, offer in board.under("volumes"):
        _settle_volume(board, path, offer, inventory)
    _pin_config_maps(board, inventory, project=project)


def list_config_maps(volumes: Iterable[Volume]) -> list[ConfigMapReference]:
    """The config maps that volumes name, without repetition."""
    named = (parse_config_map_reference(volume.config_map) for volume in volumes if volume.config_map is not None)
    return list({str(reference): reference for reference in named}.values())


def _settle_volume(board: Board, path: Path, offer: Offer, inventory: ProjectInventory) -> None:
    volume: Volume = offer.value
    if volume.type == "shared_volume":
        name = volume.claim_name or volume.name
        claim = inventory.volumes.get(name)
        if claim is None:
            board.refusals.append(_unknown("volume", path, name, inventory.volumes))
        else:
            board.refine(path, replace(volume, claim_name=claim, size=None))
    elif volume.claim_name is not None and volume.claim_name not in inventory.claims:
        board.refusals.append(_unknown("claim", (*path, "claim_name"), volume.claim_name, inventory.claims))


def _pin_config_maps(board: Board, inventory: ProjectInventory, *, project: str) -> None:
    volumes = board.under("volumes")
    if refusal := _find_excess([offer.value for _, offer in volumes], inventory):
        board.refusals.append(refusal)
        return
    for path, offer in volumes:
        if offer.value.config_map is not None:
            _pin_config_map(board, path, offer, inventory, project=project)


def _find_excess(volumes: Sequence[Volume], inventory: ProjectInventory) -> Problem | None:
    """The problem of a run with too many config maps, or too many bytes in all its `config_map` volumes."""
    count = len(list_config_maps(volumes))
    if count > MOST_CONFIG_MAPS:
        message = f"the volumes name {count} config maps of the project"
        return Problem(Code.SIZE_ENTRIES, ("volumes",), message, allowed=f"at most {MOST_CONFIG_MAPS} in one run")
    size = count_bytes(*(files for volume in volumes if (files := _find_files(volume, inventory)) is not None))
    if size > MOST_RUN_CONFIG_BYTES:
        message = "the config maps of the run are too large together"
        return Problem(Code.SIZE_BYTES, ("volumes",), message, allowed=f"at most {format_bytes(MOST_RUN_CONFIG_BYTES)}")
    return None


def _find_files(volume: Volume, inventory: ProjectInventory) -> Mapping[str, str] | None:
    if volume.config_map is None:
        return volume.data
    found = inventory.config_maps.get(str(parse_config_map_reference(volume.config_map)))
    return None if found is None else found.data


def _pin_config_map(board: Board, path: Path, offer: Offer, inventory: ProjectInventory, *, project: str) -> None:
    reference = parse_config_map_reference(offer.value.config_map)
    if reference.project not in (None, project):
        message = f"invalid project: must be in project `{project}`"
        board.refusals.append(Problem(Code.REFERENCE_PROJECT, (*path, "name"), message, value=offer.value.config_map))
        return
    found = inventory.config_maps.get(str(reference))
    if found is None:
        board.refusals.append(_unknown_config_map(path, reference, inventory.config_map_names, project=project))
        return
    board.refine(path, replace(offer.value, config_map=found.name, config_map_version=found.version, data=found.data))
    if reference.version is None and found.version is not None:
        board.fills[(*path, "config_map_version")] = replace(offer, value=found.version, rule="the newest version")
    board.fills[(*path, "data")] = replace(offer, value=found.data, rule=f"the files of the config map {found.name}")


def _unknown_config_map(path: Path, reference: ConfigMapReference, names: Iterable[str], *, project: str) -> Problem:
    problem = replace(_unknown("config map", (*path, "name"), reference.name, names), value=str(reference))
    if reference.version is not None and reference.name in names:
        message = f"the config map `{reference.name}` has no version `{reference.version}`"
        return replace(problem, message=message, allowed="its name alone, for the newest version", suggestion=None)
    cure = f"create it with POST /api/v1/-/{project}/configmaps, or write the files in `data`"
    return replace(problem, allowed=f"{problem.allowed}; {cure}")


_UNKNOWN = {
    "volume": Code.VOLUME_UNKNOWN,
    "claim": Code.CLAIM_UNKNOWN,
    "config map": Code.CONFIG_MAP_UNKNOWN,
    "secret": Code.SECRET_UNKNOWN,
}


@lru_cache(maxsize=4)
def _sort(names: frozenset[str]) -> Sequence[str]:
    """Sorted once for all problems: a run may name hundreds of unknown secrets in a project that has thousands."""
    return sorted(names)


def _unknown(what: str, path: Path, name: str, known: Iterable[str]) -> Problem:
    names = _sort(known if isinstance(known, frozenset) else frozenset(known))
    return Problem(
        _UNKNOWN[what],
        path,
        f"the project has no {what} `{name}`",
        value=name,
        allowed=list_words(names) if names else f"the project has no {what}s",
        suggestion=find_nearest(name, names),
    )


def settle_collisions(board: Board) -> None:
    """Two mounts at one path, or two variables with one name: the stronger layer wins; equals are refused."""
    paths: dict[str, tuple[Path, Offer]] = {}
    disk = board.find("resources", "disk", "size")
    if disk is not None:
        paths[SCRATCH_PATH] = (("resources", "disk"), disk)
    for path, offer in [*board.under("volumes"), *board.under("secrets")]:
        if offer.value.mount_path is not None:
            _settle(board, paths, offer.value.mount_path, path, offer)
    _refuse_nested(board, paths)
    names: dict[str, tuple[Path, Offer]] = {}
    for path, offer in list_variables(board):
        _settle(board, names, str(path[1]), path, offer)


def _refuse_nested(board: Board, paths: dict[str, tuple[Path, Offer]]) -> None:
    """A user's mount inside an admin's would hide what the admin put there."""
    admins = {place: offer for place, (_, offer) in paths.items() if not offer.is_users}
    for place, (path, offer) in paths.items():
        outer = next((it for it in admins if offer.is_users and place.startswith(f"{it}/")), None)
        if outer is not None:
            message = f"is inside `{outer}`, a mount of {admins[outer].source}"
            board.refusals.append(Problem(Code.MOUNT_PATH_INSIDE, (*path, "mount_path"), message, value=place))


def _settle(board: Board, held: dict[str, tuple[Path, Offer]], key: str, path: Path, offer: Offer) -> None:
    other = held.get(key)
    if other is None:
        held[key] = (path, offer)
        return
    other_path, other_offer = other
    mine, theirs = OWNERS.index(offer.owner), OWNERS.index(other_offer.owner)
    here, there = (".".join(map(str, each)) for each in (path, other_path))
    if mine == theirs:
        board.refusals.append(Problem(Code.COLLISION, path, f"`{here}` and `{there}` both use `{key}`", value=key))
        return
    (weak, loser, strong, winner) = (
        (path, offer, there, other_offer) if mine < theirs else (other_path, other_offer, here, offer)
    )
    message = f"`{strong}` from {winner.source} uses `{key}`; this one from {loser.source} is ignored"
    board.discard(("resources", "disk", "size") if weak == ("resources", "disk") else weak, message=message)
    held[key] = other if mine < theirs else (path, offer)
