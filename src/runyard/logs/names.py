"""Directory names of runs and streams, safe for any name of a pod (no path traversal).

The readable part is for people; a digest makes it unique. The original names are stored in the directory.
"""

import hashlib
import json
import re

from runyard.app.ports import Stream

DIGEST_CHARACTERS = 32


def name_run_folder(run_uid: str) -> str:
    """The directory of a run: lower-case letters, digits and dashes, at most 73 characters."""
    return _make_name(run_uid, [run_uid])


def name_stream_folder(stream: Stream) -> str:
    """The directory of a stream within its run's directory."""
    return _make_name(f"{stream.pod}-{stream.container}", [stream.run_uid, stream.pod, stream.container])


def dump_stream(stream: Stream) -> bytes:
    """The content of `stream.json`."""
    return json.dumps({"run": stream.run_uid, "pod": stream.pod, "container": stream.container}).encode()


def load_stream(content: bytes) -> Stream:
    """Read what `dump_stream` wrote; raises `ValueError`."""
    try:
        names = json.loads(content)
        return Stream(str(names["run"]), str(names["pod"]), str(names["container"]))
    except (KeyError, TypeError) as error:
        raise ValueError("is no stream's name") from error


def _make_name(readable: str, parts: list[str]) -> str:
    slug = re.sub("[^a-z0-9]+", "-", readable[:40].lower()).strip("-")
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{slug}-{digest}" if slug else digest
