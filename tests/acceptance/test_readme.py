"""What the README shows is what happens: its commands and files are there."""

import re
from pathlib import Path

import pytest
from support.commands import run_command
from support.examples import examples
from support.reference import commands

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE_LINES_MAX = 12


def blocks(language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


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


def test_the_program_is_a_dozen_lines() -> None:
    """`test_examples.py` runs it; whoever reads it sees the whole of it at once."""
    (example,) = (one for one in examples() if one.page == "README.md")
    written = [line for line in example.code.splitlines() if line and "# ->" not in line]
    assert len(written) <= EXAMPLE_LINES_MAX


def test_each_command_of_the_readme_is_there() -> None:
    """Each is a row of the page of commands."""
    named = re.findall(r"(?:`|bin/)((?:ledger|compactor) [a-z-]+)", TEXT)
    assert {"ledger demo", "ledger serve"} <= set(named)
    rows = commands.page()
    assert [one for one in named if f"| `{one}" not in rows] == []


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
