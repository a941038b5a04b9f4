"""Runbooks: each is run by a scenario, each command in them exists, and each alert has one."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from support import runbooks as runbooks_module
from support.runbook_runs import Scenario
from support.runbook_scenarios import SCENARIOS
from support.runbooks import (
    FOLDER,
    INDEX,
    PLACEHOLDER,
    PROGRAMS,
    SECTIONS,
    Block,
    Event,
    Expected,
    Runbook,
    filled,
    headings,
    is_printed,
    names,
    read,
)
from typer.core import TyperGroup

import compactor.cli
import ledger.commands.main
from ledger.runtime.lazy_commands import PlaceholderCommand

DEPLOY = FOLDER.parent
APPS = {
    "ledger": typer.main.get_command(ledger.commands.main.app),
    "compactor": typer.main.get_command(compactor.cli.app),
}
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
OUR_ALARM = re.compile(r"Runbook: deploy/runbooks/([\w-]+)\.md$")
NAMED = re.compile(r"`([A-Z][A-Z0-9_]+)`")


def runbooks() -> list[Runbook]:
    """Return every runbook."""
    return [read(name) for name in names()]


class WrongLineError(Exception):
    """A command line that the program would refuse as one."""


def found(line: str) -> tuple[Any, list[str]]:
    """Return the command that a line names, and the words after it.

    Raises:
        WrongLineError: there is no such command.
    """
    program, *words = shlex.split(line)
    command: Any = APPS[program]
    while True:
        if isinstance(command, PlaceholderCommand):
            command = command.load()
        if not isinstance(command, TyperGroup):
            return command, words
        name, *words = words or [""]
        if name not in command.commands:
            raise WrongLineError(f"{line}: there is no {name!r}")
        command = command.commands[name]


def parse(line: str) -> None:
    """Parse a whole command line, and run nothing.

    Raises:
        WrongLineError: a word of it is no option, or an argument is missing or too much.
    """
    command, words = found(line)
    try:
        command.make_context(command.name, words).close()
    except USAGE_ERROR as error:
        raise WrongLineError(f"{line}: {error}") from None


def lines(runbook: Runbook) -> Iterator[str]:
    """Yield each command of ours that a runbook has in its blocks."""
    for block in runbook.blocks:
        if not block.is_foreign:
            yield from block.lines


def of_scenario(scenario: Scenario) -> list[Any]:
    """Return what a scenario runs of its runbook."""
    return [
        part
        for section in read(scenario.runbook).sections
        if section.title not in scenario.skipped
        for part in section.parts
    ]


def test_every_runbook_is_run_and_every_scenario_has_one() -> None:
    """A page whose commands no test runs is refused, and so is a scenario of no page."""
    assert len(names()) >= 12
    assert {scenario.runbook for scenario in SCENARIOS} == {*names()}
    assert len({scenario.title for scenario in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.parametrize("runbook", runbooks(), ids=lambda one: one.name)
def test_every_section_is_run_by_a_scenario(runbook: Runbook) -> None:
    """What one scenario leaves out another one runs."""
    run = {
        section.title
        for scenario in SCENARIOS
        if scenario.runbook == runbook.name
        for section in runbook.sections
        if section.title not in scenario.skipped
    }
    assert run == {section.title for section in runbook.sections}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.title)
def test_a_scenario_replaces_what_its_page_has(scenario: Scenario) -> None:
    """Each command of AWS and each place marked `then:` of the page, and no other."""
    parts = of_scenario(scenario)
    foreign = {
        line for part in parts if isinstance(part, Block) and part.is_foreign for line in part.lines
    }
    assert {*scenario.foreign} == foreign
    events = {part.text for part in parts if isinstance(part, Event)}
    assert events <= {*scenario.events}
    everywhere = {
        part.text
        for section in read(scenario.runbook).sections
        for part in section.parts
        if isinstance(part, Event)
    }
    assert {*scenario.events} <= everywhere
    titles = {section.title for section in read(scenario.runbook).sections}
    assert scenario.skipped <= titles


@pytest.mark.parametrize("runbook", runbooks(), ids=lambda one: one.name)
def test_a_page_has_its_sections_in_order(runbook: Runbook) -> None:
    """What is seen, what it means, what to do, when it is done; at the end there is a check."""
    titles = [section.title for section in runbook.sections]
    assert [title for title in titles if title in SECTIONS] == list(SECTIONS)
    assert any(isinstance(part, Block) for part in runbook.sections[-1].parts)
    assert titles[-1] == SECTIONS[-1]


@pytest.mark.parametrize("runbook", runbooks(), ids=lambda one: one.name)
def test_every_command_of_a_page_exists(runbook: Runbook) -> None:
    """Each line of its blocks is parsed whole; of those in its text, command and options."""
    for line in lines(runbook):
        assert line.split()[0] in PROGRAMS, line
        parse(line)
    for line in runbook.inline:
        command, words = found(line)
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize(
    "line",
    [
        "ledger totals a",
        "ledger total",
        "ledger total a --everywhere --nothing",
        "ledger table adopt now",
        "compactor take-home eu-west-1",
    ],
)
def test_a_command_line_that_is_wrong_is_found(line: str) -> None:
    """The check of the pages sees unknown commands and options, and arguments that are missing."""
    with pytest.raises(WrongLineError):
        parse(line)


@pytest.mark.parametrize("runbook", runbooks(), ids=lambda one: one.name)
def test_placeholders_are_explained(runbook: Runbook) -> None:
    """Each word in capitals of a command that is run is named before the first section."""
    used = {
        word
        for block in runbook.blocks
        for line in block.lines
        for word in PLACEHOLDER.findall(line)
    }
    intro, _, _ = runbook.text.partition("\n## ")
    assert used <= {*NAMED.findall(intro)}


PAGE = """# A page

`HOME` is a region.

## Do

1. Look:

   ```sh status=1
   ledger total a \\
     --everywhere
   ```

   ```text
   total ... HOME
   ```

<!-- then: it answers -->

```sh aws
aws dynamodb wait table-exists --region HOME  # a while
```

```sh background
compactor run --every 60s
```
"""


def test_a_page_is_read_as_it_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, what they print and what happens between them, in their order."""
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(runbooks_module, "FOLDER", tmp_path)
    _, do = read("page").sections
    assert do.parts == (
        Block(("ledger total a --everywhere",), status=1),
        Expected(("total ... HOME",)),
        Event("it answers"),
        Block(("aws dynamodb wait table-exists --region HOME",), is_foreign=True),
        Block(("compactor run --every 60s",), is_background=True),
    )


@pytest.mark.parametrize("info", ["sh status=one", "sh statsu=1", "sh Aws"])
def test_a_mark_of_a_block_that_means_nothing_is_refused(
    info: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt mark would let a block be run otherwise than it says."""
    (tmp_path / "page.md").write_text(PAGE.replace("sh aws", info), encoding="utf-8")
    monkeypatch.setattr(runbooks_module, "FOLDER", tmp_path)
    with pytest.raises((AssertionError, ValueError)):
        read("page")


def test_what_a_page_quotes_is_looked_for_in_what_was_printed() -> None:
    """However a terminal folds it; `...` stands for anything, in order."""
    output = "table ledger\n  region     state\n eu-west-1   ACTIVE\n"
    assert is_printed("eu-west-1 ACTIVE", output)
    assert is_printed("table ... ACTIVE", output)
    assert not is_printed("ACTIVE ... table", output)
    assert not is_printed("us-east-1 ACTIVE", output)
    with pytest.raises(AssertionError, match="nothing is given for HOME"):
        filled("ledger total a --region HOME", {"AWAY": "eu-west-1"})


def test_the_index_names_every_page() -> None:
    """Each once."""
    index = (FOLDER / INDEX).read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\(([\w-]+)\.md\)", index)) == names()


def test_links_between_pages_lead_somewhere() -> None:
    """Each file that a page names is there, and each heading in it."""
    for page in FOLDER.glob("*.md"):
        for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text(encoding="utf-8")):
            path, _, heading = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.is_file(), f"{page.name}: {target}"
            if heading:
                assert heading in headings(file), f"{page.name}: {target}"


def test_every_alert_names_a_runbook_that_names_it() -> None:
    """Whoever follows `runbook_url` finds the alert's name under "You see"."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 20
    for rule in rules:
        url = rule["annotations"]["runbook_url"]
        page = DEPLOY.parent / url
        assert page.is_file(), rule["alert"]
        seen = page.read_text(encoding="utf-8").split("\n## ")[1]
        assert seen.startswith(SECTIONS[0])
        assert f"`{rule['alert']}`" in seen, f"{url} does not name {rule['alert']}"


def test_every_alarm_that_notifies_names_a_runbook_that_names_it() -> None:
    """In CloudFormation, too; the pairs of regions by the end of their names."""
    notifying = 0
    for template in (DEPLOY / "cloudformation").glob("*.yaml"):
        loaded = yaml.load(template.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506
        for name, resource in loaded["Resources"].items():
            properties = resource.get("Properties", {})
            if "AlarmActions" not in properties:
                continue
            notifying += 1
            said = OUR_ALARM.search(properties["AlarmDescription"])
            assert said, f"{template.name}: {name}"
            text = (FOLDER / f"{said[1]}.md").read_text(encoding="utf-8").split("\n## ")[1]
            short = re.sub(r"^[A-Z]\w+To[A-Z]\w+[0-9](?=[A-Z])", "...", name)
            assert f"`{short}`" in text, f"{said[1]} does not name {short}"
    assert notifying >= 20


class _Loader(yaml.SafeLoader):
    """Reads a template whose functions are of no interest here."""


_Loader.add_multi_constructor("!", lambda _loader, _suffix, _node: None)
