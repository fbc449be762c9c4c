import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.app.core import Core
from runyard.app.engine import Admission, EngineRefusal
from runyard.app.loops.run_admission import RunAdmission
from runyard.app.model import Run
from runyard.app.rules import RecordedRules, put_policy, put_profile
from runyard.app.runs import submit_run
from runyard.app.volumes import create_volume
from runyard.manifests.identity import RunIdentity
from runyard.manifests.render import render_run
from tests.unit.app.demo import ADA, RUN, open_demo


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        yield core


async def submit(core: Core, run_id: str, **fields: Any) -> Run:
    document = {**RUN, "id": run_id, "spec": {**RUN["spec"], **fields}}
    return (await submit_run(core, ADA, "demo", document))[0]


def render(run: Run) -> list[dict[str, Any]]:
    spec = run.find_effective()
    assert spec is not None
    identity = RunIdentity(run_id=run.id, run_uid=run.uid, project=run.project, function="box", user=run.user)
    return render_run(spec, identity, secret_values={})


def bind(core: Core, run: Run, rules: RecordedRules | None = None) -> Admission:
    return RunAdmission(core, run, rules or RecordedRules())


async def set_policy(core: Core, document: dict[str, Any] | None) -> None:
    await put_policy(core, ADA, document, expected_revision=None)


async def test_run_is_admitted_by_its_own_policy_when_the_policy_changed_since(core: Core) -> None:
    await set_policy(core, {"timeout": {"max": "2h"}})
    old = await submit(core, "old", timeout="2h")
    await set_policy(core, {"timeout": {"max": "1h"}})
    rules = RecordedRules()

    admitted = await bind(core, old, rules).admit(render(old))

    assert [json.loads(item.body) for item in admitted] == render(old)
    with pytest.raises(EngineRefusal) as refusal:
        await bind(core, replace(old, policy_revision=2), rules).admit(render(old))
    assert refusal.value.code == "admission.refused"
    assert "violates `max` of the policy" in str(refusal.value)


async def test_run_is_admitted_by_the_built_in_policy_when_there_was_none(core: Core) -> None:
    run = await submit(core, "early", timeout="2h")
    assert run.policy_revision is None
    await set_policy(core, {"timeout": {"max": "1h"}})

    assert len(await bind(core, run).admit(render(run))) == 1


async def test_run_is_admitted_by_its_own_profile_when_the_profile_changed_since(core: Core) -> None:
    await put_profile(core, ADA, "small", {"resources": {"cpu": "1"}}, expected_revision=None)
    run = await submit(core, "r", profile="small")
    await put_profile(core, ADA, "small", {"resources": {"cpu": "2"}}, expected_revision=None)
    rules = RecordedRules()

    assert len(await bind(core, run, rules).admit(render(run))) == 1
    with pytest.raises(EngineRefusal, match=r"differs from the profile's `resources\.cpu`"):
        await bind(core, replace(run, profile_revision=2), rules).admit(render(run))


@pytest.mark.parametrize(("field", "name"), [("policy_revision", "policy platform 9"), ("profile_revision", "small 9")])
async def test_run_is_refused_when_its_revision_is_not_stored(core: Core, field: Any, name: str) -> None:
    await put_profile(core, ADA, "small", {"resources": {"cpu": "1"}}, expected_revision=None)
    run = await submit(core, "r", profile="small")

    with pytest.raises(EngineRefusal) as refusal:
        await bind(core, replace(run, **dict[str, Any]({field: 9}))).admit(render(run))

    assert refusal.value.code == "admission.refused"
    assert f"{name}, with which the run was resolved, is not stored" in str(refusal.value)


async def test_rendered_objects_are_refused_when_they_break_a_rule(core: Core) -> None:
    run = await submit(core, "r")
    (job,) = render(run)
    job["spec"]["template"]["spec"]["containers"][0]["securityContext"]["privileged"] = True

    with pytest.raises(EngineRefusal) as refusal:
        await bind(core, run).admit([job])

    assert refusal.value.code == "admission.refused"
    assert "containers[0].securityContext.privileged: is not an allowed value" in str(refusal.value)


async def test_problems_are_counted_when_there_are_many(core: Core) -> None:
    run = await submit(core, "r")
    (job,) = render(run)
    job["spec"] |= {f"field{number}": number for number in range(20)}

    with pytest.raises(EngineRefusal, match=r"and 15 more$"):
        await bind(core, run).admit([job])


async def test_objects_of_another_run_are_refused_when_a_run_sends_them(core: Core) -> None:
    run, other = await submit(core, "r"), await submit(core, "other")

    with pytest.raises(EngineRefusal, match="is one of the platform's variables"):
        await bind(core, run).admit(render(other))


async def test_shared_volume_is_known_when_the_run_mounts_it(core: Core) -> None:
    await create_volume(core, ADA, "demo", {"name": "data", "spec": {"size": "1Gi"}})
    volume = {"volume_type": "shared_volume", "name": "data", "mount_path": "/data"}
    run = await submit(core, "r", volumes=[volume])

    assert len(await bind(core, run).admit(render(run))) == 1
    foreign = render(run)
    foreign[0]["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = "vol-other"
    with pytest.raises(EngineRefusal, match="not a claim of the project"):
        await bind(core, run).admit(foreign)


async def test_revision_is_parsed_once_when_many_runs_have_it(core: Core) -> None:
    await set_policy(core, {"timeout": {"max": "2h"}})
    runs = [await submit(core, f"r{number}", timeout="1h") for number in range(3)]
    rules = RecordedRules()
    async with core.store.begin(is_read_only=True) as unit:
        first = await rules.get_policy(unit, 1)
        assert await rules.get_policy(unit, 1) is first
    for run in runs:
        assert len(await bind(core, run, rules).admit(render(run))) == 1


async def test_nothing_is_sent_when_the_client_executes_the_run(core: Core) -> None:
    run = await submit(core, "r")

    with pytest.raises(EngineRefusal, match="the run's client executes it"):
        await bind(core, replace(run, effective=None)).admit([])
