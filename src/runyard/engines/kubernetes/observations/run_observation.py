"""Makes the observation of a run."""

from collections.abc import Sequence

from runyard.app.engine import LONGEST_MESSAGE_BYTES, Anchor, ContainerEnd, Observation
from runyard.domain.outcomes import Seen
from runyard.engines.kubernetes.observations.container_ends import collect_ends, list_ends, merge_ends
from runyard.engines.kubernetes.observations.run_reasons import explain_run
from runyard.engines.kubernetes.observations.run_states import judge_run
from runyard.engines.kubernetes.observations.status_details import make_details
from runyard.engines.kubernetes.observations.texts import cut_text
from runyard.engines.kubernetes.run_objects import GonePod, RunObjects, get_generation, get_run_uid


def observe_run(objects: RunObjects) -> Observation:
    """The observation of an anchor that is there.

    It is FAILED although a pod still waits, if that pod can never start (`find_permanent_fault`): settling such a run
    has to remove what waits.
    """
    seen = judge_run(objects)
    explanation = explain_run(objects, seen)
    metadata = objects.anchor.metadata
    return Observation(
        run_uid=get_run_uid(objects.anchor),
        uid=metadata.uid,
        seen=seen,
        epoch=objects.epoch,
        version=objects.version,
        generation=get_generation(objects.anchor),
        reason=None if explanation is None else explanation.reason,
        message=None if explanation is None else cut_text(explanation.message, LONGEST_MESSAGE_BYTES),
        ends=list_ends(objects),
        details=make_details(objects, seen),
    )


def observe_absence(
    anchor: Anchor,
    gone_pods: Sequence[GonePod] = (),
    *,
    past_ends: Sequence[ContainerEnd] = (),
    epoch: int = 0,
) -> Observation:
    """The anchor is not there; its ends, as far as this process saw them."""
    ends = merge_ends(past_ends, *(collect_ends(gone.pod, is_gone=True) for gone in gone_pods))
    return Observation(run_uid=anchor.run_uid, uid=anchor.uid, seen=Seen.ABSENT, epoch=epoch, ends=ends)
