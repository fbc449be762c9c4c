"""A project is shared with somebody and taken back; `RUNYARD_SDK_ACT` says which."""

import os

from tests.e2e.sdk.scripts.driving import PROJECT, attempt, new_container, observe, open_project, read_path

user, act = os.environ["RUNYARD_SDK_OTHER_USER"], os.environ["RUNYARD_SDK_ACT"]
project = open_project()
if act == "create":
    new_container(project, "box")
elif act == "share":
    project.share(user)
else:
    project.unshare(user)
    observe("unshared again", **attempt(lambda: project.unshare(user)))
observe(act, users=[one["user"] for one in read_path(project, f"/api/v1/projects/{PROJECT}/share")])
