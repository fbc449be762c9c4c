"""Requests with hostile headers: long ones, and pieces that a matcher may split in many ways before it fails.

A new header that a route reads belongs into `PIECES`. `READERS` are the routes that read one in their own way; `make
attack` sends every header to every route.
"""

import base64
import random
from collections.abc import Iterator, Mapping

from runyard.api.routing import WEBSOCKET, Route
from tests.attack.bodies import HEAD_BYTES, Attack, fill_path, list_routes

LENGTHS = (44, 200, 1000, HEAD_BYTES)
"""Characters of a value. An exponential matcher never ends on the second; a quadratic one shows on the last."""
END = "@"
"""No value may end with it, so that a matcher fails at last."""
PIECES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Content-Type": ("a/b", (";   ", "; a", ';a="', ";a=b", " ", "a", ";", "/")),
    "Range": ("bytes=", (" ", "0-0,", "9", "-", "bytes=", "\t0 - ")),
    "If-Range": ('"', ('"', "W/", " ", 'W/"0", ')),
    "If-Match": ('"', ('"', "W/", " ", "9", f'"{"0" * 64}", ', ",")),
    "If-None-Match": ('"', ('"', "W/", " ", "*,", f'W/"{"0" * 64}" , ', ",")),
    "Content-Digest": ("sha-256=:", ("sha-256=:", ",", " ", "A", f"sha-256=:{'A' * 43}=:, ", "\t,", ":")),
    "Repr-Digest": ("sha-256=:", ("sha-256=:", ", ", "A", f" , sha-256=:{'A' * 44}:")),
    "Authorization": ("Bearer ", ("a.", "eyJ", " ", ".", "=", "Bearer ", "-eyJ")),
    "Origin": ("http://", ("[", "@", ":", "/", "a.", "http://")),
    "Accept": ("text/event-stream;", (",*/*;q=0.1", " ", ";", "text/event-stream,")),
    "Last-Event-ID": ("9", ("9", " ", "-")),
    "X-Request-Id": ("a", ("a", "-", " ")),
    "Cookie": ("a=b", ("; a=b", ";", " ", '"', "\\")),
}
"""For each header, how a value begins and which pieces follow again and again."""
SUBPROTOCOL = "base64url.bearer.authorization.k8s.io."
PASSWORDS: Mapping[str, str] = {
    "combining characters": "a:" + "\u0344\u0323" * 3000,
    "colons": "a" + ":" * 12_000,
    "one character": "a:" + "a" * 12_000,
}
"""Name and password, of which the server takes apart what it must to compare them."""


def iter_header_attacks(*, lengths: tuple[int, ...] = LENGTHS) -> Iterator[Attack]:
    """Every hostile value to the routes that read its header in their own way."""
    for shape, text in PASSWORDS.items():
        credential = base64.b64encode(text.encode()).decode()
        yield _make_attack(_find("GET", "/api/v1/projects"), "Authorization", shape, f"Basic {credential}")
    for name, (start, pieces) in PIECES.items():
        for route in _list_readers(name):
            for piece in pieces:
                for length in lengths:
                    yield _make_attack(route, name, f"{piece!r} to {length}", _make_value(start, piece, length))


def iter_headers_everywhere(seed: int) -> Iterator[Attack]:
    """Every header to every route that changes nothing but what its body says, with a value of chance."""
    chance = random.Random(seed)
    routes = [route for route in list_routes() if route.method == "GET" or route.body is not None]
    drawn = [(route, name) for route in routes for name in PIECES]
    chance.shuffle(drawn)
    for route, name in drawn:
        start, pieces = PIECES[name]
        piece, length = chance.choice(pieces), chance.choice(LENGTHS)
        yield _make_attack(route, name, f"{piece!r} to {length}", _make_value(start, piece, length))


def iter_handshakes() -> Iterator[Attack]:
    """To every WebSocket: subprotocols, queries, and frames that come before the handshake is answered."""
    offers = {
        "many": ", ".join(f"v{number}.channel.k8s.io" for number in range(2500)),
        "commas": "v5.channel.k8s.io" + ", " * 29_000,
        "long token": SUBPROTOCOL + "QUJD" * 14_000,
        "padding": SUBPROTOCOL + "=" * 59_000,
        "many tokens": ", ".join([f"{SUBPROTOCOL}QUJD"] * 1200),
    }
    frames = {
        "pings": b"\x89\x80\0\0\0\0" * 170_000,
        "empty fragments": b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 170_000,
        "one message": b"\x82\xff" + (1 << 20).to_bytes(8, "big") + bytes(4 + (1 << 20)),
    }
    for route in list_routes():
        if route.method != WEBSOCKET:
            continue
        target = f"{fill_path(route.path)}?command=sh&port=80"
        for shape, offered in offers.items():
            headers = (("Sec-WebSocket-Protocol", offered),)
            yield Attack(WEBSOCKET, route.path, target, "Sec-WebSocket-Protocol", shape, b"", headers=headers)
        for parameter in route.parameters:
            query = "&".join(f"{parameter.name}=near{number}" for number in range(6000))[:HEAD_BYTES]
            yield Attack(WEBSOCKET, route.path, f"{target}&{query}", "query", f"repeated {parameter.name}", b"")
        for shape, content in frames.items():
            yield Attack(WEBSOCKET, route.path, target, "frames", shape, content)


def _list_readers(name: str) -> list[Route]:
    content = "/api/v1/-/{project}/artifacts/{id}/files/content/{path:path}"
    changed = _find("PUT", "/api/v1/-/{project}/artifacts/{id}")
    if name in ("Content-Type", "Content-Digest", "Repr-Digest"):
        return [_find("PUT", content), changed]
    if name in ("If-Match", "If-None-Match"):
        return [_find("PUT", content), _find("GET", content), changed]
    if name in ("Range", "If-Range"):
        return [_find("GET", content)]
    if name == "Last-Event-ID":
        return [_find("GET", "/api/v1/-/{project}/runs/{id}/events")]
    return [_find("GET", "/api/v1/projects"), _find("GET", "/")]


def _find(method: str, path: str) -> Route:
    return next(route for route in list_routes() if (route.method, route.path) == (method, path))


def _make_attack(route: Route, name: str, shape: str, value: str) -> Attack:
    content = b"" if route.method == "GET" else b"{}"
    headers = ((name, value), ("Range", "bytes=0-1")) if name == "If-Range" else ((name, value),)
    return Attack(route.method, route.path, fill_path(route.path), name, shape, content, headers=headers)


def _make_value(start: str, piece: str, length: int) -> str:
    repeated = piece * ((length - len(start) - len(END)) // len(piece))
    return f"{start}{repeated}{END}"
