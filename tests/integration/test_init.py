"""`ledger init`, from the repository and from a built wheel."""

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.commands import run_command, run_command_here
from support.runbooks import headings
from support.wheels import unpacked_wheel

from ledger.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
REGIONS = ("eu-west-1", "us-west-2")


def test_all_that_a_new_table_needs_is_written(tmp_path: Path) -> None:
    """Settings of these regions; templates and policies made for them; the rest is copied."""
    ran = run_command_here(
        "ledger", "init", *REGIONS, "--table", "money", "--json", folder=tmp_path
    )
    assert ran.status == 0, ran.errors
    names = [json.loads(line)["file"] for line in ran.out.splitlines()]
    assert sorted(names) == sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
    )
    settings = Settings.load(tmp_path / "regions.yaml")
    assert (settings.table, list(settings.regions), settings.home) == (
        "money", list(REGIONS), "eu-west-1",
    )  # fmt: skip
    assert "# settle: 22m" in (tmp_path / "regions.yaml").read_text(encoding="utf-8")
    template = (tmp_path / "deploy/cloudformation/table.yaml").read_text(encoding="utf-8")
    assert "TableName: money" in template
    assert "us-east-1" not in template
    policy = json.loads((tmp_path / "deploy/iam/writer.json").read_text(encoding="utf-8"))
    assert "table/money" in json.dumps(policy)
    for name in ("kubernetes/common.yaml", "prometheus/alerts.yaml", "runbooks/region-down.md"):
        written = (tmp_path / "deploy" / name).read_bytes()
        assert written == (ROOT / "deploy" / name).read_bytes()
    for name in ("container/Dockerfile", "prometheus/alerts_test.yaml", "constraints.txt"):
        assert (tmp_path / "deploy" / name).read_bytes() == (ROOT / "deploy" / name).read_bytes()


def test_every_link_in_what_is_written_leads_somewhere(tmp_path: Path) -> None:
    """Each relative link to a file or folder that is there too, and to a heading of it."""
    assert run_command_here("ledger", "init", *REGIONS, folder=tmp_path).status == 0
    links = 0
    for page in tmp_path.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", text):
            path, _, heading = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.exists(), f"{page.name}: {target}"
            assert not heading or heading in headings(file), f"{page.name}: {target}"
            links += 1
    assert links > 50


def test_on_a_full_disk_nothing_is_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is written before anything takes its place; the error is one line."""
    write, written = Path.write_text, 0

    def fails(path: Path, text: str, **options: Any) -> int:
        nonlocal written
        written += 1
        if written > 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", fails)
    ran = run_command_here("ledger", "init", *REGIONS, folder=tmp_path)
    assert ran.status == 1
    assert ran.errors.endswith("No space left on device; nothing was written\n")
    assert ran.errors.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path) -> None:
    """Before anything is written, with --force, too."""
    mine = tmp_path / "deploy"
    mine.write_text("mine", encoding="utf-8")
    for words in ((), ("--force",)):
        ran = run_command_here("ledger", "init", *REGIONS, *words, folder=tmp_path)
        assert ran.status == 1
        assert "deploy is a file, but must be a folder: move it away" in ran.errors
        assert list(tmp_path.iterdir()) == [mine]
    ran = run_command_here("ledger", "init", *REGIONS, "--folder", "deploy", folder=tmp_path)
    assert ran.status == 2
    assert "--folder deploy is a file, but must be a folder" in ran.errors


def test_what_is_there_already_stays_as_it_is(tmp_path: Path) -> None:
    """Nothing at all is written; with --force all of it is."""
    mine = tmp_path / "deploy" / "iam" / "reader.json"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine", encoding="utf-8")
    ran = run_command_here("ledger", "init", *REGIONS, folder=tmp_path)
    assert ran.status == 1
    assert "reader.json already exists: --force replaces it" in ran.errors
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    assert run_command_here("ledger", "init", *REGIONS, "--force", folder=tmp_path).status == 0
    assert mine.read_text(encoding="utf-8") != "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eu-west-1", "eu-west-1"), "given twice: eu-west-1"),
        (("eu-west-1", "us-east-1", "--account", "12"), "--account must be 12 digits, got '12'"),
        (("eu-west-1", "--folder", "none"), "--folder none is not a folder"),
        (("EU WEST",), "EU WEST"),
        (("eu-west-1,us-east-1",), "name two or more, with spaces between"),
        ((), "REGION"),
    ],
)
def test_a_wrong_command_line_writes_nothing(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """In one line that names the value."""
    ran = run_command_here("ledger", "init", *words, folder=tmp_path)
    assert ran.status == 2
    assert said in ran.errors
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_built_wheel_has_the_files(tmp_path: Path) -> None:
    """What is installed writes what the repository would; without its files it says so."""
    package = unpacked_wheel(tmp_path)
    wanted, made = (tmp_path / name for name in ("wanted", "made"))
    for folder, path in ((wanted, ROOT), (made, package)):
        folder.mkdir()
        ran = run_command(
            "ledger", "init", *REGIONS, folder=folder, variables={"PYTHONPATH": str(path)}
        )
        assert ran.status == 0, ran.errors
    found = {path.relative_to(made): path.read_bytes() for path in made.rglob("*.*")}
    assert found == {path.relative_to(wanted): path.read_bytes() for path in wanted.rglob("*.*")}
    assert yaml.safe_load(found[Path("regions.yaml")])["table"] == "ledger"
    (package / "ledger" / "files" / "regions.yaml").unlink()
    ran = run_command(
        "ledger", "init", *REGIONS, "--force",
        folder=made, variables={"PYTHONPATH": str(package)},
    )  # fmt: skip
    assert ran.status == 1
    assert "neither in the package nor beside it" in ran.errors
