"""The path of a file within its entity. Every client can use it below a directory of its own (no path traversal)."""

from runyard.spec.problem_codes import Code
from runyard.spec.readers import expect_text, refuse

MOST_PATH_BYTES = 600
"""Bytes of a path in UTF-8; the databases index it."""
MOST_SEGMENT_BYTES = 255
"""Bytes of a name between two slashes: no file system takes longer ones."""


def read_file_path(given: str) -> str:
    """The path; raises `Refused`."""
    path = expect_text(given, what="the path", most=MOST_PATH_BYTES)
    if (size := len(path.encode())) > MOST_PATH_BYTES:
        raise refuse(Code.TEXT_LONG, f"the path has {size} bytes in UTF-8", allowed=f"at most {MOST_PATH_BYTES}")
    segments = path.split("/")
    if any(segment in ("", ".", "..") for segment in segments) or "\\" in path:
        message = "must be relative, without empty names, `.`, `..` and backslashes"
        raise refuse(Code.FILE_PATH, message, path=("path",), value=path, allowed="names separated by `/`")
    if (longest := max(len(segment.encode()) for segment in segments)) > MOST_SEGMENT_BYTES:
        message = f"has a name of {longest} bytes in UTF-8"
        raise refuse(Code.FILE_PATH, message, path=("path",), allowed=f"at most {MOST_SEGMENT_BYTES} per name")
    return path
