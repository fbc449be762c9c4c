"""SPDY of an exec: frames as kubectl sends them, in any pieces, and what is refused."""

import zlib

import pytest

from runyard.node.providers.local.exec_channels import (
    ERROR,
    RESIZE,
    STDIN,
    STDOUT,
    ChannelError,
    FromClient,
    SpdyChannels,
)
from runyard.node.providers.local.spdy_frames import (
    DATA,
    DICTIONARY,
    FRAME_BYTES,
    HEADER_BYTES,
    HEADERS,
    PING,
    RST_STREAM,
    SYN_REPLY,
    SYN_STREAM,
    Frame,
    SpdyEncoder,
    SpdyError,
    SpdyParser,
)

UPGRADE = {"x-stream-protocol-version": "v5.channel.k8s.io, v4.channel.k8s.io"}
PINGED = b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x07"


class KubectlStreams:
    """What a client sends: one state of the compression for the whole connection."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, **headers: str) -> bytes:
        return self.control(SYN_STREAM, stream.to_bytes(4, "big") + bytes(6) + self.pack(headers))

    def pack(self, headers: dict[str, str]) -> bytes:
        block = len(headers).to_bytes(4, "big")
        for word in (word for pair in headers.items() for word in pair):
            block += len(word).to_bytes(4, "big") + word.encode()
        return self._packer.compress(block) + self._packer.flush(zlib.Z_SYNC_FLUSH)

    @staticmethod
    def control(kind: int, body: bytes, *, version: int = 3) -> bytes:
        head = (0x8000 | version).to_bytes(2, "big") + kind.to_bytes(2, "big") + b"\0" + len(body).to_bytes(3, "big")
        return head + body


def test_frames_are_the_same_when_they_come_byte_by_byte() -> None:
    client = KubectlStreams()
    sent = client.open(1, streamtype="error") + client.open(3, streamtype="stdin", port="80")
    sent += client.control(HEADERS, (3).to_bytes(4, "big") + client.pack({"late": "yes"}))
    sent += SpdyEncoder.data(3, b"in", is_last=True) + PINGED
    whole = SpdyParser().feed(sent)
    assert [(frame.kind, frame.stream, frame.headers) for frame in whole] == [
        (SYN_STREAM, 1, {"streamtype": "error"}),
        (SYN_STREAM, 3, {"streamtype": "stdin", "port": "80"}),
        (HEADERS, 3, {"late": "yes"}),
        (DATA, 3, {}),
        (PING, 7, {}),
    ]
    assert whole[3] == Frame(DATA, 3, b"in", is_last=True)
    parser = SpdyParser()
    assert [frame for byte in sent for frame in parser.feed(bytes((byte,)))] == whole


def test_replies_can_be_read_when_several_streams_are_accepted() -> None:
    encoder, parser = SpdyEncoder(), SpdyParser()
    frames = parser.feed(encoder.reply(1) + encoder.reply(3) + encoder.pong(5))
    assert [(frame.kind, frame.stream, frame.headers) for frame in frames] == [
        (SYN_REPLY, 1, {}),
        (SYN_REPLY, 3, {}),
        (PING, 5, {}),
    ]


def test_channels_are_ready_when_every_stream_that_is_needed_is_open() -> None:
    client, channels = KubectlStreams(), SpdyChannels(UPGRADE, needed=frozenset({ERROR, STDIN, STDOUT}))
    for number, kind in enumerate(("error", "stdin", "stdout")):
        assert not channels.is_ready
        (opened,) = channels.feed(client.open(2 * number + 1, streamtype=kind))
        assert opened.channel is None
        assert opened.reply
    assert channels.is_ready
    assert channels.feed(SpdyEncoder.data(3, b"typed")) == [FromClient(STDIN, b"typed")]
    reset = client.control(RST_STREAM, (3).to_bytes(4, "big") + (5).to_bytes(4, "big"))
    assert channels.feed(reset) == [FromClient(STDIN, is_last=True)]
    assert channels.feed(PINGED) == [FromClient(reply=PINGED)]
    finished = SpdyParser().feed(channels.encode(STDOUT, b"o") + channels.encode(RESIZE, b"x") + channels.finish(b"{}"))
    assert finished == [
        Frame(DATA, 5, b"o"),
        Frame(DATA, 5, is_last=True),
        Frame(DATA, 1, b"{}", is_last=True),
    ]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (KubectlStreams().control(PING, bytes(4), version=2), "another version"),
        (KubectlStreams().control(PING, b""), "too short"),
        (b"\0\0\0\1\0" + (FRAME_BYTES + 1).to_bytes(3, "big"), "allowed: 1048576"),
        (KubectlStreams().control(SYN_STREAM, bytes(10) + b"not packed"), "cannot be unpacked"),
        (KubectlStreams().open(1, large="x" * HEADER_BYTES), "headers of more than"),
    ],
)
def test_frame_is_refused_when_it_breaks_the_protocol_or_is_too_large(sent: bytes, words: str) -> None:
    with pytest.raises(SpdyError, match=words):
        SpdyParser().feed(sent)


def test_headers_are_refused_when_they_are_cut_off() -> None:
    packer = zlib.compressobj(zdict=DICTIONARY)
    packed = packer.compress(b"\0\0\0\1\0\0\0\x09short") + packer.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(SpdyError, match="cut off"):
        SpdyParser().feed(KubectlStreams.control(SYN_STREAM, bytes(10) + packed))


def test_stream_is_refused_when_it_is_unknown_or_open_already() -> None:
    client, channels = KubectlStreams(), SpdyChannels(UPGRADE, needed=frozenset({ERROR}))
    channels.feed(client.open(1, streamtype="error"))
    with pytest.raises(ChannelError, match="'error' is not known, or there is one already"):
        channels.feed(client.open(3, streamtype="error"))
    with pytest.raises(ChannelError, match="'' is not known"):
        channels.feed(client.open(5))
