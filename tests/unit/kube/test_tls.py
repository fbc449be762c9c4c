"""How TLS is read: what each read allocates."""

import ssl
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runyard.kube.tls import build_ssl_context
from testbed.pki import Authority

ASKED_BYTES = 256 * 1024
"""What event loops ask for with each read."""


class Pipe:
    """A client and a server in memory, whose handshake is done."""

    def __init__(self, client_context: ssl.SSLContext, server_context: ssl.SSLContext) -> None:
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client_context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
        self.server = server_context.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(4):
            for side in (self.client, self.server):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()

    def iter_reads(self) -> Iterator[bytes]:
        """What the client reads, until there is no more."""
        with suppress(ssl.SSLWantReadError):
            while True:
                yield self.client.read(ASKED_BYTES)


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    authority = Authority(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.issue("server", common_name="server", hosts=["127.0.0.1"]))
    ca = authority.certificate_file.read_bytes()
    return Pipe(build_ssl_context(ca=ca, certificate=None, skip_verify=False), server)


def test_read_allocates_a_record_when_an_event_loop_asks_for_more(pipe: Pipe) -> None:
    pipe.server.write(b"a line of a log\n")
    tracemalloc.start()
    try:
        read = [*pipe.iter_reads()]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read == [b"a line of a log\n"]
    assert peak < ASKED_BYTES / 4


def test_everything_is_read_when_it_fills_many_records(pipe: Pipe) -> None:
    content = bytes(range(256)) * 4096
    pipe.server.write(content)
    read = [*pipe.iter_reads()]
    assert b"".join(read) == content
    assert len(read) == len(content) / (16 * 1024), "a read returns all of a record"


def test_reads_go_into_a_buffer_when_the_caller_has_one(pipe: Pipe) -> None:
    pipe.server.write(b"a line")
    buffer = bytearray(ASKED_BYTES)
    size: object = pipe.client.read(len(buffer), buffer)
    assert (size, bytes(buffer[:6])) == (6, b"a line")
