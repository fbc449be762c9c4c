"""The S3 server that the contracts of logs and files share."""

from collections.abc import Iterator

import pytest

from tests.s3.server import NoS3Server, S3Server, serve_s3


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One for all tests; each has a prefix of its own."""
    try:
        with serve_s3() as server:
            yield server
    except NoS3Server as missing:
        pytest.skip(f"no S3-compatible server: {missing}")
