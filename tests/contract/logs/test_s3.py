import asyncio
import uuid

import pytest

from runyard.logs import LogsUnavailable
from runyard.logs.s3 import S3Logs
from tests.contract.logs.builders import START, STREAM, read_all, write
from tests.s3.server import S3Server


async def test_server_checks_signatures_when_the_secret_is_wrong(s3_server: S3Server) -> None:
    logs = s3_server.open_logs("tests/wrong", secret_key="not-the-secret")
    with pytest.raises(LogsUnavailable, match="SignatureDoesNotMatch") as failure:
        await logs.append(STREAM, b"x", offset=0, at=START)
    await logs.close()
    assert "not-the-secret" not in repr(failure.value)


async def test_bucket_is_named_as_missing_when_it_is_not_there(s3_server: S3Server) -> None:
    logs = s3_server.open_logs("tests", bucket="no-such-bucket")
    for work in (logs.append(STREAM, b"x", offset=0, at=START), logs.read(STREAM), logs.list_streams("run-1")):
        with pytest.raises(LogsUnavailable, match="NoSuchBucket"):
            await work
    await logs.close()


async def test_prefix_is_kept_when_it_has_odd_characters(s3_server: S3Server) -> None:
    logs = s3_server.open_logs(f"tests/{uuid.uuid4().hex}/a b+c=d&e%20é~'()*!")
    await write(logs, b"one\n", b"two\n")
    assert await read_all(logs) == b"one\ntwo\n"
    assert [info.size for info in await logs.list_streams("run-1")] == [8]
    await logs.delete("run-1")
    assert await logs.list_streams("run-1") == []
    await logs.close()


async def test_failure_is_told_when_nobody_answers(unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def do_not_sleep(_seconds: float) -> None:
        return

    monkeypatch.setattr("runyard.s3.bucket.asyncio.sleep", do_not_sleep)
    server = S3Server(f"http://127.0.0.1:{unused_tcp_port}", "logs", "a", "b")
    logs = server.open_logs("x")
    with pytest.raises(LogsUnavailable, match="ConnectError"):
        await logs.read(STREAM)
    await logs.close()


async def test_pieces_and_chunk_count_once_when_both_are_there(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"tests/{uuid.uuid4().hex}"
    logs = s3_server.open_logs(prefix)
    assert isinstance(logs, S3Logs)
    content = [bytes([number]) * 9000 for number in range(9)]

    async def break_off(_keys: object) -> None:
        raise LogsUnavailable("killed between PUT and DELETE")

    with monkeypatch.context() as broken:
        broken.setattr(logs._bucket, "delete", break_off)
        await write(logs, *content)
    assert await read_all(logs) == b"".join(content)
    again = s3_server.open_logs(prefix)
    assert await read_all(again) == b"".join(content)
    assert await again.append(STREAM, b"end", offset=81_000, at=START) == 81_003
    assert await read_all(logs) == b"".join(content) + b"end"
    await asyncio.gather(logs.close(), again.close())
