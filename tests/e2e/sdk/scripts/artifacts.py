"""Artifacts without their bytes: the entity, its versions, and the states that the client reports by PUT."""

from tests.e2e.sdk.scripts.driving import PROJECT, dh, narrow, observe, open_project, plain, save_changes

FILES = [{"path": "weights.bin", "name": "weights.bin", "size": 3, "hash": "md5:900150983cd24fb0d6963f7d28e17f72"}]

project = open_project()
first = project.new_artifact(name="weights", kind="artifact", path="s3://bucket/1/weights.bin", labels=["calm"])
second = project.new_artifact(name="weights", kind="artifact", path="s3://bucket/2/weights.bin")
project.new_dataitem(name="rows", kind="dataitem", path="s3://bucket/rows.bin")
project.new_model(name="net", kind="model", path="s3://bucket/net/")
observe("made", entity=plain(first), ids=[first.id, second.id])
observe("listed", ids=[one.id for one in project.list_artifacts()])
observe("versions", ids=[one.id for one in project.get_artifact_versions("weights")])
observe("others", names=[one.name for one in (*project.list_dataitems(), *project.list_models())])

states = []
for state in ("UPLOADING", "READY"):
    second.status.state = state
    if state == "READY":
        second.status.files = FILES
    save_changes(second)
    states.append(dh.get_artifact(second.key).status.state)
observe("states", states=states, files=plain(dh.get_artifact(second.key))["status"].get("files"))
observe("path", path=dh.get_artifact(second.key).spec.path)
observe("ready", ids=[one.id for one in dh.list_artifacts(PROJECT, **narrow(state="READY"))])
project.delete_artifact("weights", entity_id=second.id)
observe("one deleted", ids=[one.id for one in project.get_artifact_versions("weights")])
project.delete_artifact("weights", delete_all_versions=True)
observe("all deleted", names=[one.name for one in project.list_artifacts()])
