from dataclasses import replace

import pytest

from runyard.app.entities.drafts import read_draft
from runyard.app.entities.ownership import KEPT, PRODUCER, PRODUCER_UID, check_own_entity, name_producer
from runyard.app.errors import Forbidden
from runyard.app.model import Principal
from tests.unit.app.shop import make_entity

TOKEN = Principal(name="ada", run_id="r1", run_uid="u1", project="p", via="run")


@pytest.mark.parametrize(
    "metadata",
    [{}, {PRODUCER: "r2"}, {PRODUCER: None}, {PRODUCER: "r1"}, {PRODUCER: "r1", PRODUCER_UID: "earlier"}],
)
def test_token_of_a_run_is_refused_when_it_did_not_make_the_entity(metadata: dict[str, str | None]) -> None:
    with pytest.raises(Forbidden):
        check_own_entity(TOKEN, make_entity("model", "m", metadata=metadata))


def test_token_of_a_run_is_let_through_when_the_run_made_the_entity() -> None:
    check_own_entity(TOKEN, make_entity("model", "m", metadata=name_producer(TOKEN)))


def test_token_is_let_through_when_run_and_entity_are_older_than_uids() -> None:
    check_own_entity(replace(TOKEN, run_uid="r1"), make_entity("model", "m", metadata={PRODUCER: "r1"}))


def test_user_is_let_through_when_a_run_made_the_entity() -> None:
    check_own_entity(Principal(name="ada"), make_entity("model", "m", metadata={PRODUCER: "r2"}))


def test_keys_of_the_server_are_dropped_when_a_client_sends_them() -> None:
    forged = dict.fromkeys(KEPT, "forged")
    assert read_draft({"kind": "model", "metadata": {**forged, "description": "x"}}).metadata == {"description": "x"}
