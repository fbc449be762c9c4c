"""What logs, sessions and usage read of `ClusterCache`."""

from collections.abc import Sequence
from typing import Protocol

from runyard.engines.kubernetes.run_objects import AnchorView, GonePod, RunObjects
from runyard.engines.kubernetes.views import PodView


class PodCache(Protocol):
    """The pods of runs, as far as the watches have come."""

    @property
    def pod_lists(self) -> int:
        """How often pods were listed. Each time, some may have come and gone before."""

    def find(self, run_uid: str) -> RunObjects | None:
        """The objects of a run whose anchor exists."""

    def find_gone_anchor(self, run_key: str) -> AnchorView | None:
        """The last state of an anchor that does not exist anymore, by the value of its label."""

    def list_pods(self, run_uid: str) -> Sequence[PodView]:
        """The pods of a run that exist."""

    def list_gone_pods(self, run_uid: str) -> Sequence[GonePod]:
        """The pods of a run that were deleted while this process watched, oldest first."""

    def find_pod(self, namespace: str, name: str) -> PodView | None:
        """A pod of this installation, by its name."""
