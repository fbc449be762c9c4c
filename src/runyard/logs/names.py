"""Names of folders for runs and streams: whatever a pod is called, its log stays where it belongs.

The readable part is for people; the digest makes it unique. The names themselves are kept inside the folder.
"""

import hashlib
import json
import re

from runyard.app.ports import Stream

DIGEST_CHARACTERS = 32


def name_run_folder(run_id: str) -> str:
    """Lower-case letters, digits and dashes, at most 73 characters."""
    return _make_name(run_id, [run_id])


def name_stream_folder(stream: Stream) -> str:
    """The same of a stream, within its run's folder."""
    return _make_name(f"{stream.pod}-{stream.container}", [stream.run_id, stream.pod, stream.container])


def dump_stream(stream: Stream) -> bytes:
    """The names, to be kept inside the folder."""
    return json.dumps({"run": stream.run_id, "pod": stream.pod, "container": stream.container}).encode()


def load_stream(content: bytes) -> Stream:
    """What `dump_stream` wrote; raises `ValueError` for anything else."""
    try:
        names = json.loads(content)
        return Stream(str(names["run"]), str(names["pod"]), str(names["container"]))
    except (KeyError, TypeError) as error:
        raise ValueError("is no stream's name") from error


def _make_name(readable: str, parts: list[str]) -> str:
    slug = re.sub("[^a-z0-9]+", "-", readable[:40].lower()).strip("-")
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{slug}-{digest}" if slug else digest
