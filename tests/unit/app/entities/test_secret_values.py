from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.app.core import Core
from runyard.app.entities.crud import create_entity
from runyard.app.entities.secret_values import MOST_ASKED, MOST_BYTES, get_secret_values, put_secret_values
from runyard.app.errors import Forbidden, Missing
from runyard.app.model import Principal
from runyard.app.runs.submission import submit_run
from runyard.spec.problems import Refused
from tests.unit.app.demo import ADA, RUN, TASK, list_audit, open_demo

CANARY = "c4n4ry-value"


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        for name in ("token", "key"):
            await create_entity(core, ADA, "secret", "demo", {"kind": "secret", "name": name})
        yield core


async def test_newest_value_is_answered_when_it_was_put_twice(core: Core) -> None:
    await put_secret_values(core, ADA, "demo", {"token": "1", "key": ""})
    await put_secret_values(core, ADA, "demo", {"token": "2 ä😀\n"})
    assert await get_secret_values(core, ADA, "demo", ["token", "key", "token"]) == {"token": "2 ä😀\n", "key": ""}
    assert await get_secret_values(core, ADA, "demo", []) == {}


async def test_secret_is_left_out_when_it_has_no_value(core: Core) -> None:
    assert await get_secret_values(core, ADA, "demo", ["token", "nothing"]) == {}


WRONG: list[Any] = [
    ({"token": CANARY, "tokn": CANARY}, "secret.unknown"),
    ({"token": 5}, "type.text"),
    ({"token": None}, "type.text"),
    ({"token": [CANARY]}, "type.text"),
    ({"token": {"a": CANARY}}, "type.text"),
    ({"token": f"{CANARY}\0"}, "text.control"),
    ({"token": f"{CANARY}\ud800"}, "text.control"),
    ({"token": CANARY * (MOST_BYTES // len(CANARY) + 1)}, "size.bytes"),
    ({"DOCKER_AUTH_CONFIG": CANARY}, "registries.invalid"),
    ({"DOCKER_AUTH_CONFIG": '{"auths": {"r": {"auth": "' + CANARY + '"}}}'}, "registries.invalid"),
    ([CANARY], "type.mapping"),
    (CANARY, "type.mapping"),
]


async def test_no_value_is_stored_or_shown_when_one_is_wrong(core: Core) -> None:
    for given, code in WRONG:
        with pytest.raises(Refused) as caught:
            await put_secret_values(core, ADA, "demo", given)
        assert [problem.code for problem in caught.value.problems] == [code], code
        shown = str(caught.value) + repr([problem.to_dict() for problem in caught.value.problems])
        assert CANARY not in shown, code
    assert await get_secret_values(core, ADA, "demo", ["token"]) == {}


async def test_values_are_apart_when_two_projects_have_secrets_of_the_same_name(core: Core) -> None:
    await create_entity(core, ADA, "secret", "other", {"kind": "secret", "name": "token"})
    await put_secret_values(core, ADA, "demo", {"token": "mine"})
    await put_secret_values(core, ADA, "other", {"token": "yours"})
    assert await get_secret_values(core, ADA, "demo", ["token"]) == {"token": "mine"}
    with pytest.raises(Missing):
        await get_secret_values(core, ADA, "nowhere", ["token"])


async def test_run_gets_only_the_secrets_it_names_when_it_asks_with_its_token(core: Core) -> None:
    await put_secret_values(core, ADA, "demo", {"token": CANARY, "key": CANARY})
    stored, _ = await submit_run(core, ADA, "demo", {**RUN, "spec": {"task": TASK, "secrets": ["token"]}})
    run = Principal(name="ada", run_id="r1", run_uid=stored.uid, project="demo", via="run")
    assert await get_secret_values(core, run, "demo", ["token"]) == {"token": CANARY}
    for names in (["key"], ["token", "key"], ["nothing"]):
        with pytest.raises(Forbidden):
            await get_secret_values(core, run, "demo", names)
    stranger = Principal(name="ada", run_id="r9", run_uid="u9", project="demo", via="run")
    for who in (stranger, replace(run, run_uid="earlier"), replace(run, run_uid=None)):
        with pytest.raises(Forbidden):
            await get_secret_values(core, who, "demo", ["token"])


async def test_value_is_not_audited_when_it_is_sent_by_mistake_as_a_name(core: Core) -> None:
    await put_secret_values(core, ADA, "demo", {"token": "x"})
    assert await get_secret_values(core, ADA, "demo", ["token", CANARY, "unknown"]) == {"token": "x"}
    (entry,) = await list_audit(core, "secret.get_values")
    assert entry.details == {"names": ["token"], "missing": 2}
    stored, _ = await submit_run(core, ADA, "demo", {**RUN, "spec": {"task": TASK, "secrets": ["token"]}})
    run = Principal(name="ada", run_id="r1", run_uid=stored.uid, project="demo", via="run")
    with pytest.raises(Forbidden) as caught:
        await get_secret_values(core, run, "demo", ["token", CANARY])
    # The audit of refused acts keeps this message.
    message = "this run's spec does not name 1 of the secrets asked for; it names only token"
    assert str(caught.value) == message


async def test_request_is_refused_when_it_asks_for_very_many_values(core: Core) -> None:
    with pytest.raises(Refused) as caught:
        await get_secret_values(core, ADA, "demo", [f"name-{number}" for number in range(MOST_ASKED + 1)])
    assert str(caught.value) == "keys: asks for 257 secrets; allowed: at most 256"


async def test_names_and_never_values_are_audited_when_values_come_and_go(core: Core) -> None:
    await put_secret_values(core, ADA, "demo", {"token": CANARY})
    await get_secret_values(core, ADA, "demo", ["token"])
    for action in ("secret.put_values", "secret.get_values"):
        (entry,) = await list_audit(core, action)
        assert (entry.actor, entry.details["names"]) == ("ada", ["token"])
        assert CANARY not in repr(entry)
