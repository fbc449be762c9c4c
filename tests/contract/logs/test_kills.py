"""Kill −9 at any instant: what `append` acknowledged is there, and nothing is there that was not written."""

import asyncio
import json
import os
import random
import sys
import uuid
from pathlib import Path

import pytest

from runyard.app.log_store import LogStore
from runyard.logs import open_logs
from tests.contract.logs.builders import STREAM, read_all
from tests.contract.logs.kill_writer import make_line
from tests.s3.server import S3Server


async def kill_writers(place: str, *, times: int, options: dict[str, str] | None = None) -> dict[str, int]:
    seed = int(os.environ.get("RUNYARD_KILL_SEED", random.randrange(10**6)))
    print(f"to repeat this: RUNYARD_KILL_SEED={seed}")  # noqa: T201 - shown with a failure
    argv = ["-m", "tests.contract.logs.kill_writer", str(times), str(seed), place, json.dumps(options or {})]
    process = await asyncio.create_subprocess_exec(sys.executable, *argv, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    report: dict[str, int] = json.loads(output)
    return report


async def check_all(logs: LogStore, *, told: int) -> None:
    content = await read_all(logs)
    assert len(content) >= told
    number, end = 0, 0
    while end < len(content):
        line = make_line(number)
        assert content[end : end + len(line)] == line
        number, end = number + 1, end + len(line)
    (info,) = await logs.list_streams(STREAM.run_uid)
    assert info.position == str(info.position_offset)
    assert told <= info.position_offset <= len(content)


@pytest.mark.parametrize("kind", ["database", "folder"])
async def test_nothing_acknowledged_is_lost_when_writers_are_killed(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = f"{kind}:{tmp_path / 'logs'}"
    report = await kill_writers(place, times=60)
    logs = open_logs(place)
    await check_all(logs, told=report["told"])
    await logs.close()
    assert report["acknowledged"] > 60
    with capsys.disabled():
        print(f"\n{kind}: 60 writers killed, {report['acknowledged']} appends acknowledged, 0 lost", end="")  # noqa: T201


async def test_nothing_acknowledged_is_lost_in_s3_when_writers_are_killed(
    s3_server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = f"kills/{uuid.uuid4().hex}"
    options = {
        "s3_endpoint": s3_server.endpoint,
        "s3_access_key": s3_server.access_key,
        "s3_secret_key": s3_server.secret_key,
    }
    report = await kill_writers(f"s3://{s3_server.bucket}/{prefix}", times=20, options=options)
    logs = s3_server.open_logs(prefix)
    await check_all(logs, told=report["told"])
    await logs.close()
    with capsys.disabled():
        print(f"\ns3: 20 writers killed, {report['acknowledged']} appends acknowledged, 0 lost", end="")  # noqa: T201
