"""Checks that what a run refers to belongs to its project, and that mounts and variables do not collide."""

from collections.abc import Iterable
from dataclasses import replace

from runyard.domain.board import Board, Offer
from runyard.domain.effective_spec import OWNERS
from runyard.domain.environment_variables import list_variables
from runyard.domain.resolve_inputs import ProjectInventory
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, find_nearest, list_words
from runyard.spec.volumes import SCRATCH_PATH, Volume


def settle_references(board: Board, inventory: ProjectInventory) -> None:
    """Refuse references to what the project does not have; replace a kept volume's name by that of its claim."""
    for path, _ in board.under("secrets"):
        if path[1] not in inventory.secrets:
            board.refusals.append(_unknown("secret", path, str(path[1]), inventory.secrets))
    for path, offer in board.under("volumes"):
        _settle_volume(board, path, offer, inventory)


def _settle_volume(board: Board, path: Path, offer: Offer, inventory: ProjectInventory) -> None:
    volume: Volume = offer.value
    if volume.type == "shared_volume":
        name = volume.claim_name or volume.name
        claim = inventory.volumes.get(name)
        if claim is None:
            board.refusals.append(_unknown("volume", path, name, inventory.volumes))
        else:
            board.refine(path, replace(volume, claim_name=claim, size=None))
    elif volume.type == "persistent_volume_claim" and volume.claim_name is not None:
        if volume.claim_name not in inventory.claims:
            board.refusals.append(_unknown("claim", (*path, "claim_name"), volume.claim_name, inventory.claims))
    elif volume.config_map is not None and volume.config_map not in inventory.config_maps:
        board.refusals.append(_unknown("config map", (*path, "name"), volume.config_map, inventory.config_maps))


_UNKNOWN = {
    "volume": Code.VOLUME_UNKNOWN,
    "claim": Code.CLAIM_UNKNOWN,
    "config map": Code.CONFIG_MAP_UNKNOWN,
    "secret": Code.SECRET_UNKNOWN,
}


def _unknown(what: str, path: Path, name: str, known: Iterable[str]) -> Problem:
    names = sorted(known)
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
