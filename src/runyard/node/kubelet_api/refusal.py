"""An answer that is not success: a status and a sentence."""

from aiohttp import web

_LONGEST_TEXT = 4096


class Refusal(Exception):
    """Ends a request with this status. The text is for the person who typed the kubectl command."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text[:_LONGEST_TEXT]

    def to_response(self) -> web.Response:
        """The answer, in plain text as the kubelet's; the apiserver passes it on."""
        # A hostile path may have characters that no encoding takes.
        body = f"{self.text}\n".encode(errors="replace")
        response = web.Response(status=self.status, body=body, content_type="text/plain", charset="utf-8")
        if self.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response
