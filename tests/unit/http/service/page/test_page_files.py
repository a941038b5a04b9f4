"""The page's files: how they are served, and what they may not contain."""

import re
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ledger.http.service.answers import CallRefused, on_refused
from ledger.http.service.page.static_files import FILES, POLICY, TYPES, is_page, router

SCRIPTS = {name: file.content.decode() for name, file in FILES.items() if name.endswith(".js")}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """The page's routes alone."""
    app = FastAPI()
    app.include_router(router)
    app.add_exception_handler(CallRefused, on_refused)
    with TestClient(app) as asked:
        yield asked


def test_every_file_is_served_with_its_type_under_the_policy(client: TestClient) -> None:
    """No browser guesses a type, frames the page, or tells other sites of it."""
    for name, file in FILES.items():
        answer = client.get("/" if name == "index.html" else f"/page/{name}")
        assert answer.status_code == 200
        assert answer.content == file.content
        headers = answer.headers
        assert headers["content-type"] == TYPES[f".{name.rpartition('.')[2]}"]
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"


def test_the_policy_lets_in_nothing_inline_and_nothing_from_elsewhere() -> None:
    """Scripts and styles are files of the service, and text never becomes code."""
    assert POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    for part in ("frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"):
        assert part in POLICY


def test_a_browser_that_has_a_file_is_told_so(client: TestClient) -> None:
    """304 while the content is the same, by any of several tags, weak ones among them."""
    tag = client.get("/", headers={"Accept-Encoding": "identity"}).headers["etag"]
    for known in (tag, f'"other", {tag}', f"W/{tag}"):
        answer = client.get("/", headers={"If-None-Match": known})
        assert answer.status_code == 304
        assert answer.content == b""
        assert answer.headers["content-security-policy"] == POLICY
    assert client.get("/", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/page/other.js", "/page/index.html", "/page/..%2fserving.py", "/page/serving.py"]
)
def test_other_files_are_not_served(client: TestClient, path: str) -> None:
    """What was read at the start is all there is: no path leads to a folder."""
    assert client.get(path).status_code == 404


def test_only_the_page_is_public() -> None:
    """No path of the API is taken for one of the page's."""
    assert is_page("/")
    assert is_page("/page/main.js")
    for path in ("/v1/counters", "/pages", "/metrics", "//", "/pageant/x", ""):
        assert not is_page(path)


def test_all_that_a_file_names_is_there() -> None:
    """Every script, style sheet and import of the page is one of its files."""
    html = FILES["index.html"].content.decode()
    named = set(re.findall(r'(?:src|href)="(/page/[^"]+)"', html))
    assert named
    for script in SCRIPTS.values():
        named |= {f"/page/{name}" for name in re.findall(r'from "\./([^"]+)"', script)}
    assert {name.removeprefix("/page/") for name in named} | {"index.html"} == set(FILES)


def test_no_script_makes_markup_or_code_of_text() -> None:
    """Elements are made one by one, and text becomes text."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
        r"|setAttribute\(\"(?:on|style)|DOMParser|createContextualFragment|localStorage|\.cookie"
    )
    for name, script in SCRIPTS.items():
        assert not forbidden.search(script), name
    html = FILES["index.html"].content.decode()
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", html)


def test_nothing_is_loaded_from_elsewhere() -> None:
    """No file names another host; SVG's namespace is a name, not a place."""
    for name, file in FILES.items():
        text = file.content.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|url\(|@import", text), name
