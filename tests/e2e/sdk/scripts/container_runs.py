"""Runs of a container function, with every Kubernetes field that the line can send."""

import os

from tests.e2e.sdk.scripts.driving import (
    LINE,
    PROJECT,
    attempt,
    dh,
    new_container,
    observe,
    open_project,
    plain,
    resources,
    run_kind,
)

PVC = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "10Gi"}}
EMPTY = {"volume_type": "empty_dir", "name": "fast", "mount_path": "/fast", "spec": {"size_limit": "1Gi"}}
EPHEMERAL = {"volume_type": "ephemeral", "name": "work", "mount_path": "/work", "spec": {"size": "1Gi"}}

project = open_project()
project.new_secret(name="db-password", secret_value="s3cr3t")
box = new_container(project, "box")

amounts = {"cpu": "500m", "mem": "64Mi"} | ({"disk": "1Gi"} if LINE >= (0, 15) else {})
asked = {
    "args": ["-c", "echo hi"],
    "volumes": [PVC, EMPTY, EPHEMERAL],
    "resources": resources(**amounts),
    "envs": [{"name": "GREETING", "value": "hello"}],
    "secrets": ["db-password"],
    "run_as_user": 1000,
    "run_as_group": 1000,
    "fs_group": 1000,
}
run = box.run("job", **asked)
observe("submitted", kind=run_kind("container", "job"), asked=asked, entity=plain(run))
observe("got", entity=plain(dh.get_run(run.key)))
observe("refreshed", entity=plain(run.refresh()))

profiles = [name for name in (os.environ.get("RUNYARD_SDK_PROFILE"),) if name]
for name in profiles:
    observe("with profile", entity=plain(box.run("job", args=["-c", "true"], profile=name)), profile=name)

if LINE <= (0, 14):
    placement = {
        "node_selector": [{"key": "disk", "value": "ssd"}],
        "tolerations": [{"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
        "priority_class": "low",
    }
    observe("placed", asked=placement, entity=plain(box.run("job", **placement)))

ports = [{"port": 8080, "target_port": 80}]
served = box.run("serve", replicas=2, service_ports=ports, service_type="ClusterIP", service_name="front")
observe("served", kind=run_kind("container", "serve"), entity=plain(served))
observe("action deploy", **attempt(lambda: box.run("deploy", replicas=1)))
observe("listed", ids=[one.id for one in dh.list_runs(PROJECT)], first=run.id, served=served.id)
