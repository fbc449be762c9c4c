"""`/api/v1/audit`: the audit log, for admins. It is read-only."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.openapi_models import AuditResponse
from runyard.api.query_parameters import get_parameters, integer, optional_integer, text, time_point
from runyard.api.responses import format_time, made_response
from runyard.api.routing import Routes
from runyard.app.audit import MOST_ENTRIES, list_audit
from runyard.app.entities import drop_nulls
from runyard.app.model import AuditEntry, AuditFilter, Json
from runyard.domain.access import Permission

routes = Routes("/api/v1/audit", tag="audit")
PROJECT = text("project", "Only entries of this project.")
ACTOR = text("actor", "Only entries of this actor.")
ACTION = text("action", "Only entries of this action, such as `policy.put`.")
SINCE = time_point("since", "Only entries written at or after this time.")
UNTIL = time_point("until", "Only entries written until this time.")
BEFORE = optional_integer("before", "Only entries with a smaller sequence.", at_least=1, at_most=2**63 - 1)
LIMIT = integer("limit", "Maximum number of entries.", default=100, at_least=1, at_most=MOST_ENTRIES)


@routes.get(
    "",
    permission=Permission.ADMINISTER,
    parameters=(PROJECT, ACTOR, ACTION, SINCE, UNTIL, BEFORE, LIMIT),
    response=AuditResponse,
    name="list_audit",
    is_listing=True,
)
async def list_all(request: Request) -> Response:
    """List audit entries, newest first. For the next page, set `before` to `next`.

    A page has fewer entries than `limit` if they are large.
    """
    parameters, context = get_parameters(request), get_context(request)
    chosen = AuditFilter(
        project=parameters[PROJECT],
        actor=parameters[ACTOR],
        action=parameters[ACTION],
        since=parameters[SINCE],
        until=parameters[UNTIL],
        before=parameters[BEFORE],
    )
    found = await list_audit(context.core, chosen, limit=parameters[LIMIT], most_bytes=context.limits.page_bytes)

    def make() -> Json:
        entries = [_to_json(sequence, entry) for sequence, entry in found.entries]
        return {"entries": entries, **({} if found.next is None else {"next": found.next})}

    return made_response(make, over=[dict(entry.details) for _, entry in found.entries])


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
