"""Source from addresses: git over HTTPS, archives and files over HTTP, files of the machine; and their bounds."""

import functools
import io
import os
import ssl
import stat
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runyard.launcher.failures import NotPrepared
from runyard.launcher.remote_source import archives, downloads
from runyard.launcher.sources import prepare_source
from tests.certificates import write_certificate
from tests.unit.launcher.lab import TOKEN, Lab

CODE = b"def main():\n    return 'fetched'\n"


@contextmanager
def listen(handler: Any, *, certificate: Path | None = None, host: str = "127.0.0.1") -> Iterator[str]:
    """An HTTP(S) server on a free port; its address."""
    server = ThreadingHTTPServer((host, 0), handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if certificate is None else 'https'}://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_handler(pages: dict[str, Any], seen: list[dict[str, str]]) -> type[BaseHTTPRequestHandler]:
    """Answers by path: bytes, or a status with headers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
            page = pages.get(self.path, (404, {}))
            page = page(self) if callable(page) else page
            status, headers = page if isinstance(page, tuple) else (200, {"Content-Length": str(len(page))})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if isinstance(page, bytes):
                self.wfile.write(page)

        def log_message(self, *arguments: Any) -> None:
            pass

    return Handler


def make_zip(files: dict[str, bytes], *, modes: dict[str, int] | None = None) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (modes or {}).get(name, 0o100644) << 16
            archive.writestr(entry, data)
    return content.getvalue()


def test_file_and_archive_run_when_they_are_fetched_over_http_without_the_token(lab: Lab) -> None:
    seen: list[dict[str, str]] = []
    pages = {
        "/train.py": CODE,
        "/repo.zip": make_zip({"repo-main/pkg/__init__.py": b"", "repo-main/pkg/train.py": CODE}),
    }
    with listen(make_handler(pages, seen)) as address:
        assert lab.launch(source={"source": f"{address}/train.py"}).code == 0
        assert lab.server.status.pop("results") == {"output_0": "fetched"}
        done = lab.launch(handler="pkg.train:main", source={"source": f"zip+{address}/repo.zip"})
        assert done.code == 0, done.err
        assert lab.server.status.pop("results") == {"output_0": "fetched"}
    assert TOKEN not in str(seen)
    assert all("authorization" not in request for request in seen)


def test_credentials_stay_with_their_host_when_a_download_is_redirected(tmp_path: Path) -> None:
    first: list[dict[str, str]] = []
    second: list[dict[str, str]] = []
    with listen(make_handler({"/f.py": CODE}, second)) as other:
        pages = {"/f.py": (302, {"Location": f"{other}/f.py"})}
        with listen(make_handler(pages, first)) as address:
            tree = prepare_source({"source": address.replace("//", "//ada:s%20ecret@") + "/f.py"}, work=tmp_path)
    assert (tree.root / "f.py").read_bytes() == CODE
    assert first[0]["authorization"] == "Basic YWRhOnMgZWNyZXQ="
    assert "authorization" not in second[0]


def test_download_is_refused_when_it_redirects_for_ever_or_away_from_https(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    with listen(make_handler({"/a": (302, {"Location": "/a"})}, [])) as address:
        with pytest.raises(NotPrepared, match="cannot be downloaded: more than 5 redirects, or one without"):
            prepare_source({"source": f"{address}/a"}, work=tmp_path)
        pages = {"/a": (302, {"Location": f"{address}/a"}), "/f": (302, {"Location": "ftp://127.0.0.1/f"})}
        with (
            listen(make_handler(pages, []), certificate=tmp_path) as secure,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
            with pytest.raises(NotPrepared, match="redirects from https to http, which is not allowed"):
                prepare_source({"source": f"{secure}/a"}, work=tmp_path)
            with pytest.raises(NotPrepared, match="redirects to the scheme ftp, which is not allowed"):
                prepare_source({"source": f"{secure}/f"}, work=tmp_path)


def test_download_is_refused_when_it_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "LARGEST_DOWNLOAD_BYTES", 1 << 20)
    with (
        listen(make_handler({"/f.py": b"#" * ((1 << 20) + 1)}, [])) as address,
        pytest.raises(NotPrepared, match="the source is larger than 1 MiB"),
    ):
        prepare_source({"source": f"{address}/f.py"}, work=tmp_path)


def test_download_is_repeated_when_the_other_server_fails_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "MOST_ATTEMPTS", 3)
    answers: list[Any] = [CODE, (200, {"Content-Length": "1000"}), (503, {})]
    seen: list[dict[str, str]] = []
    with listen(make_handler({"/f.py": lambda _: answers.pop()}, seen)) as address:
        tree = prepare_source({"source": f"{address}/f.py"}, work=tmp_path)
    assert (tree.root / "f.py").read_bytes() == CODE
    assert len(seen) == 3


def test_message_has_no_credentials_when_a_download_fails(tmp_path: Path) -> None:
    with (
        listen(make_handler({}, [])) as address,
        pytest.raises(NotPrepared) as raised,
    ):
        prepare_source({"source": address.replace("//", "//ada:secret@") + "/f.py?sig=secret"}, work=tmp_path)
    assert str(raised.value) == f"the source {address}/f.py cannot be downloaded: HTTP 404"


@pytest.mark.parametrize(
    ("files", "modes", "message"),
    [
        ({"../evil.py": b""}, {}, "the source archive has the path `../evil.py`, which leads out of its folder"),
        (
            {"a/../../evil.py": b""},
            {},
            "the source archive has the path `a/../../evil.py`, which leads out of its folder",
        ),
        ({"/etc/evil": b""}, {}, "the source archive has the path `/etc/evil`, which leads out of its folder"),
        ({"C:/evil": b""}, {}, "the source archive has the path `C:/evil`, which leads out of its folder"),
        (
            {"link": b"/etc"},
            {"link": stat.S_IFLNK | 0o777},
            "`link` of the source archive is a link or device; only files and folders are allowed",
        ),
        (
            {"pipe": b""},
            {"pipe": stat.S_IFIFO | 0o644},
            "`pipe` of the source archive is a link or device; only files and folders are allowed",
        ),
        ({"a": b"", "a/b": b""}, {}, "the source archive has `a/b` twice"),
        (
            {"a\\b": b""},
            {},
            "the source archive has the unusable name `a\\b`; allowed: at most 1024 characters, no backslash",
        ),
        ({"../\x1b[31m": b""}, {}, "the source archive has the path `../\\x1b[31m`, which leads out of its folder"),
    ],
)
def test_archive_is_refused_when_an_entry_is_dangerous(
    tmp_path: Path, files: dict[str, bytes], modes: dict[str, int], message: str
) -> None:
    (tmp_path / "a.zip").write_bytes(make_zip(files, modes=modes))
    with pytest.raises(NotPrepared) as raised:
        archives.extract_zip(tmp_path / "a.zip", tmp_path / "out")
    assert str(raised.value) == message
    assert sorted(path.name for path in tmp_path.iterdir()) in (["a.zip"], ["a.zip", "out"])


def test_archive_is_refused_when_it_is_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_SOURCE_BYTES", 10 << 20)
    bomb = make_zip({"zeros": bytes(20 << 20)})
    assert len(bomb) < 100_000
    (tmp_path / "a.zip").write_bytes(bomb)
    with pytest.raises(NotPrepared, match="has 20971520 bytes extracted; at most 10485760 are allowed"):
        archives.extract_zip(tmp_path / "a.zip", tmp_path / "out")
    # The same with a lie about its size in the table of contents.
    real, lie = struct.pack("<L", 20 << 20), struct.pack("<L", 5)
    (tmp_path / "a.zip").write_bytes(bomb.replace(real, lie))
    with pytest.raises(NotPrepared):
        archives.extract_zip(tmp_path / "a.zip", tmp_path / "out2")
    size = sum(path.stat().st_size for path in (tmp_path / "out2").rglob("*"))
    assert size <= 10 << 20


def test_archive_is_refused_when_it_has_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_FILES", 10)
    (tmp_path / "a.zip").write_bytes(make_zip({f"f{number}": b"" for number in range(11)}))
    with pytest.raises(NotPrepared, match="has more than 10 files or is too large"):
        archives.extract_zip(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"not a zip", make_zip({"a": b"x" * 1000})[:-30], b"PK\x05\x06" + bytes(18)])
def test_archive_is_refused_or_empty_when_it_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    if content.endswith(bytes(18)):
        archives.extract_zip(tmp_path / "a.zip", tmp_path)
        return
    with pytest.raises(NotPrepared, match="the source archive cannot be read"):
        archives.extract_zip(tmp_path / "a.zip", tmp_path / "out")


def test_local_file_and_folder_are_used_where_they_are_when_named(lab: Lab) -> None:
    folder = lab.folder / "app"
    folder.mkdir()
    (folder / "train.py").write_bytes(CODE)
    (folder / "main.py").write_text("from train import main\n")
    assert lab.launch(source={"source": f"file://{folder}/train.py"}).code == 0
    assert lab.launch(source={"source": f"file://{folder}"}).code == 0
    done = lab.launch(source={"source": "file:///no/such/file.py"})
    assert (done.code, done.termination["message"]) == (
        2,
        "the source /no/such/file.py does not exist in this image or machine",
    )


def test_source_is_refused_when_its_scheme_is_unknown_or_its_client_missing(lab: Lab) -> None:
    done = lab.launch(source={"source": "ftp://host/x.py"})
    assert done.termination["message"] == (
        "the scheme ftp of the source is unknown; "
        "allowed: git+https, zip+https, zip+http, zip+s3, https, http, s3, file"
    )
    done = lab.launch(source={"source": "https://host/x.zip"})
    assert (done.code, done.termination["message"]) == (
        2,
        "the source https://host/x.zip is an archive; write zip+ before it: zip+https://host/x.zip",
    )
    done = lab.launch(source={"source": "zip+s3://bucket/x.zip"})
    assert (done.code, done.termination["message"]) == (
        2,
        "a source in S3 needs boto3, which is not installed; add boto3 to the function's `requirements`",
    )


def test_archive_comes_from_s3_when_boto3_is_installed(lab: Lab) -> None:
    """A module in place of boto3: what is asked of it, and that the bytes are used."""
    (lab.folder / "a.zip").write_bytes(make_zip({"main.py": CODE}))
    (lab.folder / "boto3.py").write_text(
        "import os\n"
        "class Client:\n"
        "    def get_object(self, Bucket, Key):\n"
        "        assert (Bucket, Key) == ('bucket', 'dir/x y.zip')\n"
        "        return {'Body': open(os.environ['ARCHIVE'], 'rb')}\n"
        "def client(name, **options):\n"
        "    assert (name, options) == ('s3', {'endpoint_url': 'http://s3.example'})\n"
        "    return Client()\n"
    )
    environment = {
        "PYTHONPATH": str(lab.folder),
        "ARCHIVE": str(lab.folder / "a.zip"),
        "AWS_ENDPOINT_URL": "http://s3.example",
    }
    done = lab.launch(source={"source": "zip+s3://bucket/dir/x%20y.zip"}, environment=environment)
    assert done.code == 0, done.err


def git(*arguments: str, cwd: Path) -> str:
    environment = {
        **os.environ,
        **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    done = subprocess.run(["git", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A bare repository for dumb HTTP: `main` returns `new`, the tag v1 and its commit return `old`."""
    work, bare = tmp_path / "repository", tmp_path / "served" / "team" / "repo.git"
    work.mkdir()
    git("init", "-q", "-b", "main", cwd=work)
    commits = {}
    for name in ("old", "new"):
        (work / "main.py").write_text(f"def main():\n    return '{name}'\n")
        git("add", ".", cwd=work)
        git("commit", "-q", "-m", name, cwd=work)
        commits[name] = git("rev-parse", "HEAD", cwd=work)
        if name == "old":
            git("tag", "v1", cwd=work)
            git("branch", "release/1", cwd=work)
    bare.parent.mkdir(parents=True)
    git("clone", "-q", "--bare", str(work), str(bare), cwd=tmp_path)
    git("update-server-info", cwd=bare)
    return tmp_path / "served", commits


def test_branch_tag_or_commit_runs_when_the_source_is_in_git(lab: Lab, repository: tuple[Path, dict[str, str]]) -> None:
    served, commits = repository
    write_certificate(lab.folder)
    seen: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            if not seen[-1]:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="x"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            super().do_GET()

        def log_message(self, *arguments: Any) -> None:
            pass

    handler = functools.partial(Handler, directory=str(served))
    environment = {
        "GIT_SSL_CAINFO": str(lab.folder / "cert.pem"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TOKEN": "the-git-token",
    }
    with listen(handler, certificate=lab.folder) as address:
        base = f"git+{address}/team/repo.git"
        expected = {"": "new", "#main": "new", "#release/1": "old", "#v1": "old", f"#{commits['old']}": "old"}
        for fragment, result in expected.items():
            done = lab.launch(source={"source": base + fragment}, environment=environment)
            assert done.code == 0, done.err
            assert lab.server.status.pop("results") == {"output_0": result}
        done = lab.launch(source={"source": f"{base}#nowhere"}, environment=environment)
        assert (done.code, done.termination["message"]) == (
            2,
            f"the source {base[4:]} has no branch, tag or commit nowhere",
        )
        done = lab.launch(source={"source": base}, environment={**environment, "GIT_TOKEN": ""})
        assert done.code == 2
        assert "cannot be checked out: fatal: Authentication failed" in done.termination["message"]
    assert set(seen) == {"", "Basic b2F1dGgyOnRoZS1naXQtdG9rZW4="}


def test_token_is_on_no_command_line_when_git_is_called(lab: Lab) -> None:
    """A program in place of git: it notes its arguments."""
    (lab.folder / "bin").mkdir()
    script = lab.folder / "bin" / "git"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nopen('{lab.folder}/seen', 'a').write(repr(sys.argv))\nsys.exit(1)\n"
    )
    script.chmod(0o755)
    path = {"PATH": f"{lab.folder}/bin:{os.environ['PATH']}", "GIT_TOKEN": "tok-en"}
    done = lab.launch(source={"source": "git+https://ada:pass-word@git.example/repo#main"}, environment=path)
    assert done.code == 2
    noted = (lab.folder / "seen").read_text()
    assert "init" in noted
    assert "tok-en" not in noted + done.err
    assert "pass-word" not in noted + done.err


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("git+https://git.example/repo#--upload-pack=x", "--upload-pack=x is not the name of a branch, tag or commit"),
        ("git+https:///repo", "the source https:///repo must be git+https://host/path#ref"),
        ("git+ssh://git.example/repo", "the scheme git+ssh of the source is unknown; allowed: git+https, zip+https, "),
    ],
)
def test_git_address_is_refused_when_it_is_not_usable(tmp_path: Path, address: str, message: str) -> None:
    with pytest.raises(NotPrepared) as raised:
        prepare_source({"source": address}, work=tmp_path)
    assert str(raised.value).startswith(message)
