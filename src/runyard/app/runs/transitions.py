"""The only place where a run's state changes: along `domain.lifecycle`, each with a transition and an audit entry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from runyard.app.audit import audit, audit_many
from runyard.app.core import Core
from runyard.app.engine import LONGEST_MESSAGE_BYTES
from runyard.app.entities import check_revision
from runyard.app.errors import Forbidden, Missing, NotPossible
from runyard.app.model import Lease, Principal, Run, Transition
from runyard.app.ports import UNCHANGED, DueIn, RunUpdate, UnitOfWork
from runyard.app.retry import retry_on_conflict
from runyard.app.texts import cut_text
from runyard.domain.lifecycle import FINAL, State, can_follow
from runyard.spec.digitalhub.reference_strings import find_run_kind
from runyard.spec.problem_codes import Code

SYSTEM = Principal(name="system", via="system")
"""The actor of the loops."""

NOTES = "reconcile"
"""The key of `status` for the notes of the reconcile loop. Clients neither see nor write it."""

RESUMABLE = frozenset({"serve", "deploy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A change to another state."""

    state: State
    reason: str | None = None
    message: str | None = None
    """What is longer than `LONGEST_MESSAGE_BYTES` is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is written of a run in one transaction: moves, other fields, and the audit action."""

    action: str
    moves: tuple[Move, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    due_in: DueIn = UNCHANGED
    """When the reconcile loop should look at the run; zero: at once."""
    is_audited: bool = True


Decide = Callable[[Run], Change | None]
"""Decides what to write from the run as it is stored now; None writes nothing. May be called more than once."""


def make_first_transitions(
    states: Sequence[State], *, at: datetime, actor: str, reason: str | None = None, message: str | None = None
) -> tuple[Transition, ...]:
    """The first history of a run; reason and message go to the last transition."""
    last = len(states)
    return tuple(
        Transition(
            sequence=number,
            state=state,
            at=at,
            actor=actor,
            reason=reason if number == last else None,
            message=message if number == last else None,
        )
        for number, state in enumerate(states, start=1)
    )


async def write_change(
    core: Core,
    unit: UnitOfWork,
    who: Principal,
    run: Run,
    change: Change,
    *,
    lease: Lease | None = None,
    is_lease_ended: bool = False,
) -> Run:
    """Write a change of the run as it was read. Raises `NotPossible` for an impossible move.

    Raises `Stale` if the run was changed meanwhile, or the lease is lost.
    """
    update = prepare_update(core, who, run, change)
    stored = await unit.runs.update(
        run,
        update.after,
        transitions=update.transitions,
        lease=lease,
        is_lease_ended=is_lease_ended,
        due_in=update.due_in,
    )
    if change.is_audited:
        await audit(core, unit, who, change.action, stored, details=_list_details(stored, change))
    return stored


async def write_changes(
    core: Core, unit: UnitOfWork, who: Principal, changes: Sequence[tuple[Run, Change]]
) -> Sequence[Run]:
    """Write changes of many runs that `lock_observed` returned in this unit of work, in few statements.

    Raises `NotPossible` if one of the moves is impossible; then nothing was written. The `due_at` of the runs that are
    returned is not the stored one.
    """
    stored = await unit.runs.update_many([prepare_update(core, who, run, change) for run, change in changes])
    await audit_many(
        core,
        unit,
        who,
        [
            (change.action, run, _list_details(run, change))
            for run, (_, change) in zip(stored, changes, strict=True)
            if change.is_audited
        ],
    )
    return stored


def prepare_update(core: Core, who: Principal, run: Run, change: Change) -> RunUpdate:
    """What is to be written of the run for a change. Raises `NotPossible` for an impossible move.

    A run that ends without a place is settled at once: no engine has anything of it. A resumed one is unsettled.
    """
    at = core.clock.now()
    values = {"updated_at": at, "updated_by": who.name, **change.values}
    transitions = _make_transitions(run, change.moves, at=at, actor=who.name)
    if transitions:
        last = transitions[-1]
        values |= {"state": last.state.value, "reason": last.reason, "message": last.message}
        if last.state in FINAL and run.place is None:
            values |= {"settled_at": at, "is_log_complete": True}
        elif last.state is State.RESUME:
            values |= {"settled_at": None, "is_log_complete": False}
    return RunUpdate(before=run, after=replace(run, **values), transitions=transitions, due_in=change.due_in)


def _list_details(run: Run, change: Change) -> Mapping[str, Any]:
    states = {"states": [move.state.value for move in change.moves]} if change.moves else {}
    reason = {"reason": run.reason} if change.moves and run.reason else {}
    return {**states, **reason, **change.details}


async def change_run(
    core: Core, who: Principal, project: str, run_id: str, decide: Decide, *, expected_revision: int | None = None
) -> Run:
    """Read, decide and write a run in a unit of work of its own; retries on conflict.

    Raises `Missing`, and `Conflict` if the run is not at the expected revision.
    """
    check_own_run(who, run_id)

    async def change_once() -> Run:
        async with core.store.begin() as unit:
            run = await require_run(unit, project, run_id, expected_revision=expected_revision)
            check_same_run(who, run)
            change = decide(run)
            if change is None:
                return run
            stored = await write_change(core, unit, who, run, change)
            await unit.commit()
        core.signals.notify(run.uid)
        return stored

    return await retry_on_conflict(change_once, on=f"run {run_id}")


async def require_run(unit: UnitOfWork, project: str, run_id: str, *, expected_revision: int | None = None) -> Run:
    """The run of that project; raises `Missing`, and `Conflict` if it is not at the expected revision."""
    run = await unit.runs.find(run_id, project=project)
    if run is None:
        raise Missing("run", run_id)
    check_revision(run, expected_revision)
    return run


def check_own_run(who: Principal, run_id: str) -> None:
    """A run's token is valid for that run alone. Raises `Forbidden`."""
    if who.run_id is not None and who.run_id != run_id:
        raise Forbidden(f"this token is for run {who.run_id} alone")


def check_same_run(who: Principal, run: Run) -> None:
    """A run's token is not valid for a later run of the same id. Raises `Forbidden`."""
    if who.run_id is not None and who.run_uid != run.uid:
        raise Forbidden(f"this token was issued for another run than {run.id}")


def can_be_resumed(run: Run) -> bool:
    """Whether the run can be resumed once stopped: services can, jobs cannot."""
    return not run.is_local and find_action(run) in RESUMABLE


def find_action(run: Run) -> str | None:
    """`job`, `serve` …, from the effective spec, or else from the kind."""
    if (effective := run.find_effective()) is not None:
        return effective.action
    kind = find_run_kind(run.kind)
    return None if kind is None else kind.action


def is_without_engine(run: Run) -> bool:
    """Whether nothing can exist for the run: it can be stopped and deleted at once.

    A claim stores the place, with the next revision, before any engine is called. So a write that is based on a run
    without a place fails if an engine got the run meanwhile.
    """
    return run.is_local or run.place is None


def _make_transitions(run: Run, moves: Sequence[Move], *, at: datetime, actor: str) -> list[Transition]:
    state, made = State(run.state), []
    for sequence, move in enumerate(moves, start=run.last_sequence + 1):
        # Whether it can be resumed takes long to find out.
        can_resume = move.state is State.RESUME and can_be_resumed(run)
        if not can_follow(state, move.state, can_resume=can_resume):
            raise NotPossible(
                Code.STATE_IMPOSSIBLE, f"run {run.id} is {state.value} and cannot become {move.state.value}"
            )
        message = None if move.message is None else cut_text(move.message, LONGEST_MESSAGE_BYTES)
        made.append(
            Transition(sequence=sequence, state=move.state, at=at, actor=actor, reason=move.reason, message=message)
        )
        state = move.state
    return made
