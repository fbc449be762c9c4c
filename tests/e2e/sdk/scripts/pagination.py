"""More functions than a page holds: each is listed once, newest first."""

from tests.e2e.sdk.scripts.driving import PROJECT, dh, narrow, new_container, observe, open_project

COUNT = 45

project = open_project()
made = [new_container(project, f"f{number:02}").name for number in range(COUNT)]
observe("made", names=made)
observe("listed", names=[one.name for one in dh.list_functions(PROJECT)])
observe("all versions", names=[one.name for one in project.list_functions(**narrow(versions="all"))])
observe("by name", name=project.get_function("f00").name)
observe("in the project", names=sorted(one["name"] for one in dh.get_project(PROJECT).to_dict()["spec"]["functions"]))
