"""`/`: what somebody sees who opens the server's address."""

import re
from html.parser import HTMLParser
from pathlib import Path

import httpx2

from runyard import __version__
from runyard.api.routes.start_page import DOCS
from tests.http_servers import serve

ROOT = Path(__file__).parents[3]
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


class Links(HTMLParser):
    """What a page refers to, and what it would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.followed: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.followed += [value or "" for name, value in attributes if name == "href" and tag == "a"]
        self.loaded += [tag for name, _ in attributes if name in ("src", "style") or name.startswith("on")]
        self.loaded += [tag] if tag in ("script", "style", "link", "iframe", "form", "base") else []


async def test_page_names_version_and_places_that_exist_when_a_browser_opens_the_address(tmp_path: Path) -> None:
    async with serve(tmp_path, is_open=False) as server, server.client() as stranger:
        for headers in (BROWSER, {"Accept": "*/*"}, {"Accept": ""}):
            answer = await stranger.get("/", headers=headers)
            assert answer.status_code == 200
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none';")
            assert answer.headers["Vary"] == "Accept"
            assert f"<h1>Runyard {__version__}</h1>" in answer.text
        page = Links()
        page.feed(answer.text)
        assert page.loaded == []
        assert "/openapi.json" in page.followed
        assert "/healthz" in page.followed
        for path in page.followed:
            assert path.startswith("/")
            assert (await stranger.get(path)).status_code == 200, path
        head = await stranger.head("/", headers=BROWSER)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["Content-Length"] == str(len(answer.content))
    assert re.findall(r"docs/[a-z/-]+\.md", answer.text) == list(DOCS)


def test_documentation_exists_when_the_page_names_it() -> None:
    assert [file for file in DOCS if not (ROOT / file).is_file()] == []


async def test_answer_is_json_when_a_client_accepts_only_that(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/", headers={"Accept": "application/json"})
    assert answer.headers["Content-Type"].startswith("application/json")
    assert (answer.json()["name"], answer.json()["version"]) == ("runyard", __version__)
    assert answer.json()["links"]["openapi"] == "/openapi.json"


async def test_other_paths_are_missing_when_only_the_start_is_a_page(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/index.html")).status_code == 404
    assert (await client.post("/", json={})).status_code == 405
