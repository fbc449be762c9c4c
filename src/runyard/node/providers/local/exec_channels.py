"""The two languages in which Kubernetes' clients speak of the channels of an exec: WebSocket, and SPDY.

Channels: 0 stdin, 1 stdout, 2 stderr, 3 the result as a Status, 4 the size of a terminal. Over a WebSocket each message
begins with its number, and in v5 255 closes another one. Over SPDY each is a stream that the client opens and names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from runyard.node.providers.local import spdy_frames as spdy
from runyard.node.providers.local.websocket_frames import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    FrameError,
    FrameParser,
    accept_key,
    encode_frame,
)
from runyard.node.providers.provider import ProviderRefused

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSED = 0, 1, 2, 3, 4, 255
WEBSOCKET_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
SPDY_PROTOCOL = "v4.channel.k8s.io"
_NORMAL_CLOSURE = b"\x03\xe8"
_NUMBERS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}


class ChannelError(ValueError):
    """The client does not speak the protocol, or sends too much."""


@dataclass(frozen=True, slots=True)
class FromClient:
    """What one piece of a client's bytes means."""

    channel: int | None = None
    payload: bytes = b""
    is_last: bool = False
    """Whether nothing more comes on this channel."""
    reply: bytes = b""
    """To be sent back."""
    is_farewell: bool = False


class Channels(Protocol):
    """One connection of a client."""

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """Of the 101."""

    @property
    def is_ready(self) -> bool:
        """Whether all channels are there that are needed."""

    def feed(self, data: bytes) -> Sequence[FromClient]:
        """What bytes of the client mean; raises `ChannelError`."""

    def begin(self) -> bytes:
        """What is said first, once it is ready."""

    def encode(self, channel: int, payload: bytes) -> bytes:
        """Output."""

    def finish(self, status: bytes) -> bytes:
        """The result, and the end of every channel."""


class WebSocketChannels:
    """`Channels` as messages of a WebSocket, v4 and v5."""

    is_ready = True

    def __init__(self, given: Mapping[str, str], *, has_stdout: bool) -> None:
        offered = [name.strip() for name in given.get("sec-websocket-protocol", "").split(",")]
        protocol = next((name for name in WEBSOCKET_PROTOCOLS if name in offered), None)
        if protocol is None:
            known = ", ".join(WEBSOCKET_PROTOCOLS)
            raise ProviderRefused("NotSupported", f"none of the protocols is known; known are {known}")
        self.headers = (
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Accept", accept_key(given["sec-websocket-key"])),
            ("Sec-WebSocket-Protocol", protocol),
        )
        self._first = STDOUT if has_stdout else ERROR
        self._parser = FrameParser()

    def feed(self, data: bytes) -> Sequence[FromClient]:
        """See `Channels`."""
        try:
            messages = self._parser.feed(data)
        except FrameError as error:
            raise ChannelError(str(error)) from error
        found = []
        for message in messages:
            payload = message.payload
            if message.opcode == PING:
                found.append(FromClient(reply=encode_frame(PONG, payload)))
            elif message.opcode == CLOSE:
                found.append(FromClient(is_farewell=True))
            elif message.opcode == BINARY and len(payload) == 2 and payload[0] == CLOSED:
                found.append(FromClient(payload[1], is_last=True))
            elif message.opcode == BINARY and payload:
                found.append(FromClient(payload[0], payload[1:]))
        return found

    def begin(self) -> bytes:
        """As a kubelet does: an empty message says that the connection is established."""
        return self.encode(self._first, b"")

    def encode(self, channel: int, payload: bytes) -> bytes:
        """See `Channels`."""
        return encode_frame(BINARY, bytes((channel,)) + payload)

    def finish(self, status: bytes) -> bytes:
        """See `Channels`."""
        return self.encode(ERROR, status) + encode_frame(CLOSE, _NORMAL_CLOSURE)


class SpdyChannels:
    """`Channels` as streams of SPDY, v4: for kubectl behind an apiserver that speaks SPDY to nodes."""

    def __init__(self, given: Mapping[str, str], *, needed: frozenset[int]) -> None:
        offered = [name.strip() for name in given.get("x-stream-protocol-version", "").split(",")]
        if SPDY_PROTOCOL not in offered:
            raise ProviderRefused("NotSupported", f"none of the protocols is known; known is {SPDY_PROTOCOL}")
        self.headers = (("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", SPDY_PROTOCOL))
        self._needed = needed
        self._streams: dict[int, int] = {}
        """The stream of each channel."""
        self._parser, self._encoder = spdy.SpdyParser(), spdy.SpdyEncoder()

    @property
    def is_ready(self) -> bool:
        """See `Channels`."""
        return self._needed <= self._streams.keys()

    def feed(self, data: bytes) -> Sequence[FromClient]:
        """See `Channels`."""
        try:
            return [found for frame in self._parser.feed(data) for found in self._read(frame)]
        except spdy.SpdyError as error:
            raise ChannelError(str(error)) from error

    def _read(self, frame: spdy.Frame) -> Sequence[FromClient]:
        match frame.kind:
            case spdy.SYN_STREAM:
                return [FromClient(reply=self._open(frame))]
            case spdy.PING:
                return [FromClient(reply=self._encoder.pong(frame.stream))]
            case spdy.GOAWAY:
                return [FromClient(is_farewell=True)]
            case spdy.DATA | spdy.RST_STREAM:
                channel = next((number for number, stream in self._streams.items() if stream == frame.stream), None)
                is_data = frame.kind == spdy.DATA
                return [FromClient(channel, frame.payload if is_data else b"", is_last=frame.is_last or not is_data)]
        return []

    def _open(self, frame: spdy.Frame) -> bytes:
        kind = frame.headers.get("streamtype", "")
        channel = _NUMBERS.get(kind)
        if channel is None or channel in self._streams:
            raise ChannelError(f"a stream of type {kind!r:.40} is not known, or there is one already")
        self._streams[channel] = frame.stream
        return self._encoder.reply(frame.stream)

    def begin(self) -> bytes:
        """The replies to the streams have said it."""
        return b""

    def encode(self, channel: int, payload: bytes) -> bytes:
        """See `Channels`."""
        stream = self._streams.get(channel)
        return b"" if stream is None else self._encoder.data(stream, payload)

    def finish(self, status: bytes) -> bytes:
        """See `Channels`."""
        ends = [
            self._encoder.data(self._streams[channel], b"", is_last=True)
            for channel in (STDOUT, STDERR)
            if channel in self._streams
        ]
        return b"".join(ends) + self._encoder.data(self._streams[ERROR], status, is_last=True)
