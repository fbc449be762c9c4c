"""The HTTP API: thin routes over the use cases of `app`.

Start in `application.py`, which lists all routes. A route is declared by `routing.Routes` in `routes/`, and its
permission stands in the first line of that declaration: `@routes.get("/data", permission=Permission.READ_SECRETS)`. A
route without one cannot be declared; `dispatcher.py` checks it before the endpoint is called. Owner of Starlette.
"""
