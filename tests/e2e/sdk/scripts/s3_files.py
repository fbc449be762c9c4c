"""Files in S3: logged by the SDK with credentials of the server, then read by HTTP; and the other way round."""

import os
from pathlib import Path

from tests.e2e.sdk.scripts.driving import PROJECT, dh, observe, open_project, requests

CONTENT = b"x,y\n1,2\n"
ADDRESS = f"{os.environ['DHCORE_ENDPOINT']}/api/v1/-/{PROJECT}/artifacts"
USER = (os.environ["RUNYARD_SDK_USER"], os.environ["RUNYARD_SDK_PASSWORD"])

project = open_project()
Path("points.csv").write_bytes(CONTENT)
one = project.log_artifact(name="points", kind="artifact", source="points.csv")
observe("logged", path=one.spec.path, id=one.id, state=one.status.state)
files = f"{ADDRESS}/{one.id}/files"
[listed] = requests.get(f"{files}/info", auth=USER, timeout=30).json()
got = requests.get(f"{files}/content/points.csv", auth=USER, timeout=30)
observe("read by HTTP", path=listed["path"], stored=listed.get("stored"), is_same=got.content == CONTENT)

Path("folder").mkdir()
Path("folder/a.txt").write_bytes(b"a")
many = project.log_artifact(name="many", kind="artifact", source="folder/")
put = requests.put(f"{ADDRESS}/{many.id}/files/content/sub/b.txt", data=CONTENT, auth=USER, timeout=30)
dh.get_artifact(many.key).download(destination="got/")
found = {path.name: path.read_bytes() == CONTENT for path in Path("got").rglob("*") if path.is_file()}
observe("read by the SDK", status=put.status_code, found=found)
