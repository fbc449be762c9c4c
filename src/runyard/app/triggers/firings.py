"""Fire triggers: submit the run of an occasion once, on request or by a loop. Start and stop them."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.entities import find_actor, find_actor_since, lock_entity, note_change, require_entity
from runyard.app.errors import Forbidden, Missing, NotPossible
from runyard.app.identity import authorize
from runyard.app.model import Entity, Json, Principal, Run
from runyard.app.ports import Duplicate, Unavailable, UnitOfWork
from runyard.app.retry import retry_on_conflict
from runyard.app.runs import submit_run
from runyard.app.triggers.chains import NO_CHAIN, Chain, count_run
from runyard.domain.access import Permission
from runyard.domain.placeholders import PlaceholderError, fill
from runyard.domain.triggers import KINDS
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Refused

MOST_PROBLEM_CHARACTERS = 4000
"""How much of a problem the status of a trigger keeps."""
PAUSED, ACTIVE = "STOPPED", "RUNNING"
SINCE = "since"
"""Status key of a trigger: when it was activated last. Default: when it was created."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """Why a trigger fires. An occasion yields one run, however often it is used (idempotency key)."""

    id: str
    input: Json
    """`input` in templates."""
    chain: Chain = NO_CHAIN
    """What led to it."""
    is_manual: bool = False
    """Fired on request: never repeated, so not recorded as used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """The result of firing."""

    run_id: str | None = None
    problem: str | None = None


def is_active(trigger: Entity) -> bool:
    """Whether its loop fires it."""
    return trigger.state != PAUSED


def find_start(trigger: Entity) -> datetime:
    """When it was activated; earlier occasions do not count."""
    since = trigger.status.get(SINCE)
    return trigger.created_at if since is None else datetime.fromisoformat(since)


async def run_trigger(core: Core, who: Principal, project: str, trigger_id: str, *, is_open: bool = False) -> Entity:
    """Fire a trigger now, as the user who wrote its spec, and activate it if it was stopped.

    Occasions missed while it was stopped are not made up for. Raises `NotPossible` if firing fails.
    """

    def resume(trigger: Entity) -> Entity:
        return replace(trigger, state=ACTIVE, status={**trigger.status, SINCE: core.clock.now().isoformat()})

    async with core.store.begin(is_read_only=True) as unit:
        trigger = await require_entity(unit, "trigger", project, trigger_id)
    if trigger.kind not in KINDS:
        raise NotPossible(Code.TRIGGER_KIND, f"triggers of the kind {trigger.kind} are stored but never fire")
    if not is_active(trigger):
        trigger = await change_trigger(core, who, project, trigger_id, resume, action="trigger.resume")
    occasion = Occasion(id=f"now:{uuid4().hex}", input={"at": core.clock.now().isoformat()}, is_manual=True)
    fired = await fire(core, trigger, occasion, is_open=is_open, by=who)
    if fired.problem is not None:
        raise NotPossible(Code.TRIGGER_REFUSED, f"trigger {trigger.name} could not fire: {fired.problem}")
    async with core.store.begin(is_read_only=True) as unit:
        return await require_entity(unit, "trigger", project, trigger_id)


async def stop_trigger(core: Core, who: Principal, project: str, trigger_id: str) -> Entity:
    """Stop a trigger: it does not fire until it is run again. Idempotent."""

    def pause(trigger: Entity) -> Entity:
        return replace(trigger, state=PAUSED)

    return await change_trigger(core, who, project, trigger_id, pause, action="trigger.stop")


async def fire(
    core: Core, trigger: Entity, occasion: Occasion, *, is_open: bool = False, by: Principal | None = None
) -> Fired:
    """Submit the run of an occasion as the user who wrote the trigger's spec, if still authorized; then record it.

    Idempotent: two replicas, or one that crashed, submit the same run under the same id.
    """
    run_id = _choose_run_id(trigger, occasion)
    try:
        run = await _submit(core, trigger, occasion, run_id=run_id, is_open=is_open)
        fired = Fired(run_id=run_id if run is None else run.id)
    except Duplicate:
        # It was submitted before the template changed.
        fired = Fired(run_id=run_id)
    except (Forbidden, Missing, NotPossible, PlaceholderError, Refused) as error:
        fired = Fired(problem=str(error)[:MOST_PROBLEM_CHARACTERS])
    except Unavailable:
        raise
    except Exception:  # noqa: BLE001 - whoever owns the trigger learns of any failure, in its status
        _log.exception(
            "a trigger could not fire",
            extra={"trigger": trigger.id, "project": trigger.project, "occasion": occasion.id},
        )
        fired = Fired(problem="internal error; the server's log has the details")
    await _note(core, trigger, occasion, fired, by=by)
    return fired


async def note_refusal(core: Core, trigger: Entity, occasion: Occasion, problem: str) -> None:
    """Record that a trigger did not fire, and why, in its status and the audit."""
    await _note(core, trigger, occasion, Fired(problem=problem), by=None)


def _choose_run_id(trigger: Entity, occasion: Occasion) -> str:
    """The same in all replicas. The creation time is part of it because another trigger may use the id again."""
    created_at = trigger.created_at.astimezone(UTC).isoformat()
    return uuid5(NAMESPACE_URL, f"runyard:{trigger.id}:{created_at}:{occasion.id}").hex


async def act_as(unit: UnitOfWork, trigger: Entity, *, is_open: bool) -> Principal:
    """The absent user who wrote the trigger's spec, with current rights.

    Raises `Forbidden` if the account is gone or disabled, or if another one has its name now.
    """
    name = find_actor(trigger)
    account = await unit.accounts.find(name)
    if account is None and is_open:
        return Principal(name=name, is_admin=True, via="system")
    if account is None or account.is_disabled:
        raise Forbidden(f"the trigger fires as {name}, whose account is gone or disabled")
    if find_actor_since(trigger) < account.created_at:
        message = f"the trigger fires as {name}, whose account was deleted and created again since its spec was written"
        raise Forbidden(f"{message}: change its spec, or create the trigger again")
    return Principal(name=name, is_admin=account.is_admin, via="system")


def make_run_document(trigger: Entity, occasion: Occasion, *, run_id: str) -> Json:
    """The run document as a client would post it. Raises `PlaceholderError`."""
    spec = trigger.spec
    known: Mapping[str, Any] = {"id": trigger.id, "name": trigger.name, "project": trigger.project}
    template = fill(spec.get("template") or {}, {"input": occasion.input, "trigger": known})
    references = {key: spec[key] for key in ("task", "function", "workflow") if spec.get(key) is not None}
    return {
        "kind": f"{str(spec.get('task', '')).partition('://')[0]}:run",
        "id": run_id,
        "project": trigger.project,
        "metadata": {"project": trigger.project},
        "spec": {**template, **references},
    }


async def _submit(core: Core, trigger: Entity, occasion: Occasion, *, run_id: str, is_open: bool) -> Run | None:
    async with core.store.begin(is_read_only=True) as unit:
        who = await act_as(unit, trigger, is_open=is_open)
        await authorize(unit, who, Permission.WRITE, project=trigger.project)
        if await unit.runs.has_tombstone(run_id, project=trigger.project):
            return None
    document = make_run_document(trigger, occasion, run_id=run_id)
    run, _ = await submit_run(core, who, trigger.project, document, noted=occasion.chain.extend(trigger.id))
    return run


async def use_occasion(
    core: Core,
    trigger: Entity,
    occasion: str | None,
    *,
    by: Principal,
    action: str,
    result: str,
    noted: Json,
    counted: tuple[str, str] | None = None,
) -> bool:
    """Record the result of an occasion in the trigger's status and the audit; returns False if it was already used.

    `counted`: the root of a chain and the run that was added to it.
    """

    async def use_once() -> bool:
        async with core.store.begin() as unit:
            # Lock first: a concurrent update of the trigger would overwrite the status.
            stored = await _find_locked(unit, trigger)
            if stored is not None:
                # Nothing is noted for a deleted trigger: whoever uses its id again would inherit it.
                if occasion is not None and not await unit.firings.use(trigger.id, occasion, project=trigger.project):
                    return False
                changed = replace(stored, status={**stored.status, **noted})
                await unit.entities.replace(changed, expected_revision=stored.revision)
            if counted is not None:
                root, run_id = counted
                await count_run(unit, root, run_id, project=trigger.project)
            details = {**noted, "runs_as": find_actor(trigger), "created_by": trigger.user}
            await audit(core, unit, by, action, trigger, result=result, details=details)
            await unit.commit()
        return True

    return await retry_on_conflict(use_once, on=f"trigger {trigger.id}")


async def _note(core: Core, trigger: Entity, occasion: Occasion, fired: Fired, *, by: Principal | None) -> None:
    last: Json = {"occasion": occasion.id, "at": core.clock.now().isoformat()}
    counted, root = None, occasion.chain.root
    if root not in (None, occasion.id) and fired.run_id is not None:
        counted = (str(root), fired.run_id)
    last |= {"run": fired.run_id} if fired.problem is None else {"problem": fired.problem}
    await use_occasion(
        core,
        trigger,
        None if occasion.is_manual else occasion.id,
        by=by or Principal(name=find_actor(trigger), via="system"),
        action="trigger.fire",
        result="done" if fired.problem is None else "refused",
        noted={"last": last},
        counted=counted,
    )


async def change_trigger(
    core: Core, who: Principal, project: str, trigger_id: str, change: Callable[[Entity], Entity], *, action: str
) -> Entity:
    """Apply a change to a trigger; writes nothing if nothing changes."""

    async def change_once() -> Entity:
        async with core.store.begin() as unit:
            stored = await lock_entity(unit, "trigger", project, trigger_id)
            changed = change(stored)
            if changed == stored:
                return stored
            if who.via != "system":
                now = core.clock.now()
                changed = replace(note_change(stored, changed, who, at=now), updated_at=now, updated_by=who.name)
            saved = await unit.entities.replace(changed, expected_revision=stored.revision)
            await audit(core, unit, who, action, saved)
            await unit.commit()
        return saved

    return await retry_on_conflict(change_once, on=f"trigger {trigger_id}")


async def _find_locked(unit: UnitOfWork, trigger: Entity) -> Entity | None:
    """The trigger as it is stored now; None if it was deleted, also if another one has its id."""
    try:
        stored = await lock_entity(unit, "trigger", trigger.project, trigger.id)
    except Missing:
        return None
    return stored if stored.created_at == trigger.created_at else None
