"""The pages of the reference are those that the code makes now."""

import re
from inspect import isclass, signature
from pathlib import Path

import pytest
from support.prose import GENERATED, limits_of
from support.reference.errors import public_errors
from support.reference.metrics import KINDS
from support.reference.pages import PAGES, path_of, text_of
from support.reference.settings import (
    SettingsGroup,
    comments,
    docstrings,
    settings_groups,
    text_about,
)

import ledger
from ledger import Ledger, LedgerError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    """`python -m support.reference` writes all pages anew."""
    assert path_of(name).read_text(encoding="utf-8") == text_of(name)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_limits_of_those_that_are_made(name: str) -> None:
    """Its words are counted where they are written."""
    assert limits_of(path_of(name).relative_to(ROOT).as_posix()) is GENERATED


def test_the_page_of_metrics_has_every_kind() -> None:
    """Each class of metrics is a section."""
    files = (file for room in ("ledger", "compactor") for file in (ROOT / room).rglob("*.py"))
    texts = (file.read_text(encoding="utf-8") for file in files)
    found = [name for text in texts for name in re.findall(r"class (\w+)\(RegistryMetrics", text)]
    assert sorted(found) == sorted(kind.__name__ for kind in KINDS.values())


def test_the_page_of_errors_has_every_public_error() -> None:
    """Each is a name of `ledger`, and no name is missing."""
    public = (getattr(ledger, name) for name in ledger.__all__)
    found = {one for one in public if isclass(one) and issubclass(one, LedgerError)}
    assert set(public_errors()) == found


def test_the_page_of_calls_has_every_call() -> None:
    """Each public method of a ledger, with keywords that it takes; `timeout` is said of all."""
    page = (ROOT / "ledger/docs/reference/calls.md").read_text(encoding="utf-8")
    rows = "\n".join(re.findall(r"^\|(.*?)\|", page, re.MULTILINE))
    shown = re.findall(r"`(\w+)\(([^`]*)\)`", rows)
    opened = {"open", "close", "store"}
    calls = {name for name in dir(Ledger) if not name.startswith("_")} - opened
    assert {name for name, _ in shown} == calls
    for name, given in shown:
        taken = signature(getattr(Ledger, name)).parameters
        assert {*re.findall(r"(\w+)=", given)} <= taken.keys(), name
        assert ("timeout" in taken) == (name != "watch"), name


@pytest.mark.parametrize("group", settings_groups(), ids=lambda group: group.path)
def test_every_setting_is_explained(group: SettingsGroup) -> None:
    """By a comment of `regions.yaml`, or where that has none by a docstring."""
    assert [name for name in group.names() if not text_about(group, name)] == []


@pytest.mark.parametrize("group", settings_groups(), ids=lambda group: group.path)
def test_no_setting_is_explained_twice(group: SettingsGroup) -> None:
    """A second text would go out of date."""
    assert comments()[group.path].keys() & docstrings(group.kind).keys() == set()
