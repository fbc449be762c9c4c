"""The environment variables of a run: those of `envs`, and secrets without a mount path.

Every check of variables reads them here, so that a rule for `envs` cannot be bypassed by a secret of the same name.
"""

from runyard.domain.board import Board, Offer
from runyard.spec.problems import Path


def list_variables(board: Board) -> list[tuple[Path, Offer]]:
    """The winning offers of all variables: secrets first, then `envs`. The last part of each path is the name."""
    secrets = [(path, offer) for path, offer in board.under("secrets") if offer.value.is_variable]
    return [*secrets, *board.under("envs")]


def is_secret_variable(board: Board, name: str) -> bool:
    """Whether a secret sets this variable."""
    secret = board.find("secrets", name)
    return secret is not None and secret.value.is_variable
