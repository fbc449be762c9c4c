"""Names that completion proposes: from a real server, remembered for a short time, and silent when something fails."""

import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

import runyard as ry
from runyard.cli import server_names
from runyard.cli.main import root
from tests.command_tree import iter_commands
from tests.unit.cli.conftest import Call


def complete(*words: str) -> dict[str, str | None]:
    """What is proposed for the last word of a line, and the texts beside the words."""
    shell = get_completion_class("bash")
    assert shell is not None
    found = shell(root, {}, "runyard", "_RUNYARD_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return {item.value: item.help for item in found if not item.value.startswith("-")}


@pytest.fixture
def things(server: str, tmp_path: Path) -> str:
    """A server with a run, and other things with names."""
    with ry.Client() as client:
        project = client.get_or_create_project("demo")
        function = project.new_function("train", "container", image="busybox:1.36")
        project.new_function("tidy", "container", image="busybox:1.36")
        if "t-run" not in {run.id for run in project.list_runs()}:
            function.run(id="t-run", profile="small").stop()
        project.new_secret("HF_TOKEN", "hf_value")
        project.new_config_map("tuning", {"a.ini": "1"})
        project.log_model("net", tmp_path / "program.py")
    return server


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("stop", "t-"), {"t-run"}),
        (("logs", "-f", "t-"), {"t-run"}),
        (("rm", "t-run", "t-"), set()),
        (("run", "--function", "t"), {"train", "tidy"}),
        (("function", "show", "tr"), {"train"}),
        (("ps", "--function", "ti"), {"tidy"}),
        (("run", "--profile", ""), {"small"}),
        (("explain", "--profile", "s"), {"small"}),
        (("secret", "rm", "H"), {"HF_TOKEN"}),
        (("config-map", "show", "t"), {"tuning"}),
        (("profile", "show", "s"), {"small"}),
        (("artifact", "get", "--type", "model", "n"), {"net"}),
        (("artifact", "get", "n"), set()),
        (("ps", "--project", "dem"), {"demo"}),
        (("project", "rm", "dem"), {"demo"}),
        (("ps", "--project", "other", "--function", "t"), set()),
    ],
)
def test_names_of_the_server_are_proposed_when_a_word_begins_like_them(
    things: str, words: tuple[str, ...], names: set[str]
) -> None:
    assert set(complete(*words)) == names


def test_state_is_beside_a_run_when_it_is_proposed(things: str) -> None:
    with ry.Client() as client:
        client.get_project("demo").get_run("t-run").wait()
    assert complete("logs", "t-") == {"t-run": "STOPPED"}


def test_contexts_are_proposed_when_there_are_some(things: str, call: Call) -> None:
    assert call("login", things, "--name", "lab").code == 0
    assert complete("context", "") == {"lab": things}
    assert set(complete("ps", "--context", "l")) == {"lab"}
    assert set(complete("logout", "l")) == {"lab"}


def test_every_name_is_completed_when_commands_speak_to_a_server() -> None:
    wanted = {"run", "runs", "--project", "--context", "--profile", "--function"}
    missing = [
        (listed.name, param.name)
        for listed in iter_commands()
        for param in listed.command.params
        if listed.name != "runyard server"
        and "--endpoint" in {option for other in listed.command.params for option in other.opts}
        and wanted & {param.opts[-1]}
        and param._custom_shell_complete is None
    ]
    assert missing == []


class Counter:
    """A small real HTTP server: what it answers, and how often it was asked."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.count = 0

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Its address."""
        counter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                counter.count += 1
                self.send_response(200)
                self.send_header("Content-Length", str(len(counter.content)))
                self.end_headers()
                self.wfile.write(counter.content)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()


def get_cache(home: Path) -> Path:
    return home / ".cache/runyard/completion.json"


def test_server_is_asked_once_when_keys_follow_each_other(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(b'{"content": [{"name": "vision"}, {"name": "speech"}]}')
    with counter.serve() as url:
        monkeypatch.setenv("RUNYARD_ENDPOINT", url)
        for begin, names in (("", {"vision", "speech"}), ("v", {"vision"}), ("x", set())):
            assert set(complete("project", "rm", begin)) == names
        assert counter.count == 1
        assert stat.S_IMODE(get_cache(tmp_path).stat().st_mode) == 0o600
        assert stat.S_IMODE(get_cache(tmp_path).parent.stat().st_mode) == 0o700
        monkeypatch.setenv("RUNYARD_TOKEN", "of somebody else")
        complete("project", "rm", "")
        assert counter.count == 2
        monkeypatch.setattr(server_names, "FRESH_SECONDS", 0.0)
        complete("project", "rm", "")
        assert counter.count == 3
        get_cache(tmp_path).write_text("{broken")
        assert set(complete("project", "rm", "v")) == {"vision"}


@pytest.mark.parametrize(
    "content",
    [
        b"<html>proxy</html>",
        b'{"content": 3}',
        b'{"content": [3]}',
        b"[]",
        b'{"content": [{"name": "$(id)"}, {"name": "a;b"}, {"name": "*"}, {"name": "-rf"}]}',
        b'{"content": [{"name": "a b"}, {"name": "a\\u001b[31m"}, {"name": ""}, {"name": "' + b"a" * 300 + b'"}]}',
    ],
)
def test_nothing_is_proposed_when_the_answer_is_not_names(
    server: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], content: bytes
) -> None:
    with Counter(content).serve() as url:
        monkeypatch.setenv("RUNYARD_ENDPOINT", url)
        assert complete("project", "rm", "") == {}
    assert capfd.readouterr() == ("", "")


def test_nothing_is_proposed_when_the_server_never_answers(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("RUNYARD_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert complete("project", "rm", "") == {}
        silent.setblocking(False)
        silent.accept()[0].close()
        # The failure is remembered: nobody waits again.
        assert complete("project", "rm", "") == {}
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RUNYARD_ENDPOINT", "http://127.0.0.1:9"),
        ("RUNYARD_ENDPOINT", "not an address"),
        ("RUNYARD_CONTEXT", "nowhere"),
        ("XDG_CACHE_HOME", "/proc/nothing"),
    ],
)
def test_nobody_is_told_when_completion_fails(
    server: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert complete("secret", "rm", "nothing-begins-so") == {}
    assert capfd.readouterr() == ("", "")
