"""Somebody else's project, seen by whoever the credentials are."""

from tests.e2e.sdk.scripts.driving import PROJECT, attempt, dh, list_project_names, observe

seen = attempt(lambda: dh.get_project(PROJECT))
observe("got", **seen)
observe("listed", names=list_project_names())
if seen["error"] is None:
    observe("functions", names=[one.name for one in dh.list_functions(PROJECT)])
