"""Who may call what, written down by hand: a route without a row, or a row without a route, fails the test."""

NOBODY, STRANGER, VIEWER, EDITOR, OWNER, RUN, ADMIN = "nobody", "stranger", "viewer", "editor", "owner", "run", "admin"
EVERY_ROLE = (NOBODY, STRANGER, VIEWER, EDITOR, OWNER, RUN, ADMIN)

WHO = {
    "anybody": {NOBODY, STRANGER, VIEWER, EDITOR, OWNER, RUN, ADMIN},
    "accounts": {STRANGER, VIEWER, EDITOR, OWNER, RUN, ADMIN},
    "people": {STRANGER, VIEWER, EDITOR, OWNER, ADMIN},
    "readers": {VIEWER, EDITOR, OWNER, RUN, ADMIN},
    "producers": {EDITOR, OWNER, RUN, ADMIN},
    "writers": {EDITOR, OWNER, ADMIN},
    "owners": {OWNER, ADMIN},
    "admins": {ADMIN},
}

_DISCOVERY = {
    "GET /": "anybody",
    "GET /healthz": "anybody",
    "GET /readyz": "anybody",
    "GET /metrics": "anybody",
    "GET /openapi.json": "anybody",
    "GET /.well-known/configuration": "anybody",
    "GET /.well-known/openid-configuration": "anybody",
    "GET /.well-known/oauth-authorization-server": "anybody",
    "GET /.well-known/security.txt": "anybody",
    "GET /auth/jwks": "anybody",
    "POST /auth/token": "anybody",
    "GET /auth/userinfo": "accounts",
    "GET /api/auth": "accounts",
    "POST /api/auth": "accounts",
    "GET /api/v1/schemas/{entity}": "accounts",
    "GET /api/v1/schemas/{entity}/{kind}": "accounts",
}
_TOKENS = {
    "GET /api/v1/tokens/personal": "people",
    "POST /api/v1/tokens/personal": "people",
    "GET /api/v1/tokens/personal/{id}": "people",
    "DELETE /api/v1/tokens/personal/{id}": "people",
}
_USAGE = {
    "GET /api/v1/users/me/metrics/k8s": "people",
    "GET /api/v1/metrics/k8s": "admins",
}
_PROJECTS = {
    "GET /api/v1/projects": "accounts",
    "POST /api/v1/projects": "people",
    "POST /api/v1/new-projects/{name}/runs/explain": "people",
    "POST /api/v1/new-projects/{name}/runs/render": "people",
    "GET /api/v1/projects/{project}": "readers",
    "PUT /api/v1/projects/{project}": "owners",
    "DELETE /api/v1/projects/{project}": "owners",
    "GET /api/v1/projects/{project}/metrics/k8s": "readers",
    "GET /api/v1/projects/{project}/share": "readers",
    "POST /api/v1/projects/{project}/share": "owners",
    "DELETE /api/v1/projects/{project}/share": "owners",
    "GET /api/v1/-/{project}/labels": "readers",
    "GET /api/v1/-/{project}/solr/search/item": "readers",
}
_RUNS = {
    "GET /runs": "readers",
    "POST /runs": "writers",
    "POST /runs/explain": "readers",
    "POST /runs/render": "readers",
    "GET /runs/{id}": "readers",
    "PUT /runs/{id}": "producers",
    "DELETE /runs/{id}": "writers",
    "GET /runs/{id}/effective": "readers",
    "GET /runs/{id}/events": "readers",
    "GET /runs/{id}/logs": "readers",
    "GET /runs/{id}/log": "readers",
    "POST /runs/{id}/stop": "writers",
    "POST /runs/{id}/resume": "writers",
    "GET /runs/{id}/metrics": "readers",
    "GET /runs/{id}/metrics/{name}": "readers",
    "PUT /runs/{id}/metrics/{name}": "producers",
    "GET /runs/{id}/relationships": "readers",
    "GET /runs/{id}/usage": "readers",
    "GET /runs/{id}/metrics/k8s": "readers",
    "WEBSOCKET /runs/{id}/exec": "writers",
    "WEBSOCKET /runs/{id}/attach": "writers",
    "WEBSOCKET /runs/{id}/portforward": "writers",
}
_SECRETS = {
    "GET /secrets/data": "producers",
    "PUT /secrets/data": "writers",
}
_VOLUMES = {
    "GET /volumes": "readers",
    "POST /volumes": "writers",
    "GET /volumes/{name}": "readers",
    "DELETE /volumes/{name}": "writers",
}
_TRIGGERS = {
    "POST /triggers/{id}/run": "writers",
    "POST /triggers/{id}/stop": "writers",
}
_ADMIN = {
    "GET /api/v1/profiles": "accounts",
    "GET /api/v1/profiles/{name}": "accounts",
    "PUT /api/v1/profiles/{name}": "admins",
    "DELETE /api/v1/profiles/{name}": "admins",
    "GET /api/v1/profiles/{name}/revisions": "admins",
    "GET /api/v1/profiles/{name}/revisions/{revision}": "admins",
    "GET /api/v1/policy": "accounts",
    "PUT /api/v1/policy": "admins",
    "DELETE /api/v1/policy": "admins",
    "GET /api/v1/policy/revisions": "admins",
    "GET /api/v1/policy/revisions/{revision}": "admins",
    "POST /api/v1/policy/rehearse": "admins",
    "GET /api/v1/audit": "admins",
    "GET /api/v1/engine": "accounts",
    "GET /api/v1/engine/orphans": "admins",
    "GET /api/v1/engine/orphaned-volumes": "admins",
}


def _make_entity_rows(plural: str, writers: str) -> dict[str, str]:
    return {
        f"GET /{plural}": "readers",
        f"POST /{plural}": writers,
        f"DELETE /{plural}": writers,
        f"GET /{plural}/{{id}}": "readers",
        f"PUT /{plural}/{{id}}": writers,
        f"DELETE /{plural}/{{id}}": writers,
    }


def _make_measured_rows(plural: str) -> dict[str, str]:
    return {
        f"GET /{plural}/{{id}}/metrics": "readers",
        f"GET /{plural}/{{id}}/metrics/{{name}}": "readers",
        f"PUT /{plural}/{{id}}/metrics/{{name}}": "producers",
        f"GET /{plural}/{{id}}/relationships": "readers",
    }


def _make_filed_rows(plural: str) -> dict[str, str]:
    return {
        f"GET /{plural}/{{id}}/files/info": "readers",
        f"PUT /{plural}/{{id}}/files/info": "producers",
        f"GET /{plural}/{{id}}/relationships": "readers",
    }


def _make_stored_rows(plural: str) -> dict[str, str]:
    return {
        f"GET /{plural}/{{id}}/files/content": "readers",
        f"GET /{plural}/{{id}}/files/content/{{path:path}}": "readers",
        f"PUT /{plural}/{{id}}/files/content/{{path:path}}": "producers",
        f"DELETE /{plural}/{{id}}/files/content/{{path:path}}": "producers",
        f"GET /{plural}/{{id}}/files/uploads": "readers",
        f"POST /{plural}/{{id}}/files/uploads": "producers",
        f"GET /{plural}/{{id}}/files/uploads/{{upload}}": "readers",
        f"PATCH /{plural}/{{id}}/files/uploads/{{upload}}": "producers",
        f"DELETE /{plural}/{{id}}/files/uploads/{{upload}}": "producers",
        f"POST /{plural}/{{id}}/files/uploads/{{upload}}/complete": "producers",
    }


def make_table() -> dict[str, str]:
    """Every route and who may call it."""
    inside: dict[str, str] = {**_RUNS, **_SECRETS, **_VOLUMES, **_TRIGGERS}
    for plural in ("functions", "workflows", "tasks", "triggers", "secrets", "configmaps"):
        inside |= _make_entity_rows(plural, "writers")
    for plural in ("artifacts", "dataitems", "models", "containerimages", "extensions"):
        inside |= _make_entity_rows(plural, "producers")
    for plural in ("artifacts", "dataitems", "models", "containerimages"):
        inside |= _make_filed_rows(plural)
    for plural in ("artifacts", "dataitems", "models"):
        inside |= _make_stored_rows(plural)
    for plural in ("functions", "workflows", "tasks", "artifacts", "dataitems", "models"):
        inside |= _make_measured_rows(plural)
    placed = {key.replace(" /", " /api/v1/-/{project}/", 1): who for key, who in inside.items()}
    return {**_DISCOVERY, **_TOKENS, **_USAGE, **_PROJECTS, **placed, **_ADMIN}
