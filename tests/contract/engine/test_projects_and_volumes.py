"""Projects and kept volumes: created and removed by Runyard, and never those of others."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from runyard.app.engine import EngineRefusal, KeptVolume, VolumeState
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.domain.resolve_inputs import AdminRules
from runyard.spec.volumes import Volume
from tests.contract.engine.lab import (
    Lab,
    assign,
    assign_again,
    begin_and_see,
    eventually,
    join,
    needs,
    read_log,
    see,
)
from tests.contract.engine.scripts import WAIT_FOREVER, leave, save, show_file


def make_volume(lab: Lab, **fields: Any) -> KeptVolume:
    """A volume of 16 MiB of the lab's project."""
    unique = uuid4().hex[:8]
    chosen = {"project": lab.project, "claim": f"vol-{unique}", "volume_id": f"v-{unique}", "size": "16Mi"}
    return KeptVolume(**{**chosen, **fields})


def mount(volume: KeptVolume) -> dict[str, Any]:
    """The part of a spec that mounts it at `/data`."""
    mounted = Volume(name="data", type="shared_volume", mount_path="/data", claim_name=volume.claim)
    return {"volumes": (mounted,)}


async def find(lab: Lab, volume: KeptVolume) -> VolumeState | None:
    listed = await lab.engine.list_volumes()
    return next((state for state in listed if (state.project, state.claim) == (volume.project, volume.claim)), None)


async def remove(lab: Lab, volume: KeptVolume) -> None:
    await eventually(lab, lambda: lab.engine.remove_volume(volume), lambda gone: gone, what="removed")


async def test_runs_can_begin_when_their_project_was_prepared_several_times_at_once(lab: Lab) -> None:
    project = f"c-{uuid4().hex[:8]}"
    other = await lab.reopen()
    await asyncio.gather(*(engine.ensure_project(project, AdminRules()) for engine in (lab.engine, other) * 3))
    assert await lab.has_project(project)
    run = assign(lab, project=project)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.engine.remove(anchor)
    await see(lab, anchor, Seen.ABSENT)
    await eventually(lab, lambda: lab.engine.remove_project(project), lambda gone: gone)
    assert not await lab.has_project(project)
    assert await lab.engine.remove_project(project)
    await lab.engine.ensure_project(project, AdminRules())
    await begin_and_see(lab, run, Seen.RUNNING)


async def test_other_projects_stay_when_one_is_removed(lab: Lab) -> None:
    anchor = await begin_and_see(lab, assign(lab, project=lab.other_project), Seen.RUNNING)
    await eventually(lab, lambda: lab.engine.remove_project(lab.project), lambda gone: gone)
    await lab.pass_time()
    assert await lab.has_project(lab.other_project)
    assert (await lab.engine.observe(anchor)).seen is Seen.RUNNING


@needs("strangers")
async def test_project_stays_when_somebody_else_made_it(lab: Lab) -> None:
    project = await lab.make_foreign_project()
    with suppress(EngineRefusal):  # an engine may use it as it is, or refuse it
        await lab.engine.ensure_project(project, AdminRules())
    await lab.engine.remove_project(project)
    await lab.pass_time()
    assert await lab.has_project(project)


async def test_volume_is_the_same_when_it_is_ensured_again(lab: Lab) -> None:
    volume = make_volume(lab)
    first = await lab.engine.ensure_volume(volume)
    await lab.engine.ensure_volume(volume)
    assert (first.project, first.claim, first.volume_id) == (volume.project, volume.claim, volume.volume_id)
    assert first.phase in ("pending", "bound")
    listed = await lab.engine.list_volumes()
    assert [state.volume_id for state in listed if state.claim == volume.claim] == [volume.volume_id]


async def test_volumes_of_all_projects_are_listed_when_there_are_several(lab: Lab) -> None:
    volumes = [make_volume(lab), make_volume(lab), make_volume(lab, project=lab.other_project)]
    for volume in volumes:
        await lab.engine.ensure_volume(volume)
    for volume in volumes:
        found = await find(lab, volume)
        assert found is not None
        assert (found.volume_id, found.mounted_by) == (volume.volume_id, ())


async def test_volume_is_refused_when_its_claim_has_another_id(lab: Lab) -> None:
    volume = make_volume(lab)
    await lab.engine.ensure_volume(volume)
    with pytest.raises(EngineRefusal) as refusal:
        await lab.engine.ensure_volume(replace(volume, volume_id="another"))
    assert refusal.value.code in set(Reason)
    found = await find(lab, volume)
    assert found is not None
    assert found.volume_id == volume.volume_id


async def test_volume_stays_when_another_id_is_removed(lab: Lab) -> None:
    volume = make_volume(lab)
    await lab.engine.ensure_volume(volume)
    await lab.engine.remove_volume(replace(volume, volume_id="another"))
    await lab.engine.remove_volume(replace(volume, project=lab.other_project))
    await lab.pass_time()
    found = await find(lab, volume)
    assert found is not None
    assert found.phase in ("pending", "bound")


async def test_volume_is_gone_when_it_is_removed_and_again(lab: Lab) -> None:
    volume = make_volume(lab)
    await lab.engine.ensure_volume(volume)
    await remove(lab, volume)
    assert await find(lab, volume) is None
    assert await lab.engine.remove_volume(volume)


@needs("mounts")
async def test_data_is_kept_when_the_run_that_wrote_it_is_removed(lab: Lab) -> None:
    volume = make_volume(lab)
    await lab.engine.ensure_volume(volume)
    writer = assign(lab, save("kept", "/data/note"), spec=mount(volume))
    anchor = await begin_and_see(lab, writer, Seen.SUCCEEDED)
    await lab.engine.remove(anchor)
    await see(lab, anchor, Seen.ABSENT)
    await lab.engine.ensure_volume(volume)
    assert await read_note(lab, volume) == b"kept\n"


@needs("mounts")
async def test_data_is_gone_when_the_volume_was_removed_and_created_again(lab: Lab) -> None:
    volume = make_volume(lab)
    await lab.engine.ensure_volume(volume)
    writer = await begin_and_see(lab, assign(lab, save("old", "/data/note"), spec=mount(volume)), Seen.SUCCEEDED)
    await lab.engine.remove(writer)
    await see(lab, writer, Seen.ABSENT)
    await remove(lab, volume)
    await lab.engine.ensure_volume(volume)
    assert await read_note(lab, volume) == b""


async def read_note(lab: Lab, volume: KeptVolume) -> bytes:
    reader = assign(lab, show_file("/data/note"), leave(0), spec=mount(volume))
    anchor = await begin_and_see(lab, reader, Seen.SUCCEEDED)
    (source,) = await lab.engine.list_log_sources(anchor)
    return join(await read_log(lab, source))


@needs("mounts")
async def test_mounted_volume_goes_when_the_last_run_that_mounts_it_has_ended(lab: Lab) -> None:
    volume = make_volume(lab)
    await lab.engine.ensure_volume(volume)
    run = assign(lab, WAIT_FOREVER, spec=mount(volume))
    anchor = await begin_and_see(lab, run, Seen.RUNNING)

    async def read_mounts() -> tuple[str, ...]:
        found = await find(lab, volume)
        return () if found is None else found.mounted_by

    await eventually(lab, read_mounts, lambda by: by == (run.run_uid,))
    assert not await lab.engine.remove_volume(volume)
    await lab.pass_time()
    found = await find(lab, volume)
    assert found is not None
    assert found.phase == "removing"
    assert (await lab.engine.observe(anchor)).seen is Seen.RUNNING
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    await lab.engine.remove(anchor)
    await remove(lab, volume)
    assert await find(lab, volume) is None


@needs("strangers")
async def test_claim_of_others_is_listed_and_untouched_when_it_is_ensured_or_removed(lab: Lab) -> None:
    claim = await lab.make_foreign_claim(lab.project)
    volume = make_volume(lab, claim=claim)
    with pytest.raises(EngineRefusal):
        await lab.engine.ensure_volume(volume)
    await lab.engine.remove_volume(volume)
    await lab.pass_time()
    found = await find(lab, volume)
    assert found is not None
    assert (found.volume_id, found.phase) == (None, "bound")
