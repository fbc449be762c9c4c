"""The list of volumes has every volume of the place, whatever else lies among them."""

from pathlib import Path

import pytest

from runyard.engines.local.folders import volume_folders
from runyard.engines.local.folders.place import open_place
from runyard.engines.local.folders.place_files import write_record


def test_every_volume_is_listed_when_strangers_have_more_folders_than_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume_folders, "MOST_LISTED_VOLUMES", 2)
    place = open_place(tmp_path / "place")
    volumes = place.projects / "demo" / "volumes"
    for number in range(5):
        (volumes / f"a-{number}").mkdir(parents=True)
        (volumes / f"vol-{number}").mkdir()
        record = {"place": place.uid, "volume_id": f"v{number}", "size": None, "is_removing": False}
        write_record(volumes / f"vol-{number}" / volume_folders.VOLUME_FILE, record)
    listed = [(state.claim, state.volume_id) for state in volume_folders.list_volumes(place, {})]
    assert listed == [("a-0", None), ("a-1", None), *((f"vol-{number}", f"v{number}") for number in range(5))]
