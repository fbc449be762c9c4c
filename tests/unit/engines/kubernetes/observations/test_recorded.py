"""What is observed of runs as a real cluster described them."""

import json
import re

import pytest

from runyard.app.engine import LARGEST_DETAILS_BYTES, STATUS_KEYS
from runyard.domain.outcomes import Seen
from runyard.engines.kubernetes.observations import observe_run
from tests.unit.engines.kubernetes.observations.recorded import FOLDER, NAMES, make_recorded, read_recorded

EXPECTED: dict[str, dict[str, str | None]] = json.loads((FOLDER.parent / "observations.json").read_text())
"""What has to be observed of each recorded status; the name of a pod is written as POD."""


@pytest.mark.parametrize("name", EXPECTED)
def test_reason_and_message_say_what_happened_when_a_cluster_described_it(name: str) -> None:
    found = observe_run(make_recorded(name))
    message = None if found.message is None else re.sub(r"\brun-[a-z0-9]{5}\b", "POD", found.message)
    assert {"seen": found.seen, "reason": found.reason, "message": message} == EXPECTED[name]
    assert set(found.details) <= set(STATUS_KEYS)
    assert len(json.dumps(found.details)) <= LARGEST_DETAILS_BYTES


def test_every_recorded_status_is_expected_when_there_is_a_new_one() -> None:
    assert sorted(EXPECTED) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_exit_codes_are_those_of_the_pods_when_a_cluster_described_them(name: str) -> None:
    codes = [
        status["state"]["terminated"]["exitCode"]
        for pod in read_recorded(name).get("pods", [])
        for status in pod["status"].get("containerStatuses", [])
        if "terminated" in status["state"]
    ]
    found = observe_run(make_recorded(name))
    assert [end.exit_code for end in found.ends if end.container == "main"][: len(codes)] == codes or not codes
    if found.seen is Seen.SUCCEEDED:
        assert codes == [0]
