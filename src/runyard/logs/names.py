"""Directory names of runs and streams, safe for any name of a pod (no path traversal).

The readable part is for people; a digest makes it unique. The original names are stored in the directory.
"""

import hashlib
import json
import re

from runyard.app.log_store import Stream
from runyard.logs.pieces import Completion

DIGEST_CHARACTERS = 32


def name_run_folder(run_uid: str) -> str:
    """The directory of a run: lower-case letters, digits and dashes, at most 73 characters."""
    return _make_name(run_uid, [run_uid])


def name_stream_folder(stream: Stream) -> str:
    """The directory of a stream within its run's directory."""
    parts = [stream.run_uid, stream.pod, stream.container]
    if stream.instance:  # the first one has the name that it had before there were instances
        parts.append(str(stream.instance))
    return _make_name("-".join(parts[1:]), parts)


def dump_stream(stream: Stream) -> bytes:
    """The content of `stream.json`."""
    names: dict[str, str | int] = {"run": stream.run_uid, "pod": stream.pod, "container": stream.container}
    return json.dumps(names | ({"instance": stream.instance} if stream.instance else {})).encode()


def load_stream(content: bytes) -> Stream:
    """Read what `dump_stream` wrote; raises `ValueError`."""
    try:
        names = json.loads(content)
        return Stream(str(names["run"]), str(names["pod"]), str(names["container"]), int(names.get("instance", 0)))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("is no stream's name") from error


def dump_completion(completion: Completion) -> bytes:
    """The content of `complete.json`."""
    return json.dumps({"cause": completion.cause, "at": completion.at}).encode()


def load_completion(content: bytes) -> Completion:
    """Read what `dump_completion` wrote. A damaged one still says that the stream is complete."""
    try:
        found = json.loads(content)
        return Completion(cause=None if found["cause"] is None else str(found["cause"]), at=int(found["at"]))
    except (KeyError, TypeError, ValueError):
        return Completion(cause="unknown", at=0)


def _make_name(readable: str, parts: list[str]) -> str:
    slug = re.sub("[^a-z0-9]+", "-", readable[:40].lower()).strip("-")
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{slug}-{digest}" if slug else digest
