"""The table of commands: lists them as they describe themselves, and imports them when used."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
import typer
from lab.__main__ import COMMANDS as LAB_COMMANDS
from lab.__main__ import app as lab_app
from typer.testing import CliRunner

import compactor.cli
from ledger.commands.main import COMMANDS, app
from ledger.runtime.command_line import first_paragraph
from ledger.runtime.lazy_commands import LazyCommand, PlaceholderCommand

OWN_MODULES_MAX = 16
OPTIONS_MAX = 13
COLUMNS = 80
NEVER_FOR_HELP = {
    "aiobotocore",
    "aiohttp",
    "asyncio",
    "boto3",
    "botocore",
    "compactor",
    "ledger.demo",
    "lab",
    "proof",
    "ledger.session.ledger",
    "ledger.local",
    "ledger.pipeline",
    "ledger.settings",
    "ledger.store",
    "moto",
    "multiprocessing",
    "orjson",
    "prometheus_client",
    "pydantic",
    "rich",
    "yaml",
}
SDKS_AND_ENGINES = {
    "aiobotocore",
    "aiohttp",
    "boto3",
    "botocore.client",
    "botocore.session",
    "moto",
    "multiprocessing",
}
LOADED_BY = """
import json, sys
from {module} import app
try:
    app({arguments})
finally:
    sys.stdout = sys.stderr
    sys.__stdout__.write("\\0" + json.dumps(sorted(sys.modules)))
"""


def loaded_by(module: str, *arguments: str) -> set[str]:
    """Return the modules that a command has loaded when it ends."""
    script = LOADED_BY.format(module=module, arguments=list(arguments))
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    return set(json.loads(said.partition("\0")[2]))


def test_help_loads_neither_settings_nor_sdk_nor_laboratory() -> None:
    """`ledger --help` needs the table of commands, and little else."""
    loaded = loaded_by("ledger.commands.main", "--help")
    assert loaded & NEVER_FOR_HELP == set()
    own = {name for name in loaded if name.partition(".")[0] == "ledger"}
    assert len(own) <= OWN_MODULES_MAX, sorted(own)


@pytest.mark.parametrize(
    "command",
    [
        "import",  # which needs most
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("record", "total", "history", "table", "deploy")
        ),
    ],
)
def test_help_of_a_command_loads_no_sdk(command: str) -> None:
    """The help page of an everyday command loads neither the SDKs nor the local engine."""
    assert loaded_by("ledger.commands.main", command, "--help") & SDKS_AND_ENGINES == set()


def test_help_of_the_compactor_loads_no_sdk() -> None:
    """The compactor's help page loads neither the SDKs nor the local engine."""
    assert loaded_by("compactor.cli", "--help") & SDKS_AND_ENGINES == set()


@pytest.mark.parametrize("command", [*COMMANDS, *LAB_COMMANDS], ids=lambda command: command.module)
def test_a_command_is_listed_as_it_describes_itself(command: LazyCommand) -> None:
    """The table repeats the first paragraph of the command's own help."""
    assert first_paragraph(command.load().help) == command.about


def test_a_mistyped_command_is_corrected() -> None:
    """The names of commands that are not loaded are suggested."""
    assert "Did you mean 'record'?" in CliRunner().invoke(app, ["recrod"]).output


def words_of(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    """Return the words that call a command and each one below it."""
    if isinstance(command, PlaceholderCommand):
        command = command.load()
    yield words
    for name, member in getattr(command, "commands", {}).items():
        yield from words_of(member, *words, name)


@cache
def pages() -> Mapping[tuple[str, ...], str]:
    """Return the help page of every command of every program by the words that call it."""
    found = {}
    for program in (app, compactor.cli.app, lab_app):
        for words in words_of(typer.main.get_command(program)):
            shown = CliRunner().invoke(program, [*words, "--help"], env={"COLUMNS": str(COLUMNS)})
            assert shown.exit_code == 0, words
            found[str(program.info.name), *words] = shown.output
    return found


def unfit(page: str) -> list[str]:
    """Return the lines of a help page that are too wide or cut, and its options if too many."""
    lines = page.splitlines()
    found = [line for line in lines if len(line) > COLUMNS or re.search(r"\w\.\.\.$", line)]
    _, _, options = page.partition("\nOptions:\n")
    own = re.findall(r"^  -(?!h, --help|-json).*", options, flags=re.MULTILINE)
    return found + (own if len(own) > OPTIONS_MAX else [])


def test_a_help_page_fits_a_terminal() -> None:
    """No line is wider than the terminal, no text is cut, and there are at most 13 options.

    Beside --help and --json, which nearly every command has.
    """
    assert len(pages()) > 90
    assert {words: lines for words, page in pages().items() if (lines := unfit(page))} == {}


WITHOUT_JSON = {
    "export": "its output is JSON Lines, CSV or Parquet",
    "template": "it writes YAML for CloudFormation",
    "policy": "it writes JSON",
    "serve": "it serves until SIGTERM",
    "webhook run": "it delivers until SIGTERM",
    "lease run": "its output is that of the command which it runs",
}


def test_every_command_speaks_json() -> None:
    """Each command has --json, but those whose output has a form of its own."""
    for (_, *words), page in pages().items():
        is_group = "\nCommands:\n" in page
        is_other = words and (words[-1] in WITHOUT_JSON or " ".join(words) in WITHOUT_JSON)
        assert ("--json" in page) == (not is_group and not is_other), words
