"""Tasks: one per function and action, made by hand or by the first run, found by kind and function."""

from tests.e2e.sdk.scripts.driving import (
    LINE,
    PROJECT,
    attempt,
    dh,
    narrow,
    new_container,
    observe,
    open_project,
    plain,
)

project = open_project()
box, other = new_container(project, "box"), new_container(project, "other")
reference = f"container://{PROJECT}/box:{box.id}"
job, serve = ("job", "serve") if LINE >= (0, 15) else ("container+job", "container+serve")

task = box.new_task(job, envs=[{"name": "FROM", "value": "task"}])
observe("made", entity=plain(task), reference=reference)
observe("got", entity=plain(dh.get_task(task.key)))
runs = [box.run("job", args=["-c", "true"]), box.run("job", args=["-c", "false"])]
observe("runs", tasks=[run.spec.task for run in runs], task=f"container+job://{PROJECT}/{task.id}")

box.run("serve", service_ports=[{"port": 8080, "target_port": 8080}])
other.run("job")
observe("of the function", kinds=[one.kind for one in dh.list_tasks(PROJECT, **narrow(function=reference))])
observe("of the kind", functions=[one.spec.function for one in dh.list_tasks(PROJECT, **narrow(kind="container+job"))])
observe(
    "of both",
    ids=[one.id for one in dh.list_tasks(PROJECT, **narrow(function=reference, kind="container+job"))],
    task=task.id,
)
observe("by action", id=dh.get_function(box.key).get_task(job).id)

second = {"project": PROJECT, "kind": "container+job", "function": reference}
observe("second", **attempt(lambda: dh.new_task(**second)))
box.update_task(job, envs=[{"name": "FROM", "value": "changed"}], uuid=task.id)
observe("changed", envs=plain(dh.get_task(task.key))["spec"].get("envs"))
dh.delete_task(task.key, cascade=True)
observe("deleted", kinds=[one.kind for one in dh.list_tasks(PROJECT, **narrow(function=reference))])
observe("runs after delete", functions=[one.spec.function for one in dh.list_runs(PROJECT)])
