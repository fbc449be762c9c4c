"""`/api/v1/audit`: who did what to which entity, when, from where, with what result. For admins; nothing changes it."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_web
from runyard.api.openapi_models import AuditAnswer
from runyard.api.query_parameters import Parameters
from runyard.api.responses import answer, format_time
from runyard.api.routing import Routes
from runyard.app.audit import MOST_ENTRIES, list_audit
from runyard.app.entities import drop_nulls
from runyard.app.model import AuditEntry, Json
from runyard.domain.access import Permission

routes = Routes("/api/v1/audit", tag="audit")
TAKES = ("project", "actor", "before", "limit")


@routes.get("", needs=Permission.ADMINISTER, takes=TAKES, response_model=AuditAnswer, name="list_audit")
async def list_all(request: Request) -> Response:
    """Newest first. To go on, ask again with `before` = `next`."""
    parameters = Parameters(request, TAKES)
    project, actor = parameters.find("project"), parameters.find("actor")
    before = parameters.integer("before", default=0, at_least=1, at_most=2**63 - 1) or None
    limit = parameters.integer("limit", default=100, at_least=1, at_most=MOST_ENTRIES)
    parameters.finish()
    core = get_web(request).core
    found = await list_audit(core, project=project, actor=actor, before=before, limit=limit)
    following = found[-1][0] if len(found) == limit else None
    entries = [_to_json(sequence, entry) for sequence, entry in found]
    return answer({"entries": entries, **({} if following is None else {"next": following})})


def _to_json(sequence: int, entry: AuditEntry) -> Json:
    shown = {
        "sequence": sequence,
        "time": format_time(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "project": entry.project,
        "type": entry.type,
        "id": entry.id,
        "result": entry.result,
        "address": entry.address,
    }
    return {**drop_nulls(shown), "details": dict(entry.details)}
