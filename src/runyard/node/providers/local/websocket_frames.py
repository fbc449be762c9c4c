"""WebSocket frames (RFC 6455) of the server's side, without I/O: one parser, one encoder."""

import base64
import hashlib
from dataclasses import dataclass

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
MESSAGE_BYTES = 1 << 20
"""Of one message from a client; Kubernetes' clients send at most 32 KiB."""
_ACCEPT_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LONGEST_CONTROL = 125


class FrameError(ValueError):
    """The client does not speak the protocol, or sends too much."""


@dataclass(frozen=True, slots=True)
class Message:
    """A whole message or control frame."""

    opcode: int
    payload: bytes


def accept_key(key: str) -> str:
    """The value of `Sec-WebSocket-Accept`."""
    return base64.b64encode(hashlib.sha1(key.encode() + _ACCEPT_KEY, usedforsecurity=False).digest()).decode()


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """One unmasked frame, as a server sends it."""
    size = len(payload)
    if size <= _LONGEST_CONTROL:
        head = bytes((0x80 | opcode, size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big")
    return head + payload


class FrameParser:
    """Turns a client's bytes into messages. Holds one unfinished message at most."""

    def __init__(self, *, message_bytes: int = MESSAGE_BYTES) -> None:
        self._message_bytes = message_bytes
        self._buffer = bytearray()
        self._opcode: int | None = None
        self._parts = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now; raises `FrameError`."""
        self._buffer += data
        messages = []
        while (frame := self._take_frame()) is not None:
            opcode, is_final, payload = frame
            if opcode >= CLOSE:
                messages.append(Message(opcode, payload))
                continue
            if (opcode == CONTINUATION) == (self._opcode is None):
                raise FrameError("a fragment is out of order")
            self._opcode = opcode if self._opcode is None else self._opcode
            self._parts += payload
            if len(self._parts) > self._message_bytes:
                raise FrameError(f"a message has more than {self._message_bytes} bytes")
            if is_final:
                messages.append(Message(self._opcode, bytes(self._parts)))
                self._opcode, self._parts = None, bytearray()
        return messages

    def _take_frame(self) -> tuple[int, bool, bytes] | None:
        """Opcode, whether it is the last of its message, and payload; None until a frame is complete."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        opcode, is_final, size, start = buffer[0] & 0x0F, bool(buffer[0] & 0x80), buffer[1] & 0x7F, 2
        if buffer[0] & 0x70 or opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise FrameError("a frame has unknown flags")
        if not buffer[1] & 0x80:
            raise FrameError("a client's frame is not masked")
        if opcode >= CLOSE and (size > _LONGEST_CONTROL or not is_final):
            raise FrameError("a control frame is too long")
        if size > _LONGEST_CONTROL:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[2:start], "big")
        if size > self._message_bytes:
            raise FrameError(f"a message has more than {self._message_bytes} bytes")
        if len(buffer) < start + 4 + size:
            return None
        payload = _unmask(bytes(buffer[start + 4 : start + 4 + size]), bytes(buffer[start : start + 4]))
        del buffer[: start + 4 + size]
        return opcode, is_final, payload


def _unmask(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
