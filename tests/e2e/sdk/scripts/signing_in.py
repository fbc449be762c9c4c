"""Who the server takes us for, by whichever credentials the environment holds."""

from pathlib import Path

from tests.e2e.sdk.scripts.driving import PROJECT, attempt, dh, observe, read_path

seen = attempt(lambda: dh.get_project(PROJECT))
observe("got", **seen)
observe("got again", **attempt(lambda: dh.get_project(PROJECT)))
if seen["error"] is None:
    observe("who", answer=read_path(dh.get_project(PROJECT), "/api/auth"))
# Up to 0.14 the file is in the home folder, since 0.15 where DH_CONFIG says.
observe("kept", is_written=any((Path.home() / name).is_file() for name in (".dhcore.ini", "dhcore.ini")))
