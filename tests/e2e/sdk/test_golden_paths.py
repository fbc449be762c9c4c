"""What a user of the published SDK does every day, with each of its four lines: entities.

The scripts tell what they saw; here it is judged. Runs are in `test_golden_runs.py`.
"""

import pytest

from tests.e2e.sdk.core import Core
from tests.e2e.sdk.driver import Driver

pytestmark = pytest.mark.timeout(600)  # the first test of a line installs its environment


def test_project_keeps_its_words_when_created(sdk: Driver) -> None:
    seen = sdk.saw("projects")
    for step in ("created", "got again", "got"):
        metadata = seen[step]["entity"]["metadata"]
        assert (metadata["description"], metadata["labels"]) == ("first words", ["blue", "green"])
    assert seen["created"]["entity"]["name"] in seen["listed"]["names"]
    assert seen["changed"]["description"] == "other words"


def test_project_is_refused_when_created_twice(sdk: Driver) -> None:
    assert sdk.saw("projects")["new again"]["error"] == "EntityAlreadyExistsError"


def test_project_is_gone_when_deleted(sdk: Driver) -> None:
    seen = sdk.saw("projects")
    assert seen["gone"]["is_gone"]
    assert seen["got after delete"]["error"] == "EntityNotExistsError"
    assert seen["deleted again"]["error"] == "EntityNotExistsError"
    assert seen["created"]["entity"]["name"] not in seen["listed after delete"]["names"]


def test_project_is_empty_when_created_again(sdk: Driver) -> None:
    reborn = sdk.saw("projects")["created again"]
    assert reborn == {"description": None, "functions": [], "secrets": []}


def test_function_keeps_its_spec_when_read_back(sdk: Driver) -> None:
    seen = sdk.saw("functions")
    python, container = seen["python"]["entity"], seen["container"]["entity"]
    assert seen["python"]["code"] == "def main():\n    return 1\n"
    assert python["spec"]["python_version"] == "PYTHON3_11"
    assert python["spec"]["requirements"] == ["six==1.17.0"]
    assert python["spec"]["source"]["handler"] == "main"
    assert container["spec"]["image"] == "busybox:1.36"
    assert container["spec"]["image_pull_policy"] == "IfNotPresent"
    assert container["spec"]["command"] == "sh"
    assert (python["metadata"]["labels"], container["metadata"]["labels"]) == (["calm"], ["calm", "loud"])


def test_versions_are_newest_first_when_listed(sdk: Driver) -> None:
    seen = sdk.saw("functions")
    newest_first = list(reversed(seen["made"]["versions"]))
    assert seen["versions"]["ids"] == newest_first
    assert seen["newest"]["ids"] == [seen["made"]["box"], newest_first[0]]
    assert seen["all"]["ids"] == [seen["made"]["box"], *newest_first]


def test_function_is_found_when_asked_by_name_id_or_key(sdk: Driver) -> None:
    seen = sdk.saw("functions")
    first, second, third = seen["made"]["versions"]
    assert (seen["by name"]["id"], seen["by id"]["id"], seen["by key"]["id"]) == (third, first, second)
    assert third == seen["made"]["chosen_id"]
    assert seen["by key"]["description"] == "the second"


def test_list_is_exact_when_narrowed(sdk: Driver) -> None:
    seen = sdk.saw("functions")
    assert seen["by kind"]["names"] == ["box"]
    assert seen["by exact name"]["names"] == ["grow"]
    assert seen["by part of a name"]["names"] == []
    if sdk.release >= (0, 16):
        assert seen["by labels"]["names"] == ["box"]


def test_function_is_refused_or_missing_when_its_id_or_name_says_so(sdk: Driver) -> None:
    seen = sdk.saw("functions")
    assert seen["same id"]["error"] == "EntityAlreadyExistsError"
    assert seen["no such id"]["error"] == "EntityNotExistsError"
    # An empty list is not an error of the server: this is what the SDK makes of one.
    assert (seen["no such name"]["error"], seen["no such name"]["text"]) == ("BackendError", "No object found.")


def test_older_version_is_the_newest_when_the_newest_was_deleted(sdk: Driver) -> None:
    seen = sdk.saw("functions")
    _, second, third = seen["made"]["versions"]
    assert seen["one deleted"]["newest"] == second
    assert seen["id used again"] == {"id": third, "newest": third}
    assert seen["all deleted"]["names"] == ["box"]


def test_every_function_is_listed_once_when_they_fill_pages(sdk: Driver) -> None:
    seen = sdk.saw("pagination")
    newest_first = list(reversed(seen["made"]["names"]))
    assert len(newest_first) == 45
    assert seen["listed"]["names"] == newest_first
    assert seen["all versions"]["names"] == newest_first
    assert seen["by name"]["name"] == "f00"
    assert seen["in the project"]["names"] == sorted(newest_first)


def test_task_is_the_functions_own_when_made_by_hand(sdk: Driver) -> None:
    seen = sdk.saw("tasks")
    assert seen["made"]["entity"]["spec"]["function"] == seen["made"]["reference"]
    assert seen["got"]["entity"]["spec"]["envs"] == [{"name": "FROM", "value": "task"}]
    assert set(seen["runs"]["tasks"]) == {seen["runs"]["task"]}
    assert seen["second"]["error"] == "EntityAlreadyExistsError"
    assert seen["changed"]["envs"] == [{"name": "FROM", "value": "changed"}]


def test_tasks_are_found_when_asked_by_kind_and_function(sdk: Driver) -> None:
    seen = sdk.saw("tasks")
    assert sorted(seen["of the function"]["kinds"]) == ["container+job", "container+serve"]
    assert sorted(
        name.partition(":")[2].rpartition("/")[2].partition(":")[0] for name in seen["of the kind"]["functions"]
    ) == ["box", "other"]
    assert seen["of both"]["ids"] == [seen["of both"]["task"]] == [seen["by action"]["id"]]


def test_runs_go_with_their_task_when_it_is_deleted(sdk: Driver) -> None:
    seen = sdk.saw("tasks")
    assert seen["deleted"]["kinds"] == ["container+serve"]
    assert len(seen["runs after delete"]["functions"]) == 2


def test_secret_value_comes_back_only_by_its_own_call_when_stored(sdk: Driver) -> None:
    seen = sdk.saw("secret_values")
    value = seen["made"]["value"]
    assert seen["got"]["value"] == value
    assert seen["got"]["id"] == seen["got"]["made"]
    assert seen["got"]["path"] == "secret://api-key"
    for word in value.split():  # by word: the printed form of a dictionary escapes the whole
        assert word not in str(seen["made"]["entity"]) + str(seen["listed"]["entities"])
    assert sorted(one["name"] for one in seen["listed"]["entities"]) == ["api-key", "other-key"]


def test_secret_is_replaced_and_forgotten_when_told_so(sdk: Driver) -> None:
    seen = sdk.saw("secret_values")
    assert seen["changed"]["value"] == "changed"
    assert seen["no such secret"]["error"] == "EntityNotExistsError"
    assert seen["deleted"]["names"] == ["other-key"]
    assert seen["made again"]["value"] == "new"


def test_artifact_takes_its_state_from_the_client_when_put(sdk: Driver) -> None:
    seen = sdk.saw("artifacts")
    first, second = seen["made"]["ids"]
    assert seen["made"]["entity"]["spec"]["path"] == "s3://bucket/1/weights.bin"
    assert (seen["listed"]["ids"], seen["versions"]["ids"]) == ([second], [second, first])
    assert seen["others"]["names"] == ["rows", "net"]
    assert seen["states"]["states"] == ["UPLOADING", "READY"]
    assert seen["states"]["files"][0]["hash"] == "md5:900150983cd24fb0d6963f7d28e17f72"
    assert seen["path"]["path"] == "s3://bucket/2/weights.bin"
    assert seen["ready"]["ids"] == [second]
    assert (seen["one deleted"]["ids"], seen["all deleted"]["names"]) == ([first], [])


def test_project_comes_back_under_its_ids_when_exported_and_imported(sdk: Driver) -> None:
    seen = sdk.saw("exporting")
    ids = sorted(seen["exported"]["ids"])
    assert sorted(seen["imported"]["ids"]) == ids
    assert seen["imported"]["artifacts"] == [seen["exported"]["artifact"]]
    assert seen["imported"]["description"] == "kept"
    assert seen["imported"]["source"] == seen["imported"]["expected"]


def test_import_is_refused_by_the_sdk_when_everything_exists(sdk: Driver) -> None:
    seen = sdk.saw("exporting")
    for step in ("imported again", "function imported again"):
        assert seen[step]["error"] == "EntityError"  # the SDK's words for `Duplicated entity`
        assert "already exists" in seen[step]["text"]
    assert sorted(seen["ids after that"]["ids"]) == sorted(seen["exported"]["ids"])


def test_load_creates_what_is_missing_when_the_rest_exists(sdk: Driver) -> None:
    seen = sdk.saw("exporting")
    assert seen["loaded"]["error"] is None
    assert sorted(seen["function gone"]["names"]) == ["box", "inside"]
    assert seen["function loaded"]["id"] == seen["function loaded"]["newest"] == seen["exported"]["ids"][0]


def test_search_finds_what_fits_when_asked(sdk: Driver) -> None:
    seen = sdk.saw("searching")
    assert seen["functions"]["names"] == ["function/box", "function/grow"]
    assert seen["two types"]["names"] == ["artifact/weights", "function/box", "function/grow"]
    for step in ("name", "description", "labels"):
        assert seen[step]["names"] == ["function/grow"], step
    for step in ("kind", "words"):
        assert seen[step]["names"] == ["function/box"], step
    assert seen["nothing"]["names"] == []
    assert seen["by module"]["count"] == 1


def test_triggers_are_kept_when_made(sdk: Driver) -> None:
    seen = sdk.saw("triggers")
    spec = seen["scheduled"]["entity"]["spec"]
    assert (spec["schedule"], spec["function"]) == ("0 0 3 * * ?", seen["scheduled"]["function"])
    assert spec["template"]["args"] == ["-c", "true"]
    assert seen["got"]["entity"]["spec"] == spec
    if sdk.release <= (0, 13):
        assert (seen["listed"]["names"], seen["by kind"]["names"], seen["deleted"]["names"]) == (["nightly"], [], [])
        return
    assert seen["after"]["entity"]["spec"]["states"] == ["COMPLETED"]
    assert seen["listed"]["names"] == ["after", "nightly"]
    assert seen["by kind"]["names"] == seen["deleted"]["names"] == ["after"]


def test_server_says_who_and_what_when_asked(sdk: Driver, core: Core) -> None:
    seen = sdk.saw("configuration")
    assert seen["who"]["answer"]
    if "DHCORE_USER" in core.credentials:
        assert seen["who"]["answer"]["username"] == core.credentials["DHCORE_USER"]
    known = seen["well known"]["answer"]["k8s_resource_profiles"]
    assert core.profile is None or core.profile in known
    if sdk.release >= (0, 14):
        assert seen["configured"]["endpoint"] == core.endpoint
    if sdk.release >= (0, 15):
        assert seen["profiles"]["names"] == known


@pytest.mark.parametrize(
    ("step", "error", "words"),
    [
        ("project missing", "EntityNotExistsError", ()),
        ("function missing", "EntityNotExistsError", ()),
        ("run missing", "EntityNotExistsError", ()),
        ("delete missing", "EntityNotExistsError", ()),
        ("deleted before", "EntityNotExistsError", ()),
        ("name missing", "BackendError", ("No object found.",)),
        ("project again", "EntityAlreadyExistsError", ()),
        ("id again", "EntityAlreadyExistsError", ()),
        ("kind missing", "MissingSpecError", ("nonsense",)),
        ("bad quantity", "BadRequestError", ("mem", "12zz")),
        ("bad profile", "BadRequestError", ("no-such-profile",)),
        ("bad secret", "BadRequestError", ("no-such-secret",)),
    ],
)
def test_refusal_is_the_sdks_exception_when_refused(sdk: Driver, step: str, error: str, words: tuple[str, ...]) -> None:
    seen = sdk.saw("errors")
    assert seen[step]["error"] == error
    assert [word for word in words if word not in seen[step]["text"]] == []
    assert seen["no run of them"]["ids"] == []
