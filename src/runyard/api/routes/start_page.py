"""`/`: a small page for people who open the server's address in a browser. It says nothing that needs an account."""

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from runyard import __version__
from runyard.api.responses import json_response
from runyard.api.routing import Routes
from runyard.domain.access import Permission

LINKS = {
    "openapi": ("/openapi.json", "The API: every route, as OpenAPI"),
    "configuration": ("/.well-known/configuration", "Configuration for clients"),
    "health": ("/healthz", "Liveness"),
    "readiness": ("/readyz", "Readiness"),
    "metrics": ("/metrics", "Metrics for Prometheus"),
}
"""Public routes only."""
DOCS = {
    "docs/users/api.md": "using the API, from an empty server to a run",
    "docs/users/resources.md": "what a run may ask for",
    "docs/users/coming-from-digitalhub.md": "coming from DigitalHub",
    "docs/admins/profiles-and-policy.md": "profiles and policy",
    "docs/operators/server.md": "running the server",
}
"""Pages of the documentation, in the source of this version."""
HEADERS = {
    # The page loads nothing and runs nothing, and no other page may frame it.
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept",
}
_HTML = {"schema": {"type": "string"}}
_JSON = {"schema": {"type": "object", "additionalProperties": True}}

routes = Routes(tag="discovery")


@routes.get(
    "/",
    permission=Permission.PUBLIC,
    responses={200: {"description": "Success.", "content": {"text/html": _HTML, "application/json": _JSON}}},
)
async def get_start_page(request: Request) -> Response:
    """Name, version and where to go from here: a page in HTML, or JSON for clients that accept only that."""
    if _accepts_only_json(request.headers.get("accept", "")):
        links = {name: path for name, (path, _) in LINKS.items()}
        return json_response({"name": "runyard", "version": __version__, "links": links}, headers=HEADERS)
    return HTMLResponse(_render(), headers=HEADERS)


def _accepts_only_json(accept: str) -> bool:
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return "application/json" in kinds and not kinds & {"text/html", "text/*", "*/*"}


def _render() -> str:
    links = "".join(f'<li><a href="{path}">{path}</a>: {title}</li>\n' for path, title in LINKS.values())
    docs = "".join(f"<li><code>{file}</code>: {title}</li>\n" for file, title in DOCS.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Runyard</title>
</head>
<body>
<h1>Runyard {__version__}</h1>
<p>Runs AI tasks, batch jobs and model serving, on Kubernetes. This server has an API and no web console yet: use it
with the <code>digitalhub</code> SDK, the <code>runyard</code> command or any HTTP client.</p>
<h2>On this server</h2>
<ul>
{links}</ul>
<h2>Documentation, in the source of this version</h2>
<ul>
{docs}</ul>
</body>
</html>
"""
