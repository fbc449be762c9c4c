"""The objects of one run, as the caches have them at one time."""

from dataclasses import dataclass

from runyard.app.engine import ContainerEnd
from runyard.engines.kubernetes.views import ClaimView, DeploymentView, EventView, JobView, PodView, ServiceView

MOST_GENERATION_DIGITS = 19
"""How long the number in the generation annotation may be: somebody may have written into it."""
AnchorView = JobView | DeploymentView


def get_run_uid(anchor: AnchorView) -> str:
    """The uid of the anchor's run: its label holds a hash if the uid is not a legal label value."""
    return anchor.metadata.annotations.run_uid or anchor.metadata.labels.run_uid


def get_run_id(anchor: AnchorView) -> str:
    """The id of the anchor's run, unique in its project only."""
    return anchor.metadata.annotations.run or anchor.metadata.labels.run


def get_project(anchor: AnchorView) -> str:
    """The project of the anchor's run."""
    return anchor.metadata.annotations.project or anchor.metadata.labels.project


def get_generation(anchor: AnchorView) -> int:
    """The newest generation that the anchor was told; 0 if somebody spoilt the annotation."""
    text = anchor.metadata.annotations.generation
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_GENERATION_DIGITS else 0


@dataclass(frozen=True, slots=True)
class GonePod:
    """A pod that was deleted, in its last state."""

    pod: PodView
    is_final: bool
    """False: its deletion was missed, and what came after this state is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunObjects:
    """What an observation is made of."""

    anchor: AnchorView
    pods: tuple[PodView, ...] = ()
    """In the order of their creation."""
    gone_pods: tuple[GonePod, ...] = ()
    """Pods of this anchor that this process saw and that were deleted, oldest first; a bounded number."""
    past_ends: tuple[ContainerEnd, ...] = ()
    """Ends of container instances that this process saw, oldest first; a bounded number.

    A pod shows only the last two instances of a container. `observations.collect_ends` lists those of a pod, and an
    observation shows each once, whether it is here or in a pod.
    """
    services: tuple[ServiceView, ...] = ()
    claims: tuple[ClaimView, ...] = ()
    events: tuple[EventView, ...] = ()
    """Warnings about the anchor and its pods and claims, oldest first; a bounded number."""
    unready_nodes: tuple[tuple[str, str], ...] = ()
    """Names of nodes that run its pods and are not ready, and since when."""
    epoch: int = 0
    version: int = 0
    """How far the caches had come."""
