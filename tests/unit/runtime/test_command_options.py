"""Options that are declared once: a dataclass and the command line that it makes."""

from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated

import typer
from typer.testing import CliRunner

from ledger.demo.harness.options import JsonFile, LabOptions, Seed
from ledger.runtime.command_options import spread_options


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeOptions(LabOptions):
    """Options of a run."""

    seed: Seed = 3
    size: Annotated[int, typer.Option(min=1, help="How many.")] = 5
    json_file: JsonFile = None


def invoke(*words: str) -> tuple[SomeOptions | None, int]:
    """Return the options that a command line gives, and its exit status."""
    given: list[SomeOptions] = []

    @spread_options
    def run(options: SomeOptions) -> None:
        """Run something."""
        given.append(options)

    app = typer.Typer()
    app.command()(run)
    result = CliRunner().invoke(app, list(words))
    return (given[0] if given else None), result.exit_code


def test_each_field_is_an_option_with_its_default() -> None:
    """Without words the defaults hold, those of the subclass before those of its base."""
    assert invoke() == (SomeOptions(), 0)
    assert SomeOptions().seed == 3


def test_options_are_parsed_by_their_annotations() -> None:
    """Names, bounds and other spellings come from the field."""
    words = ["--seed", "9", "--size", "2", "--json", "x.json", "--engine", "dynoxide"]
    options = SomeOptions(seed=9, size=2, json_file=Path("x.json"), engine="dynoxide")
    assert invoke(*words) == (options, 0)
    assert invoke("--size", "0") == (None, 2)


def test_the_help_is_that_of_the_function() -> None:
    """The docstring of the decorated function describes the command."""

    @spread_options
    def run(_options: SomeOptions) -> None:
        """Run something."""

    assert run.__doc__ == "Run something."


def test_dataclasses_stand_beside_each_other_and_beside_plain_parameters() -> None:
    """In the order of the parameters; a field without a default is required."""

    @dataclass(frozen=True)
    class Change:
        counter: Annotated[str, typer.Argument()]
        note: str = ""

    given: list[object] = []

    @spread_options
    def run(change: Change, *, amount: Annotated[int, typer.Argument()], some: SomeOptions) -> None:
        given.extend((change, amount, some))

    assert list(signature(run).parameters)[:4] == ["counter", "note", "amount", "engine"]
    app = typer.Typer()
    app.command()(run)
    assert CliRunner().invoke(app, ["a", "3", "--note", "n", "--size", "2"]).exit_code == 0
    assert given == [Change("a", "n"), 3, SomeOptions(size=2)]
    assert CliRunner().invoke(app, ["a"]).exit_code == 2
