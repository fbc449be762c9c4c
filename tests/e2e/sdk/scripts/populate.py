"""One of everything that a project holds, with the fields that only some lines can read, for other lines to list."""

from typing import Any

from tests.e2e.sdk.scripts.driving import (
    LINE,
    PROJECT,
    dh,
    keep_volume,
    new_container,
    new_python,
    observe,
    open_project,
    resources,
)

project = open_project()
project.new_secret(name="api-key", secret_value="s3cr3t")
box, grow = new_container(project, "box"), new_python(project, "grow")
project.new_artifact(name="weights", kind="artifact", path="s3://bucket/weights.bin")
project.new_dataitem(name="rows", kind="dataitem", path="s3://bucket/rows.bin")
project.new_model(name="net", kind="model", path="s3://bucket/net/")

volumes: list[dict[str, Any]] = [
    {"volume_type": "empty_dir", "name": "fast", "mount_path": "/fast", "spec": {"size_limit": "1Gi"}}
]
if LINE >= (0, 14):
    keep_volume("common")
    volumes.append({"volume_type": "shared_volume", "name": "common", "mount_path": "/common"})
fields: dict[str, Any] = {"volumes": volumes, "resources": resources(cpu="1", mem="1Gi"), "secrets": ["api-key"]}
if LINE <= (0, 14):
    fields["node_selector"] = [{"key": "disk", "value": "ssd"}]
if LINE >= (0, 15):
    fields["resources"]["disk"] = "1Gi"
box.new_task("job" if LINE >= (0, 15) else "container+job", **fields)
box.run("job", args=["-c", "true"], **fields)
box.run("serve", service_ports=[{"port": 8080, "target_port": 80}], **fields)
grow.run("job", parameters={"x": 1}, resources=resources(cpu="1", mem="1Gi"))
grow.run("job", parameters={"x": 2}, local_execution=True)
observe("made", runs=sorted(one.kind for one in dh.list_runs(PROJECT)))
