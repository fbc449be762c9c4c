"""Find the engine and the anchor of a run that a request wants to look into."""

from runyard.app.core import Core
from runyard.app.engine import Anchor, Engine, Interactive, Metered
from runyard.app.errors import NotPossible, NotSupported
from runyard.app.model import Run
from runyard.app.runs import make_anchor
from runyard.domain.lifecycle import State
from runyard.spec.problem_codes import Code


def get_engine(core: Core) -> Engine:
    """The engine of this server; raises `NotSupported` if it has none."""
    if core.engine is None:
        raise NotSupported(Code.ENGINE_NONE, "this server has no engine: ask an operator to configure one")
    return core.engine


def find_capabilities(engine: Engine) -> tuple[str, ...]:
    """What the engine can do besides executing runs."""
    interactive = ("exec", "attach", "portforward") if isinstance(engine, Interactive) else ()
    return (*interactive, *(("usage",) if isinstance(engine, Metered) else ()))


def cannot(engine: Engine, what: str) -> NotSupported:
    """The error for a capability that the engine lacks."""
    return NotSupported(Code.ENGINE_CANNOT, f"the engine {engine.place.engine} of this server does not support {what}")


def find_anchor(engine: Engine, run: Run) -> Anchor | None:
    """The anchor of a run at the place of the engine; None if it has none. Raises `NotPossible` if it is elsewhere."""
    if run.is_local or run.anchor_uid is None:
        return None
    if run.place not in (None, str(engine.place)):
        raise NotPossible(
            Code.PLACE_OTHER,
            f"run {run.id} lives in {run.place}; this server's engine acts in {engine.place} and cannot reach it",
        )
    return make_anchor(run, run.anchor_uid)


def get_running_anchor(engine: Engine, run: Run) -> Anchor:
    """The anchor of a run that runs now; raises `NotPossible`, which says why there is none."""
    if run.is_local:
        raise NotPossible(Code.RUN_LOCAL, f"the client of run {run.id} executes it itself: it has no container here")
    anchor = find_anchor(engine, run)
    if anchor is None or run.state != State.RUNNING:
        raise NotPossible(Code.RUN_NOT_RUNNING, f"run {run.id} is {run.state}; only a RUNNING run has containers")
    return anchor
