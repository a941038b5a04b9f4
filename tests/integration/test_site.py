"""The site of the documentation: built strictly, whole, near, and without anything from elsewhere.

The strict build fails on a link or an anchor that is not there.
"""

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest
from support.prose import ROOT, pages
from support.shared_builds import built_once

pytestmark = [pytest.mark.slow, pytest.mark.tools("sphinx")]
PUBLIC = ("ledger", "ledger.http.client", "ledger.testing", "compactor")
CLICKS_MAX = 2


class Addresses(HTMLParser):
    """The addresses of a page: of its links, and of all that a browser loads of its own accord."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: set[str] = set()
        self.linked: set[str] = set()
        """From the text of the page: those of the navigation are on every page."""
        self._in_text = False
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses of an element."""
        self._in_text = self._in_text or tag == "article"
        for name, value in attrs:
            if name == "href" and tag == "a" and self._in_text:
                self.linked.add(value or "")
            elif name in {"src", "srcset", "poster", "data"} or (name == "href" and tag == "link"):
                self.loaded.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        """Note where the text ends."""
        self._in_text = self._in_text and tag != "article"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with each warning an error."""
    return built_once(tmp_path_factory, "site", build) / "site"


def build(folder: Path) -> None:
    """Build the site in a folder."""
    words = ["-W", "--keep-going", "-q", "-c", "deploy/site", "-d", str(folder / "read")]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, ".", str(folder / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr


def test_every_page_is_in_it(site: Path) -> None:
    """Each Markdown page of the repository; what hosts open first leads to the front page."""
    assert [page for page in pages() if not (site / page).with_suffix(".html").exists()] == []
    assert "url=README.html" in (site / "index.html").read_text(encoding="utf-8")


def test_every_page_is_near_the_front_page(site: Path) -> None:
    """By the links of the text alone: whoever browses the repository has no navigation."""
    near = reached = {site / "README.html"}
    for _ in range(CLICKS_MAX):
        near = {target for page in near for target in targets(page)} - reached
        reached = reached | near
    assert [page for page in pages() if (site / page).with_suffix(".html") not in reached] == []


def targets(page: Path) -> set[Path]:
    """Return the pages of the site that the text of a page links to."""
    files = (address.partition("#")[0] for address in Addresses(page).linked)
    found = {(page.parent / file).resolve() for file in files if "//" not in file}
    return {path for path in found if path.suffix == ".html"}


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(site: Path, module: str) -> None:
    """Each has an entry with an anchor of its own."""
    reference = [page.read_text("utf-8") for page in (site / "deploy/site/modules").iterdir()]
    found = {name for page in reference for name in re.findall(r'<dt [^>]*id="([\w.]+)"', page)}
    assert {f"{module}.{name}" for name in import_module(module).__all__} <= found


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    """No page, style or import names an address with a host, so that it reads without a network."""
    loaded = {address for page in site.rglob("*.html") for address in Addresses(page).loaded}
    for sheet in site.rglob("*.css"):
        loaded |= set(re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", sheet.read_text("utf-8")))
    assert {"_static/styles/furo.css"} <= {one.partition("?")[0] for one in loaded}
    assert [one for one in loaded if re.match(r"(https?:)?//", one)] == []
