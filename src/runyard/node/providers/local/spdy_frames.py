"""SPDY/3.1 frames of the server's side, without I/O, as far as Kubernetes' clients use them: no flow control."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY, HEADERS = 1, 2, 3, 6, 7, 8
DATA = 0
"""Not a number of the protocol, which tells data apart by a bit."""
FRAME_BYTES = 1 << 20
"""Of one frame from a client; Kubernetes' clients send at most 32 KiB."""
HEADER_BYTES = 1 << 14
"""Of the headers of one stream, unpacked."""
_HEAD_BYTES = 8
_CONTROL = 0x80
_VERSION = 3
_FIN = 0x01
_NUMBER = 0x7FFFFFFF

# The dictionary of the specification: words with their lengths, and a text.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,"
    "enq=0."
)
DICTIONARY = (
    b"".join(
        len(word).to_bytes(4, "big") + word.encode() for word in (word.replace("_", " ") for word in _WORDS.split())
    )
    + _TEXT.encode()
)


class SpdyError(ValueError):
    """The client does not speak the protocol, or sends too much."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; `payload` is that of data, and what follows the stream's number of a control frame."""

    kind: int
    stream: int
    payload: bytes = b""
    is_last: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


class SpdyParser:
    """Turns a client's bytes into frames. Holds one unfinished frame at most."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._unpacker = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now; raises `SpdyError`."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= _HEAD_BYTES:
            size = int.from_bytes(self._buffer[5:8], "big")
            if size > FRAME_BYTES:
                raise SpdyError(f"a frame of {size} bytes; allowed: {FRAME_BYTES}")
            if len(self._buffer) < _HEAD_BYTES + size:
                break
            head, body = bytes(self._buffer[:_HEAD_BYTES]), bytes(self._buffer[_HEAD_BYTES : _HEAD_BYTES + size])
            del self._buffer[: _HEAD_BYTES + size]
            frames.append(self._read(head, body))
        return frames

    def _read(self, head: bytes, body: bytes) -> Frame:
        is_last = bool(head[4] & _FIN)
        if not head[0] & _CONTROL:
            return Frame(DATA, int.from_bytes(head[:4], "big"), body, is_last)
        kind = int.from_bytes(head[2:4], "big")
        if int.from_bytes(head[:2], "big") & 0x7FFF != _VERSION:
            raise SpdyError("another version than SPDY/3")
        if len(body) < 4:  # settings have a count there
            raise SpdyError("a control frame that is too short")
        number = int.from_bytes(body[:4], "big") & _NUMBER
        # Of every frame that has some: one state of the compression serves the whole connection.
        packed = {SYN_STREAM: body[10:], SYN_REPLY: body[4:], HEADERS: body[4:]}.get(kind)
        headers = {} if packed is None else self._read_headers(packed)
        return Frame(kind, number, body[4:], is_last, headers)

    def _read_headers(self, packed: bytes) -> dict[str, str]:
        try:
            block = self._unpacker.decompress(packed, HEADER_BYTES)
        except zlib.error as error:
            raise SpdyError(f"headers that cannot be unpacked: {error}") from error
        if self._unpacker.unconsumed_tail:
            raise SpdyError(f"headers of more than {HEADER_BYTES} bytes")
        words, place = [], 4
        for _ in range(2 * min(int.from_bytes(block[:4], "big"), HEADER_BYTES)):
            size = int.from_bytes(block[place : place + 4], "big")
            words.append(block[place + 4 : place + 4 + size].decode("latin-1"))
            place += 4 + size
            if place > len(block):
                raise SpdyError("headers that are cut off")
        return dict(zip(words[::2], words[1::2], strict=True))


class SpdyEncoder:
    """Makes a server's frames."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Accept a stream."""
        packed = self._packer.compress(bytes(4)) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        return _control(SYN_REPLY, stream.to_bytes(4, "big") + packed)

    @staticmethod
    def data(stream: int, payload: bytes, *, is_last: bool = False) -> bytes:
        """Bytes of a stream."""
        return stream.to_bytes(4, "big") + bytes((_FIN if is_last else 0,)) + len(payload).to_bytes(3, "big") + payload

    @staticmethod
    def pong(number: int) -> bytes:
        """The answer to a ping."""
        return _control(PING, number.to_bytes(4, "big"))


def _control(kind: int, body: bytes) -> bytes:
    parts: Sequence[tuple[int, int]] = ((_CONTROL << 8 | _VERSION, 2), (kind, 2), (0, 1), (len(body), 3))
    return b"".join(number.to_bytes(size, "big") for number, size in parts) + body
