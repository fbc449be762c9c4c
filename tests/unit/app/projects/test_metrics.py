from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.app.core import Core
from runyard.app.entities.crud import create_entity, get_entity, update_entity
from runyard.app.entities.entity_files import MOST_FILES, put_files
from runyard.app.errors import Forbidden, Missing
from runyard.app.files import list_all_files
from runyard.app.model import Principal
from runyard.app.projects.metrics import MOST_METRICS, MOST_POINTS, list_metrics, put_metric
from runyard.app.runs.run_queries import get_run
from runyard.app.runs.submission import submit_run
from runyard.spec.problems import Refused
from tests.unit.app.demo import ADA, RUN, list_audit, open_demo


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        artifact = {
            "kind": "artifact",
            "name": "a",
            "id": "a1",
            "spec": {"path": "s3://a"},
            "status": {"state": "READY"},
        }
        await create_entity(core, ADA, "artifact", "demo", artifact)
        await submit_run(core, ADA, "demo", RUN)
        yield core


async def test_series_and_numbers_are_answered_when_they_were_put(core: Core) -> None:
    assert await list_metrics(core, "run", "demo", "r1") == {}
    await put_metric(core, ADA, "run", "demo", "r1", name="acc", given=[0.5])
    await put_metric(core, ADA, "run", "demo", "r1", name="acc", given=[0.5, 1])
    await put_metric(core, ADA, "run", "demo", "r1", name="loss", given=0.1)
    assert await list_metrics(core, "run", "demo", "r1") == {"acc": [0.5, 1.0], "loss": 0.1}
    assert await list_metrics(core, "artifact", "demo", "a1") == {}


WRONG: list[Any] = ["x", None, True, {}, [None], ["1"], [[1]], [True], 10**400, [10**400], -(10**309), float("nan")]


async def test_metric_is_refused_when_it_is_no_number(core: Core) -> None:
    for given in WRONG:
        with pytest.raises(Refused):
            await put_metric(core, ADA, "run", "demo", "r1", name="acc", given=given)
    with pytest.raises(Refused):
        await put_metric(core, ADA, "run", "demo", "r1", name="acc", given=[0] * (MOST_POINTS + 1))
    for name in ("", "x" * 257, "a\nb", "a\0"):
        with pytest.raises(Refused):
            await put_metric(core, ADA, "run", "demo", "r1", name=name, given=1)
    assert await list_metrics(core, "run", "demo", "r1") == {}


async def test_metrics_are_missing_when_the_entity_is(core: Core) -> None:
    for act in (
        list_metrics(core, "run", "other", "r1"),
        list_metrics(core, "run", "demo", "a1"),
        put_metric(core, ADA, "run", "other", "r1", name="acc", given=1),
        put_metric(core, ADA, "artifact", "demo", "a2", name="acc", given=1),
    ):
        with pytest.raises(Missing):
            await act


async def test_run_writes_only_its_own_metrics_when_it_has_a_token(core: Core) -> None:
    stored, _ = await get_run(core, "demo", "r1")
    run = Principal(name="ada", run_id="r1", run_uid=stored.uid, project="demo", via="run")
    await put_metric(core, run, "run", "demo", "r1", name="acc", given=1)
    with pytest.raises(Forbidden):
        await put_metric(core, replace(run, run_uid="earlier"), "run", "demo", "r1", name="acc", given=1)
    with pytest.raises(Forbidden):
        await put_metric(core, run, "run", "demo", "r2", name="acc", given=1)


async def test_files_are_answered_without_nulls_when_they_were_put(core: Core) -> None:
    assert await list_all_files(core, "artifact", "demo", "a1") == []
    files = [{"path": "a", "size": 5, "hash": None}, {"path": "b"}]
    await put_files(core, ADA, "artifact", "demo", "a1", files)
    assert await list_all_files(core, "artifact", "demo", "a1") == [{"path": "a", "size": 5}, {"path": "b"}]
    entity = await get_entity(core, "artifact", "demo", "a1")
    assert (entity.state, entity.spec, entity.revision) == ("READY", {"path": "s3://a"}, 2)
    (entry,) = await list_audit(core, "artifact.put_files")
    assert entry.details["files"] == 2


async def test_entity_can_be_updated_when_it_has_very_many_files(core: Core) -> None:
    """An SDK describes a file by six fields, so these have more values than the rest of an entity may have."""
    names = ("path", "name", "content_type", "size", "hash", "last_modified")
    files = [dict.fromkeys(names, "x") for _ in range(8000)]
    await put_files(core, ADA, "artifact", "demo", "a1", files)
    changed = {"kind": "artifact", "status": {"state": "ERROR"}}
    assert (await update_entity(core, ADA, "artifact", "demo", "a1", changed)).state == "ERROR"
    assert len(await list_all_files(core, "artifact", "demo", "a1")) == 8000


@pytest.mark.parametrize(
    ("given", "path"), [({}, ""), ("x", ""), ([{}, 5, []], "[1]"), ([{}] * (MOST_FILES + 1), ""), ([[{}]], "[0]")]
)
async def test_files_are_refused_when_they_are_no_list_of_files(core: Core, given: Any, path: str) -> None:
    with pytest.raises(Refused) as caught:
        await put_files(core, ADA, "artifact", "demo", "a1", given)
    assert caught.value.problems[0].where == path
    assert await list_all_files(core, "artifact", "demo", "a1") == []


async def test_metric_is_refused_when_there_are_too_many_or_too_large_ones(core: Core) -> None:
    for number in range(MOST_METRICS):
        await put_metric(core, ADA, "run", "demo", "r1", name=f"m{number}", given=1)
    await put_metric(core, ADA, "run", "demo", "r1", name="m0", given=2)
    with pytest.raises(Refused, match="there would be 257 metrics; allowed: at most 256"):
        await put_metric(core, ADA, "run", "demo", "r1", name="one-more", given=1)
    series = [number / 7 for number in range(MOST_POINTS)]
    for number in range(10):
        await put_metric(core, ADA, "run", "demo", "r1", name=f"m{number}", given=series)
    with pytest.raises(
        Refused, match=r"the metrics would have about [0-9.]+ MiB \([0-9]+ bytes\); allowed: at most 8 MiB for all"
    ):
        await put_metric(core, ADA, "run", "demo", "r1", name="m10", given=series)
    assert len(await list_metrics(core, "run", "demo", "r1")) == MOST_METRICS
