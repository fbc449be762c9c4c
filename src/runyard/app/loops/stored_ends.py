"""The ends of a run's containers in its status. Pure.

An engine lists what it remembers: after a restart of the server, only what the cluster still shows. So ends are added
to those that are stored, and none is taken away by an observation that lacks it. They are those of one anchor: a run
has only one, and an id that is used again begins with an empty status. A resumed service keeps the ends of its earlier
pods, as it keeps their logs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from runyard.app.engine import LONGEST_NAME_BYTES, LONGEST_REASON_BYTES, MOST_ENDS, ContainerEnd, LogSource
from runyard.app.model import Json, Run
from runyard.app.texts import cut_text
from runyard.domain.reasons import Reason

ENDS = "ends"
"""The key of `status` for the ends of the run's containers."""
_LONGEST = {"pod": LONGEST_NAME_BYTES, "container": LONGEST_NAME_BYTES, "reason": LONGEST_REASON_BYTES}

_Key = tuple[str, str, int]


def merge_stored_ends(stored: Iterable[Json], seen: Sequence[ContainerEnd]) -> list[Json]:
    """The stored ends with those that were seen, each instance once, in the order in which they became known.

    At most `MOST_ENDS`: the oldest go, and those first that the engine does not list anymore. So an observation that
    was merged once changes nothing when it is merged again.
    """
    merged = {_find_key(end): end for end in stored}
    listed: set[_Key] = set()
    for written in map(_write, seen[-MOST_ENDS:]):
        key = _find_key(written)
        listed.add(key)
        merged[key] = _merge(merged.get(key, {}), written)
    unlisted = [key for key in merged if key not in listed]
    for key in unlisted[: max(0, len(merged) - MOST_ENDS)]:
        del merged[key]
    return list(merged.values())


def list_ended_outputs(run: Run) -> list[LogSource]:
    """The outputs of containers that have run and ended, as the run's status says; no line is older than the run."""
    return [
        LogSource(
            run_uid=run.uid,
            pod=end["pod"],
            container=end["container"],
            instance=end["instance"],
            since=run.created_at,
        )
        for end in run.status.get(ENDS, ())
        if end["container"] and end.get("reason") != Reason.START_FAILED
    ]


def _find_key(end: Json) -> _Key:
    return end["pod"], end["container"], end["instance"]


def _merge(known: Json, seen: Json) -> Json:
    """What is known of one end stays, unless it is seen otherwise."""
    merged = {**known, **seen}
    if known.get("is_out_of_memory"):
        merged["is_out_of_memory"] = True
    peaks = [end["peak_bytes"] for end in (known, seen) if "peak_bytes" in end]
    return {**merged, "peak_bytes": max(peaks)} if peaks else merged


def _write(end: ContainerEnd) -> Json:
    written = {key: value for key, value in asdict(end).items() if value is not None}
    return written | {key: cut_text(written[key], most) for key, most in _LONGEST.items() if key in written}
