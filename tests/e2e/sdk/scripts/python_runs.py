"""Runs of a python function: parameters for a job, ports and a first call for a service."""

from tests.e2e.sdk.scripts.driving import PROJECT, dh, new_python, observe, open_project, plain, resources, run_kind

project = open_project()
grow = new_python(project, "grow")
run = grow.run(
    "job",
    parameters={"x": 41, "deep": {"list": [1, "two", None], "nothing": None}},
    resources=resources(cpu="1", mem="1Gi"),
)
observe("job", kind=run_kind("python", "job"), function=f"python://{PROJECT}/grow:{grow.id}", entity=plain(run))
observe("got", entity=plain(dh.get_run(run.key)))
served = grow.run("serve", replicas=1, service_type="ClusterIP", service_name="front")
observe("serve", kind=run_kind("python", "serve"), entity=plain(served))
observe("listed", ids=[one.id for one in grow.list_runs()], made=[served.id, run.id])
