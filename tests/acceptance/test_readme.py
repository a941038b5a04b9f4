"""What the README shows is what happens: its example runs, its commands and files are there."""

import re
from pathlib import Path

import pytest
from support.commands import run_command
from support.examples import examples
from typer.testing import CliRunner

import compactor.cli
import ledger.commands.main

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE_LINES_MAX = 30


def blocks(language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, ...]]:
    """Return each command that the table of commands names, with its sub-command."""
    _, _, after = TEXT.partition("\n## Commands\n")
    table, _, _ = after.partition("\n## ")
    found: dict[tuple[str, ...], None] = {}
    for row in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE):
        stem: tuple[str, ...] = ()
        for text in re.findall(r"`([^`]+)`", row):
            words = tuple(word for word in text.split() if re.fullmatch(r"[a-z][a-z-]*", word))
            if text.startswith("--"):
                continue
            if words[0] in {"ledger", "compactor"}:
                stem, full = words[:-1], words
            else:
                full = (*stem, words[0])
            found[full] = None
    return list(found)


def test_the_quick_start_is_two_commands() -> None:
    """One block of one line runs the demo and one runs the tests, in an environment of its own."""
    demo, tests = blocks("sh")
    assert demo.strip().endswith("ledger demo")
    assert tests.strip().endswith("pytest")
    for block in (demo, tests):
        assert len(block.strip().splitlines()) == 1
        assert "pip install" in block


def test_the_extras_of_the_quick_start_exist() -> None:
    """What the two commands install is defined in pyproject.toml."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r"'\.\[(\w+)\]'", "".join(blocks("sh")))
    assert extras
    assert all(re.search(rf"^{extra} = \[", project, flags=re.MULTILINE) for extra in extras)


@pytest.mark.slow
def test_the_example_runs_as_it_stands(tmp_path: Path) -> None:
    """The example, copied into a file, merges and prints the total that its comment promises."""
    (example,) = (one for one in examples() if one.page == "README.md")
    assert len(example.code.strip().splitlines()) <= EXAMPLE_LINES_MAX
    report, total = example.run(tmp_path)
    assert re.search(r"merged=[1-9]", report)
    assert re.search(r"value=Decimal\('2\.50?'\)", total)


def test_the_table_of_commands_is_read() -> None:
    """The parser of this test finds the commands, so that the next test is about something."""
    assert {("ledger", "record"), ("ledger", "total"), ("ledger", "demo")} <= set(commands())
    assert {("ledger", "local", "heal"), ("compactor", "move-home")} <= set(commands())


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_each_command_is_there(words: tuple[str, ...]) -> None:
    """Each command that the README names has a help page."""
    app = {"ledger": ledger.commands.main.app, "compactor": compactor.cli.app}[words[0]]
    shown = CliRunner().invoke(app, [*words[1:], "--help"])
    assert shown.exit_code == 0, shown.output
    assert "Usage:" in shown.output


@pytest.mark.parametrize("command", ["ledger", "compactor"])
def test_the_programs_run_as_modules(command: str, tmp_path: Path) -> None:
    """`python -m` gives the same help as the installed command."""
    ran = run_command(command, "--help", folder=tmp_path)
    assert (ran.status, ran.errors) == (0, "")
    assert "Usage:" in ran.out


def test_every_file_that_is_linked_exists() -> None:
    """No link of the README leads to a file that is not there."""
    links = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]
    assert links
    missing = [link for link in links if not (ROOT / link.partition("#")[0]).exists()]
    assert missing == []
