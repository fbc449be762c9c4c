"""What the server offers beyond entities."""

from tests.e2e.sdk.scripts.driving import LINE, dh, observe, open_project, read_path

project = open_project()
observe("who", answer=read_path(project, "/api/auth"))
observe("well known", answer=read_path(project, "/.well-known/configuration"))
if LINE >= (0, 15):
    observe("profiles", names=dh.get_k8s_resource_profiles())
if LINE >= (0, 14):
    observe("configured", endpoint=dh.get_credentials_and_config()["DHCORE_ENDPOINT"])
