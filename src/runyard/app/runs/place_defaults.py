"""What the engine's place adds to a run by itself, as rows of provenance whose owner is `cluster`."""

import logging

from runyard.app.core import Core
from runyard.app.engine import MOST_DEFAULTS, Defaulting, EngineError, PlaceDefault
from runyard.app.engine_calls import call_engine
from runyard.app.model import Json
from runyard.domain.effective_spec import EffectiveSpec
from runyard.spec.problems import format_path

DEFAULTS_SECONDS = 2.0
"""How long an answer waits for the engine to say what its place adds."""
OWNER = "cluster"

_log = logging.getLogger(__name__)


async def list_place_defaults(core: Core, project: str, spec: EffectiveSpec | None) -> tuple[Json, ...]:
    """Rows of provenance; none if the engine's place adds nothing, or cannot say now."""
    engine = core.engine
    if spec is None or engine is None or not isinstance(engine, Defaulting):
        return ()
    try:
        found = await call_engine(engine.list_defaults(project, spec), seconds=DEFAULTS_SECONDS)
    except EngineError as error:
        _log.info("the engine cannot say what its place adds to runs: %s", error)
        return ()
    return tuple(map(_show, found[:MOST_DEFAULTS]))


def _show(default: PlaceDefault) -> Json:
    return {
        "path": format_path(default.path),
        "value": default.value,
        "set_by": OWNER,
        "source": default.source,
        "rule": "blank: filled by the cluster",
        "replaced": [],
    }
