"""The published SDKs store files in S3 with credentials of the server; the server's routes read the same files."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from tests.core_process import call_runyard, run_core
from tests.e2e.sdk.core import Core
from tests.e2e.sdk.driver import Driver
from tests.s3.server import NoS3Server, S3Server, serve_s3

pytestmark = pytest.mark.timeout(600)  # the first test of a line installs its environment
PASSWORD = "the password of ada"
EXCHANGE = {
    "client_id": "runyard",
    "subject_token_type": "urn:ietf:params:oauth:token-type:pat",
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
}


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    try:
        with serve_s3() as server:
            yield server
    except NoS3Server as missing:
        pytest.skip(f"no S3-compatible server: {missing}")


@pytest.fixture(scope="module")
def s3_core(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    """A server with accounts, whose own files are in another bucket than those of clients."""
    folder = tmp_path_factory.mktemp("s3")
    data = ["--data", str(folder / "data")]
    made = call_runyard("user", "create", "ada", "--password-stdin", *data, given=PASSWORD)
    assert made.code == 0, made.err
    token = call_runyard("user", "token", "ada", *data).out.strip().splitlines()[-1]
    environment = {
        "RUNYARD_S3_ACCESS_KEY": s3_server.access_key,
        "RUNYARD_S3_SECRET_KEY": s3_server.secret_key,
        "RUNYARD_S3_CLIENT_ACCESS_KEY": s3_server.client_access_key,
        "RUNYARD_S3_CLIENT_SECRET_KEY": s3_server.client_secret_key,
    }
    arguments = ["--auth", "accounts", "--s3-endpoint", s3_server.endpoint, "--s3-credentials-for-clients"]
    places = ["--files", f"s3://{s3_server.bucket}/own", "--files-store", f"s3://{s3_server.files_bucket}/clients"]
    with run_core(*arguments, *places, folder=folder, environment=environment) as core:
        yield Core(endpoint=core.url, personal_access_token=token)


def exchange(core: Core, *, scope: str | None) -> dict[str, str]:
    form = {**EXCHANGE, "subject_token": core.personal_access_token or "", **({"scope": scope} if scope else {})}
    answer = httpx2.post(f"{core.endpoint}/auth/token", data=form)
    assert answer.status_code == 200, answer.text
    granted: dict[str, str] = answer.json()
    return granted


def test_credentials_are_given_when_a_client_that_signs_in_asks_for_them(s3_core: Core, s3_server: S3Server) -> None:
    given = exchange(s3_core, scope="credentials")
    assert given["aws_access_key_id"] == s3_server.client_access_key
    assert given["aws_endpoint_url"] == s3_server.endpoint
    assert given["dhcore_default_files_store"] == f"s3://{s3_server.files_bucket}/clients"
    assert "aws_secret_access_key" not in exchange(s3_core, scope=None)
    public = httpx2.get(f"{s3_core.endpoint}/.well-known/configuration").json()
    assert (public["s3_bucket"], public["aws_endpoint_url"]) == (s3_server.files_bucket, s3_server.endpoint)
    assert s3_server.client_secret_key not in str(public)
    assert s3_server.secret_key not in str(given)


async def test_bucket_of_the_server_is_closed_when_a_client_uses_its_credentials(s3_server: S3Server) -> None:
    client = S3Server(s3_server.endpoint, s3_server.bucket, s3_server.client_access_key, s3_server.client_secret_key)
    logs = client.open_logs("own")
    with pytest.raises(Exception, match="AccessDenied"):
        await logs.list_streams("run")
    await logs.close()


def test_files_are_the_same_in_s3_and_through_the_server(sdk: Driver, s3_core: Core, tmp_path: Path) -> None:
    driver = replace(sdk, core=s3_core, folder=tmp_path, _kept={})
    # The place is in the configuration, which users have in their environment; the keys come with the tokens.
    public = httpx2.get(f"{s3_core.endpoint}/.well-known/configuration").json()
    credentials = {
        **{name.upper(): public[name] for name in public if name.startswith(("aws_", "s3_", "dhcore_default_"))},
        "DHCORE_PERSONAL_ACCESS_TOKEN": s3_core.personal_access_token or "",
        "DHCORE_ISSUER": s3_core.endpoint,
        "DHCORE_CLIENT_ID": "runyard",
        "RUNYARD_SDK_USER": "ada",
        "RUNYARD_SDK_PASSWORD": PASSWORD,
    }
    seen = driver.run("s3_files", credentials=credentials)
    logged = seen["logged"]
    assert logged["path"].endswith(f"/artifact/points/{logged['id']}/points.csv")
    assert logged["state"] == "READY"
    assert seen["read by HTTP"] == {"path": "points.csv", "stored": True, "is_same": True}
    assert seen["read by the SDK"] == {"status": 200, "found": {"a.txt": False, "b.txt": True}}
