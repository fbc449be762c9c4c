"""Metrics of a run: appended, single, overwritten; and a client with stale news changes no state by logging one."""

from tests.e2e.sdk.scripts.driving import LINE, dh, new_container, observe, open_project

project = open_project()
box = new_container(project, "box")
run = box.run("job")
before = run.refresh().status.state
run.log_metric("loss", 0.5)
run.log_metric("loss", 0.25)
run.log_metric("loss", [0.2, 0.1])
run.log_metric("accuracy", 0.9, single_value=True)
run.log_metrics({"epochs": 3, "f1": [0.7, 0.8]})
run.log_metric("f1", [0.9], overwrite=True)
read = dh.get_run(run.key)
metrics = read.metrics if LINE >= (0, 15) else read.status.metrics
observe("read", metrics=metrics, before=before, after=read.status.state)

if LINE >= (0, 14):  # 0.13.4 cannot stop a run
    stale = box.run("job")
    stopped = dh.get_run(stale.key)
    stopped.stop()
    state = stopped.refresh().status.state
    stale.log_metric("late", 1.0)
    observe("stale", before=state, after=dh.get_run(stale.key).status.state)
