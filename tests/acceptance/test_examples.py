"""Every example of every page runs as it is written, from its first line, on a table here."""

import re
from pathlib import Path

import pytest
from support.commands import Desk
from support.examples import ROOT, Example, examples, pages


@pytest.mark.parametrize("example", examples(), ids=str)
@pytest.mark.slow
def test_the_example_runs_as_it_stands(
    example: Example, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block, saved as a script beside a regions.yaml, prints the lines that it promises."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "regions.yaml").write_bytes((desk.folder / "regions.yaml").read_bytes())
    printed = example.run(tmp_path)
    assert printed == example.promised


def test_the_pages_are_found() -> None:
    """The collector finds the pages and their blocks, so that the test above is about something."""
    names = {example.page for example in examples()}
    assert {"README.md", "ledger/docs/howto/keep-stock-from-overselling.md"} <= names
    assert {f"ledger/docs/start/{name}.md" for name in ("counter", "budget", "pipeline")} <= names
    assert sum(name.startswith("ledger/docs/howto/") for name in names) > 20
    assert len(examples()) == sum(page.read_text("utf-8").count("```python") for page in pages())
    silent = [str(one) for one in examples() if not one.promised]
    assert silent == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    """Links and paths of a page lead to files that exist."""
    text = page.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    paths = re.findall(r"`((?:tests|ledger|compactor|deploy)/[\w./-]+)`", text)
    missing += [path for path in paths if not (ROOT / path).exists()]
    assert missing == []
