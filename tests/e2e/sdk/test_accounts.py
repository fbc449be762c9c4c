"""Signing in and sharing, with each line of the published SDK, where the Core has accounts."""

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping

import pytest

from tests.e2e.sdk.core import Core
from tests.e2e.sdk.driver import Driver, Seen

pytestmark = pytest.mark.timeout(600)  # the first test of a line installs its environment


@pytest.fixture(scope="module")
def project(sdk: Driver, core: Core) -> str:
    """A project of the first user, on a Core that asks who it is."""
    if not core.credentials:
        pytest.skip("this Core has no accounts")
    name = sdk.new_project_name("account")
    sdk.run("sharing", project=name, settings={"RUNYARD_SDK_ACT": "create", "RUNYARD_SDK_OTHER_USER": "nobody"})
    return name


def _sign_in(sdk: Driver, project: str, credentials: Mapping[str, str]) -> dict[str, Seen]:
    return sdk.run("signing_in", project=project, credentials=credentials)


def _issuer(core: Core) -> dict[str, str]:
    return {"DHCORE_ISSUER": core.endpoint, "DHCORE_CLIENT_ID": core.client_id}


def _exchange(core: Core) -> dict[str, str]:
    """The tokens that the Core gives for a personal one, as the SDK asks for them."""
    if core.personal_access_token is None:
        pytest.skip("no personal access token is known for this Core")
    form = {
        "client_id": core.client_id,
        "subject_token": core.personal_access_token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:pat",
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "scope": "credentials",
    }
    body = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(f"{core.endpoint}/auth/token", data=body, timeout=30) as answer:
        tokens: dict[str, str] = json.load(answer)
    return tokens


def test_user_is_let_in_when_the_personal_token_is_exchanged(sdk: Driver, core: Core, project: str) -> None:
    token = core.personal_access_token
    if token is None:
        pytest.skip("no personal access token is known for this Core")
    seen = _sign_in(sdk, project, {"DHCORE_PERSONAL_ACCESS_TOKEN": token, **_issuer(core)})
    assert seen["got"]["error"] is None
    assert seen["who"]["answer"]["username"] == core.credentials["DHCORE_USER"]
    assert seen["kept"]["is_written"]


def test_user_is_let_in_when_the_token_is_refreshed(sdk: Driver, core: Core, project: str) -> None:
    refresh = _exchange(core)["refresh_token"]
    old = {"DHCORE_ACCESS_TOKEN": "no-longer-good", "DHCORE_REFRESH_TOKEN": refresh, **_issuer(core)}
    seen = _sign_in(sdk, project, old)
    assert seen["got"]["error"] is None
    assert seen["kept"]["is_written"]


def test_user_is_let_in_when_only_an_access_token_is_known(sdk: Driver, core: Core, project: str) -> None:
    seen = _sign_in(sdk, project, {"DHCORE_ACCESS_TOKEN": _exchange(core)["access_token"]})
    assert seen["got"]["error"] is None


def test_nobody_is_let_in_when_the_password_is_wrong(sdk: Driver, core: Core, project: str) -> None:
    wrong = {"DHCORE_USER": core.credentials.get("DHCORE_USER", "ada"), "DHCORE_PASSWORD": "wrong"}
    seen = _sign_in(sdk, project, wrong)
    assert seen["got"]["error"] == "UnauthorizedError"
    # Since 0.15 the SDK then tries to refresh what cannot be refreshed, and that is what its user reads.
    assert seen["got again"]["error"] == ("UnauthorizedError" if sdk.release <= (0, 14) else "ClientError")


def test_project_is_seen_by_another_when_shared(sdk: Driver, core: Core, project: str) -> None:
    if core.stranger is None:
        pytest.skip("this Core has one user only")
    other = core.stranger["DHCORE_USER"]
    act = {"RUNYARD_SDK_OTHER_USER": other}

    before = sdk.run("visiting", project=project, credentials=core.stranger)
    assert before["got"]["error"] == "ForbiddenError"
    assert project not in before["listed"]["names"]

    shared = sdk.run("sharing", project=project, settings={**act, "RUNYARD_SDK_ACT": "share"})
    assert other in shared["share"]["users"]
    during = sdk.run("visiting", project=project, credentials=core.stranger)
    assert during["got"]["error"] is None
    assert project in during["listed"]["names"]
    assert during["functions"]["names"] == ["box"]

    taken = sdk.run("sharing", project=project, settings={**act, "RUNYARD_SDK_ACT": "unshare"})
    assert other not in taken["unshare"]["users"]
    assert taken["unshared again"]["error"] == "ValueError"  # the SDK's own: it looks the user up first
    after = sdk.run("visiting", project=project, credentials=core.stranger)
    assert after["got"]["error"] == "ForbiddenError"
