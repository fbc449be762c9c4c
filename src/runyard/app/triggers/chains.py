"""Chains: a run that a trigger submitted makes others fire, whose runs make others fire. Each chain is bounded.

A run carries the triggers that led to it, and the change with which that began (its root). Only the server writes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.app.entities import find_producer_uid
from runyard.app.model import Entity, Json, Run
from runyard.app.ports import UnitOfWork
from runyard.spec.digitalhub.reference_strings import parse_key
from runyard.spec.problems import Refused

CHAIN = "triggers"
"""Metadata key of a run: the triggers that led to it. They do not fire for this run (no loops)."""
ROOT = "triggers_root"
"""Metadata key of a run: the occasion of the first lifecycle trigger among them."""
MOST_CHAIN_TRIGGERS = 16
"""Maximum number of triggers that lead to one run."""
MOST_CHAIN_RUNS = 500
"""Maximum number of runs with one root, without those of the first triggers, of which a project has a limited number.

Without it, 20 triggers that wait for every run would turn one run into 20 factorial. Replicas count before they submit,
so each may add one.
"""


@dataclass(frozen=True, slots=True)
class Chain:
    """What led to an entity."""

    triggers: tuple[str, ...] = ()
    root: str | None = None
    """None: no lifecycle trigger."""

    def extend(self, trigger_id: str) -> Json:
        """Metadata of the run that a trigger submits next."""
        return {CHAIN: [*self.triggers, trigger_id], **({} if self.root is None else {ROOT: self.root})}


NO_CHAIN = Chain()


async def find_chain(unit: UnitOfWork, entity: Entity) -> Chain:
    """The chain of a run; for another entity, of the run that produced it."""
    run = entity if isinstance(entity, Run) else await _find_maker(unit, entity)
    metadata: Mapping[str, Any] = {} if run is None else run.metadata
    triggers, root = metadata.get(CHAIN), metadata.get(ROOT)
    return Chain(tuple(map(str, triggers)) if isinstance(triggers, list) else (), None if root is None else str(root))


async def find_chain_problem(unit: UnitOfWork, chain: Chain, *, project: str) -> str | None:
    """Why no trigger may add a run to this chain."""
    if chain.root is None:
        return None
    if len(chain.triggers) >= MOST_CHAIN_TRIGGERS:
        what = f"{len(chain.triggers)} triggers led to this run, and the limit is {MOST_CHAIN_TRIGGERS}"
    elif (number := await unit.firings.count(_name(chain.root), project=project)) >= MOST_CHAIN_RUNS:
        what = f"triggers made {number} runs of one change, {chain.root}, and the limit is {MOST_CHAIN_RUNS}"
    else:
        return None
    return f"{what}: let triggers wait for fewer runs, by a narrower `key` or fewer `states`"


async def count_run(unit: UnitOfWork, root: str, run_id: str, *, project: str) -> None:
    """Add a run to those of its root. Idempotent."""
    await unit.firings.use(_name(root), run_id, project=project)


def _name(root: str) -> str:
    """The name that counts the runs of a root among the occasions of triggers. No trigger has such an id."""
    return f"chain:{root}"


async def _find_maker(unit: UnitOfWork, entity: Entity) -> Run | None:
    """The run that produced it: as the server recorded it, or else as the client says."""
    if (producer_uid := find_producer_uid(entity)) is not None:
        return await unit.runs.find_by_uid(producer_uid)
    relations: Any = entity.metadata.get("relationships") or []
    for relation in relations:
        if isinstance(relation, dict) and relation.get("type") == "produced_by":
            try:
                key = parse_key(str(relation.get("dest")))
            except Refused:
                continue
            if key.type == "run" and key.id is not None:
                return await unit.runs.find(key.id, project=entity.project)
    return None
