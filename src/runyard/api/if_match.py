"""`If-Match`: a change that holds only for the revision that was read (optimistic concurrency)."""

from starlette.requests import Request

from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse


def read_expected_revision(request: Request) -> int | None:
    """The revision of `If-Match`; None, which is any, for `*` or no header."""
    given = request.headers.get("if-match")
    if given is None or given.strip() == "*":
        return None
    text = given.strip().removeprefix("W/").strip('"')
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise refuse(Code.HEADER_IF_MATCH, "not an ETag of this server", path=("header", "If-Match"), value=given[:80])
    return int(text)


def refuse_expected_revision(request: Request) -> None:
    """Raise `Refused` for `If-Match` on what has no revision: the client would rely on a check that nobody makes."""
    if request.headers.get("if-match") is not None:
        message = "metrics have no revision; leave out `If-Match`"
        raise refuse(Code.HEADER_IF_MATCH, message, path=("header", "If-Match"))
