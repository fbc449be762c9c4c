"""Credentials of a request: the Authorization header, or for WebSockets of browsers a subprotocol, as in Kubernetes."""

import base64
import binascii

from starlette.requests import HTTPConnection

from runyard.app.errors import Unauthenticated

BEARER_SUBPROTOCOL = "base64url.bearer.authorization.k8s.io."
"""Prefix of a subprotocol that carries a token. A browser cannot set headers of a WebSocket, only subprotocols."""


def read_authorization(connection: HTTPConnection) -> str | None:
    """The Authorization header, or what stands for it. Raises `Unauthenticated` if the subprotocol has no token.

    The subprotocol wins: a browser may add the header by itself, from a password it remembers.
    """
    tokens = [name for name in connection.scope.get("subprotocols", ()) if name.startswith(BEARER_SUBPROTOCOL)]
    if not tokens:
        return connection.headers.get("authorization")
    encoded = tokens[0].removeprefix(BEARER_SUBPROTOCOL)
    try:
        token = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise Unauthenticated(f"the subprotocol {BEARER_SUBPROTOCOL}… needs a token in base64url") from None
    return f"Bearer {token}"
