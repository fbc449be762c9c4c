"""An artifact whose file the server stores: created and uploaded by HTTP, then listed and downloaded by the SDK."""

import os
from pathlib import Path

from tests.e2e.sdk.scripts.driving import LINE, PROJECT, dh, observe, open_project, requests

CONTENT = b"weights " * 1000
ADDRESS = f"{os.environ['DHCORE_ENDPOINT']}/api/v1/-/{PROJECT}/artifacts"

project = open_project()
made = requests.post(ADDRESS, json={"kind": "artifact", "name": "weights", "id": "w1"}, timeout=30)
stored = requests.put(f"{ADDRESS}/w1/files/content/net/weights.bin", data=CONTENT, timeout=30)
observe("stored", statuses=[made.status_code, stored.status_code])
[artifact] = project.list_artifacts()
observe("listed", name=artifact.name, path=artifact.spec.path)
path = Path(artifact.download(destination="got.bin"))
observe("downloaded", name=path.name, is_same=path.read_bytes() == CONTENT)
read = dh.get_artifact(artifact.key)
files = read.files if LINE >= (0, 15) else read.status.files
observe("files", paths=[file["path"] if isinstance(file, dict) else file.path for file in files])
