"""HTTP over the use cases: thin routers, one place for who may call what, one for errors, one for shapes of answers.

Start in `application.py`. Routes are declared by `routing.Routes`, which asks for the permission each needs; a route
without one cannot be written. Owner of FastAPI.
"""
