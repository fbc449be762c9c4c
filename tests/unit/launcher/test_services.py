"""`serve`: an HTTP server around the handler."""

import http.client
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from runyard.launcher import http_service
from runyard.launcher.http_service import _serve_until_stopped, _Server
from runyard.launcher.signals import StopSignal
from tests.unit.launcher.lab import Lab, find_free_port


def test_handler_answers_json_by_name_and_type_when_it_is_called(lab: Lab) -> None:
    code = "def main(x: int, y: float = 0.5):\n    return {'sum': x + y}\n"
    with lab.service(code, parameters={"y": 2}) as service:
        assert service.call("/", {"x": 1}) == (200, service.call("/", {"x": 1})[1], {"sum": 3.0})
        assert service.call("/any/path?x=4")[2] == {"sum": 6.0}
        assert service.call("/", [1, 2])[0::2] == (
            400,
            {"status": 400, "message": "parameter x of the handler: a list is not a whole number"},
        )
        assert service.call("/", 5)[2] == {"sum": 7.0}


@pytest.mark.parametrize(
    ("body", "headers", "status", "message"),
    [
        ({"z": 1, "x": 2}, {}, 400, "the handler has no parameter z; it has x"),
        ({}, {}, 400, "the handler needs x"),
        (
            b'{"x": 1}',
            {"Content-Type": "application/x-www-form-urlencoded"},
            400,
            (
                "parameter x of the handler: a body of bytes is not a whole number; the body was not read as JSON, "
                "because its Content-Type is application/x-www-form-urlencoded: send Content-Type: application/json"
            ),
        ),
        (b"{", {"Content-Type": "application/json"}, 400, "the body is not valid JSON"),
        (
            {"x": 1},
            {"Content-Length": "99999999999"},
            413,
            "the body has 99999999999 bytes; at most 67108864 are allowed",
        ),
        ({"x": 1}, {"Content-Length": "-1"}, 400, "Content-Length is not a number"),
        (b"", {"Transfer-Encoding": "chunked"}, 411, "send the body with Content-Length"),
    ],
)
def test_request_is_refused_with_json_when_it_is_not_usable(
    lab: Lab, body: object, headers: dict[str, str], status: int, message: str
) -> None:
    with lab.service("def main(x: int):\n    return x\n") as service:
        answer = service.call("/", body, method="POST", headers=headers)
        assert answer[0::2] == (status, {"status": status, "message": message})


def test_client_sees_no_traceback_and_service_goes_on_when_the_handler_raises(lab: Lab) -> None:
    code = "def main(x):\n    if x == 0:\n        raise ValueError('secret')\n    return 1 / x\n"
    with lab.service(code) as service:
        status, _, answer = service.call("/", {"x": 0})
        assert status == 500
        assert answer["message"].startswith("the handler failed; the run's log has the traceback of request ")
        assert "secret" not in answer["message"]
        assert service.call("/", {"x": 2})[2] == 0.5
        done = service.stop()
    assert "ValueError: secret" in done.err
    assert answer["message"].rpartition(" ")[2] in done.err
    assert "runyard_launcher" not in done.err


def test_readiness_begins_after_init_when_init_takes_its_time(lab: Lab) -> None:
    code = """
import time
def init(context, scale: int):
    print("init began")
    time.sleep(1.0)
    context.scale = scale
def main(context, x: int):
    return context.scale * x
"""
    begun = time.monotonic()
    with lab.service(code, source={"init_function": "init"}, init_parameters={"scale": "3"}) as service:
        assert time.monotonic() - begun > 1.0
        assert service.call("/healthz")[0::2] == (200, {"status": "ok"})
        assert service.call("/", {"x": 2})[2] == 6


def test_values_go_to_the_function_that_has_their_names_when_init_and_handler_differ(lab: Lab) -> None:
    code = """
def init(context, model: str):
    context.model = model
def main(context, x: int, offset: int = 0):
    return f"{context.model} {x + offset}"
"""
    fields = {"source": {"init_function": "init"}, "parameters": {"offset": "1"}, "inputs": {"model": "net"}}
    with lab.service(code, **fields) as service:  # type: ignore[arg-type]
        assert service.call("/", {"x": 1})[2] == "net 2"
        assert service.call("/?offset=5", {"x": 1})[2] == "net 6"


def test_service_does_not_start_when_a_parameter_of_the_run_is_unknown(lab: Lab) -> None:
    source = {"handler": "main", "code": "def main(x, scale=1):\n    return x\n"}
    lab.server.effective = {"action": "serve", "source": source, "parameters": {"scal": 2}}
    done = lab.finish(lab.start(RUNYARD_PORT=str(find_free_port())))
    assert (done.code, done.termination["message"]) == (2, "the handler has no parameter scal; nearest: scale")


def test_port_is_closed_when_init_has_not_ended(lab: Lab) -> None:
    code = "import time\ndef init():\n    print('init began')\n    time.sleep(60)\ndef main():\n    pass\n"
    source = {"handler": "main", "init_function": "init", "code": code}
    lab.server.effective = {"action": "serve", "source": source}
    port = find_free_port()
    process = lab.start(RUNYARD_PORT=str(port))
    assert process.stdout is not None
    assert process.stdout.readline() == "init began\n"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    process.terminate()
    assert lab.finish(process).code == 143


def test_excess_requests_get_503_when_all_slots_are_taken(lab: Lab) -> None:
    gate = lab.folder / "gate"
    waiting = f"    while not os.path.exists('{gate}'):\n        time.sleep(0.05)\n"
    code = f"import os, time\ndef main():\n{waiting}    return 1\n"
    with lab.service(code, environment={"RUNYARD_CONCURRENCY": "2"}) as service, ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(service.call) for _ in range(6)]
        while sum(call.done() for call in calls) < 4:
            time.sleep(0.02)
        gate.touch()
        answers = [call.result() for call in calls]
    assert sorted(answer[0] for answer in answers) == [200, 200, 503, 503, 503, 503]
    refused = next(answer for answer in answers if answer[0] == 503)
    assert refused[1]["retry-after"] == "1"
    assert refused[2] == {"status": 503, "message": "the service is busy"}


def test_health_is_answered_when_all_slots_are_taken(lab: Lab) -> None:
    code = "import time\ndef main():\n    time.sleep(2)\n"
    with lab.service(code, environment={"RUNYARD_CONCURRENCY": "1"}) as service:
        thread = threading.Thread(target=service.call)
        thread.start()
        time.sleep(0.5)
        assert service.call("/healthz")[0] == 200
        thread.join()


def test_requests_in_flight_are_answered_when_sigterm_arrives(lab: Lab) -> None:
    code = "import time\ndef main():\n    print('in flight')\n    time.sleep(1.5)\n    return 'whole'\n"
    with lab.service(code) as service, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(service.call)
        assert service.process.stdout is not None
        assert service.process.stdout.readline() == "in flight\n"
        done = service.stop()
        assert answer.result()[0::2] == (200, "whole")
    assert (done.code, done.err) == (143, "")


def test_service_ends_within_its_grace_when_a_request_does_not_end(lab: Lab) -> None:
    code = "import time\ndef main():\n    print('in flight')\n    time.sleep(60)\n"
    with lab.service(code, grace_period=3) as service, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(service.call)
        assert service.process.stdout is not None
        assert service.process.stdout.readline() == "in flight\n"
        begun = time.monotonic()
        done = service.stop()
        assert time.monotonic() - begun < 3
        with pytest.raises(http.client.RemoteDisconnected):
            answer.result()
    assert done.err == "runyard: requests were still in flight at the end of the grace period\n"


def test_stop_drains_when_it_comes_as_soon_as_the_service_listens() -> None:
    class Stopped(_Server):
        def server_activate(self) -> None:
            super().server_activate()
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    stop = StopSignal()
    try:
        stop.install()
        with Stopped(("127.0.0.1", 0)) as server:
            server.server_bind()
            _serve_until_stopped(server, stop)
            server.shutdown()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stop.is_received


def test_async_handlers_overlap_when_several_are_called(lab: Lab) -> None:
    code = "import asyncio\nasync def main(x):\n    await asyncio.sleep(2)\n    return x\n"
    with lab.service(code) as service, ThreadPoolExecutor(8) as pool:
        begun = time.monotonic()
        answers = list(pool.map(lambda x: service.call("/", {"x": x})[2], range(8)))
        assert time.monotonic() - begun < 12  # one after the other: 16 s
    assert answers == list(range(8))


@pytest.mark.parametrize("word", ["def", "async def"])
def test_answer_is_streamed_when_the_handler_is_a_generator(lab: Lab, word: str) -> None:
    code = f"{word} main():\n    yield 'a'\n    yield b'b'\n    yield {{'c': 1}}\n"
    with lab.service(code, environment={"RUNYARD_CONCURRENCY": "1"}) as service:
        for _ in range(3):  # the slot is free again
            status, headers, body = service.call()
            assert (status, headers["transfer-encoding"], body) == (200, "chunked", b'ab{"c": 1}\n')


def test_slot_is_free_again_when_clients_hang_up_on_a_stream(lab: Lab) -> None:
    code = "def main(n: int = 3):\n    for i in range(n):\n        yield 'x' * 100_000\n"
    with lab.service(code, environment={"RUNYARD_CONCURRENCY": "1"}) as service:
        with socket.create_connection(("127.0.0.1", service.port)) as client:
            client.sendall(b"GET /?n=100000 HTTP/1.1\r\nHost: x\r\n\r\n")
            client.recv(1000)
        deadline = time.monotonic() + 60
        while service.call()[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_handler_gets_context_and_event_when_it_is_written_for_nuclio(lab: Lab) -> None:
    code = """
def main(context, event):
    context.logger.info_with("called", path=event.path)
    body = {"got": event.body, "method": event.method, "fields": event.fields, "project": context.project.name}
    return context.Response(body=body, headers={"X-Mine": "1"}, content_type="application/json", status_code=201)
"""
    with lab.service(code) as service:
        status, headers, body = service.call("/infer?a=1", {"x": 1})
        assert (status, headers["x-mine"]) == (201, "1")
        assert body == {"got": {"x": 1}, "method": "POST", "fields": {"a": "1"}, "project": "vision"}


@pytest.mark.parametrize(
    ("expression", "status", "content_type", "body"),
    [
        ("'text'", 200, "text/plain", b"text"),
        ("(404, 'no')", 404, "text/plain", b"no"),
        ("(200, {'a': 1})", 200, "application/json", {"a": 1}),
        ("context.Response(body='{}', content_type='application/json')", 200, "application/json", {}),
        ("b'raw'", 200, "application/octet-stream", b"raw"),
        ("{'a': 1}", 200, "application/json", {"a": 1}),
    ],
)
def test_answer_is_nuclios_when_the_handler_takes_an_event(
    lab: Lab, expression: str, status: int, content_type: str, body: object
) -> None:
    with lab.service(f"def main(context, event):\n    return {expression}\n") as service:
        answer = service.call()
        assert (answer[0], answer[1]["content-type"], answer[2]) == (status, content_type, body)
        assert answer[1]["server"] == "runyard"


def test_connection_is_used_again_when_a_client_keeps_it(lab: Lab) -> None:
    with lab.service("def main(x):\n    return x\n") as service:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
        for number in range(3):
            connection.request("POST", "/", body=str(number))
            assert connection.getresponse().read() == str(number).encode()
        connection.close()


def test_run_is_not_prepared_when_the_port_is_taken(lab: Lab) -> None:
    lab.server.effective = {"action": "serve", "source": {"code": "def main(): pass", "handler": "main"}}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = lab.finish(lab.start(RUNYARD_PORT=str(port)))
    assert (done.code, done.termination["message"]) == (2, f"the port {port} cannot be bound: Address already in use")


def test_limits_are_those_of_the_documentation_when_read() -> None:
    assert (http_service.LARGEST_BODY_BYTES, http_service.MOST_CONNECTIONS) == (64 << 20, 512)
