"""Runs with each line of the published SDK: what they carry, how lists narrow them, how they end."""

import pytest

from tests.e2e.sdk.core import Core
from tests.e2e.sdk.driver import Driver, Seen

pytestmark = pytest.mark.timeout(600)  # the first test of a line installs its environment

NOT_ENDED = {"CREATED", "BUILT", "READY", "PENDING", "RUNNING"}


def test_run_carries_what_was_asked_when_it_is_a_container(sdk: Driver) -> None:
    seen = sdk.saw("container_runs")
    asked = seen["submitted"]["asked"]
    for step in ("submitted", "got", "refreshed"):
        entity = seen[step]["entity"]
        assert entity["kind"] == seen["submitted"]["kind"]
        assert entity["status"]["state"] in NOT_ENDED
        assert {key: entity["spec"][key] for key in asked} == asked


def test_run_kind_is_the_lines_own_when_submitted(sdk: Driver) -> None:
    seen = sdk.saw("container_runs")
    kinds = (
        ("container+run", "container+run") if sdk.release <= (0, 13) else ("container+job:run", "container+serve:run")
    )
    assert (seen["got"]["entity"]["kind"], seen["served"]["entity"]["kind"]) == kinds


def test_run_names_its_profile_when_one_was_asked(sdk: Driver, core: Core) -> None:
    if core.profile is None:
        pytest.skip("this Core has no profile")
    assert sdk.saw("container_runs")["with profile"]["entity"]["spec"]["profile"] == core.profile


def test_run_keeps_its_placement_when_the_line_can_say_it(sdk: Driver) -> None:
    seen = sdk.saw("container_runs")
    if sdk.release >= (0, 15):
        assert "placed" not in seen  # these lines drop the fields before they send
        return
    assert {key: seen["placed"]["entity"]["spec"][key] for key in seen["placed"]["asked"]} == seen["placed"]["asked"]


def test_service_keeps_ports_and_replicas_when_it_serves(sdk: Driver) -> None:
    spec = sdk.saw("container_runs")["served"]["entity"]["spec"]
    assert spec["service_ports"] == [{"port": 8080, "target_port": 80}]
    assert (spec["replicas"], spec["service_type"], spec["service_name"]) == (2, "ClusterIP", "front")


def test_deploy_works_when_the_line_still_has_it(sdk: Driver) -> None:
    ended = sdk.saw("container_runs")["action deploy"]
    assert ended["error"] == (None if sdk.release <= (0, 14) else "EntityError")


def test_runs_are_newest_first_when_listed(sdk: Driver) -> None:
    seen = sdk.saw("container_runs")["listed"]
    assert seen["ids"][-1] == seen["first"]
    assert seen["served"] in seen["ids"][:2]


def test_parameters_are_kept_to_the_letter_when_it_is_python(sdk: Driver) -> None:
    seen = sdk.saw("python_runs")
    for step in ("job", "got"):
        entity = seen[step]["entity"]
        assert entity["kind"] == seen["job"]["kind"]
        assert entity["spec"]["function"] == seen["job"]["function"]
        assert entity["spec"]["parameters"] == {"x": 41, "deep": {"list": [1, "two", None], "nothing": None}}
    assert seen["serve"]["entity"]["kind"] == seen["serve"]["kind"]
    assert seen["serve"]["entity"]["spec"]["service_name"] == "front"
    assert seen["listed"]["ids"] == seen["listed"]["made"]


def _expected(made: Seen) -> dict[str, list[str]]:
    box, python = list(reversed(made["box"])), [made["local"], made["grown"]]
    return {
        "all": [*python, *box],
        "completed": [made["local"]],
        "as the others": [made["grown"], *box],
        "stopped": [],
        "kind": box,
        "function": python,
        "function and state": [made["local"]],
        "task": box,
        "action": [*python, *box],
        "another action": [],
        "name": [made["grown"]],
        "by the function": box,
    }


def test_runs_are_exactly_those_when_the_list_is_narrowed(sdk: Driver) -> None:
    seen = sdk.saw("filters")
    expected = _expected(seen["made"])
    assert {step: seen[step]["ids"] for step in expected} == expected


def test_metrics_are_kept_when_logged(sdk: Driver) -> None:
    read = sdk.saw("metrics")["read"]
    assert read["metrics"] == {"loss": [0.5, 0.25, 0.2, 0.1], "accuracy": 0.9, "epochs": 3, "f1": [0.9]}
    assert read["after"] == read["before"]


def test_state_stays_when_a_client_with_stale_news_logs(sdk: Driver) -> None:
    seen = sdk.saw("metrics")
    if sdk.release <= (0, 13):
        assert "stale" not in seen  # this line cannot stop a run
        return
    stale = seen["stale"]
    assert stale["after"] in {stale["before"], "STOPPED"}


def test_log_is_text_when_read(sdk: Driver, core: Core) -> None:
    if core.log_text is None:
        pytest.skip("it is not known what a run of this Core says")
    assert sdk.saw("lifecycle")["logs"]["texts"] == [core.log_text]


def test_run_is_stopped_when_told_so(sdk: Driver) -> None:
    seen = sdk.saw("lifecycle")
    assert seen["submitted"]["state"] in NOT_ENDED
    if sdk.release <= (0, 13):
        assert seen["stop"]["error"] == "TypeError"  # it calls its own client wrongly, before any request
        return
    assert seen["stop"]["error"] is None
    assert seen["stopped"]["state"] == seen["waited"]["state"] == "STOPPED"
    assert (seen["stopped again"]["error"], seen["stopped again"]["state"]) == (None, "STOPPED")
    assert (seen["resumed"]["error"], seen["resumed"]["state"]) == ("BadRequestError", "STOPPED")


def test_run_is_gone_when_deleted(sdk: Driver) -> None:
    seen = sdk.saw("lifecycle")
    assert seen["deleted"]["is_gone"]
    assert seen["got after delete"]["error"] == "EntityNotExistsError"
    assert seen["listed after delete"]["ids"] == []


def test_local_job_completes_with_results_when_the_client_runs_it(sdk: Driver) -> None:
    seen = sdk.saw("local_execution")
    assert seen["ended"] == {"state": "COMPLETED", "results": {"output_0": 42}}
    assert seen["stored"]["entity"]["spec"]["local_execution"] is True
    assert seen["stored"]["entity"]["spec"]["source"]["handler"] == "main"
    assert seen["named"]["status"]["results"] == {"total": 5, "words": "2 and 3"}


def test_local_job_is_an_error_with_its_message_when_it_raises(sdk: Driver) -> None:
    seen = sdk.saw("local_execution")
    assert seen["raised"]["error"] == "RuntimeError"
    assert seen["failed"]["status"]["state"] == "ERROR"
    assert seen["failed"]["status"]["message"] == seen["raised"]["text"]
    assert seen["listed"]["states"] == ["COMPLETED", "COMPLETED", "ERROR"]


def _list_codes(seen: Seen) -> list[str]:
    """The codes of the warnings about the spec."""
    return [each["code"] for each in seen["warnings"] if each["path"].startswith("spec.")]


def test_placement_is_dropped_before_it_is_sent_when_the_line_no_longer_knows_it(sdk: Driver) -> None:
    """«Coming from DigitalHub» says so: a server cannot refuse what never arrives."""
    seen = sdk.saw("dropped_fields")["placement"]
    assert seen["error"] is None
    asked = ["node_selector", "tolerations", "affinity", "runtime_class"]
    assert list(seen["asked"]) == asked
    assert [name for name in asked if name in seen["sent"]] == (asked if sdk.release <= (0, 14) else [])


def test_resources_are_empty_and_a_warning_when_the_line_drops_a_name_it_does_not_know(sdk: Driver, core: Core) -> None:
    seen = sdk.saw("dropped_fields")
    assert seen["misspelled"]["asked"]["resources"]
    assert seen["misspelled"]["sent"]["resources"] == {}
    if sdk.release <= (0, 13):
        assert seen["misspelled side"]["sent"]["resources"] == {"cpu": {}}
    else:
        assert (seen["misspelled side"]["error"], seen["misspelled side"]["sent"]) == ("ValidationError", None)
    if not core.has_extensions:
        pytest.skip("this Core gives no warnings")
    assert _list_codes(seen["misspelled"]) == ["resources.empty"]
    assert _list_codes(seen["misspelled side"]) == (["resources.empty"] if sdk.release <= (0, 13) else [])


def test_sdk_itself_refuses_when_it_does_not_know_the_type_of_a_volume(sdk: Driver) -> None:
    seen = sdk.saw("dropped_fields")["unknown volume"]
    assert (seen["error"], seen["sent"]) == ("ValidationError", None)


def test_identity_is_dropped_before_it_is_sent_when_the_function_is_python(sdk: Driver) -> None:
    seen = sdk.saw("dropped_fields")["identity of python"]
    assert seen["asked"] == {"run_as_user": 1000, "run_as_group": 1000, "fs_group": 1000}
    assert [name for name in seen["asked"] if name in seen["sent"]] == []


def test_resources_are_not_sent_when_a_user_asks_for_none(sdk: Driver) -> None:
    seen = sdk.saw("dropped_fields")["nothing"]
    assert "resources" not in seen["sent"]
    assert _list_codes(seen) == []


def test_run_is_read_when_it_has_an_original_that_the_line_does_not_know(sdk: Driver, core: Core) -> None:
    """A run with limits and a command of two words, submitted by another client, is listed, read and sent back."""
    if not core.has_extensions:
        pytest.skip("this Core gives no `original`")
    seen = sdk.saw("original_fields")
    assert seen["listed"]["ids"] == seen["posted"]["ids"]
    assert "original" not in seen["got"]["entity"]["spec"]
    assert "original" in seen["posted"]["spec"]
    assert seen["kept"]["spec"] == seen["posted"]["spec"]
