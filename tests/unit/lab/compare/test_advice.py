"""The table of `howto/choose-a-method.md` says of each method what a run of `lab compare` finds."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import pytest
from lab.compare.figures import (
    AFTER_MANY,
    AFTER_ONE,
    AT_ONCE,
    DAYS_LATER,
    ELSEWHERE,
    MINUTES_LATER,
    MOMENTS,
    Counted,
    MethodFigures,
    Partitioned,
    Repeat,
    Sold,
)
from lab.compare.options import CompareOptions
from lab.compare.session import compare
from support.prose import ROOT

from ledger.primitives.counters import METHODS

pytestmark = pytest.mark.slow

PAGE = (ROOT / "ledger/docs/howto/choose-a-method.md").read_text(encoding="utf-8")
OPTIONS = CompareOptions(engine="model", changes=60, writers=4, lost=0.3)
Meaning = TypeVar("Meaning")
COLUMNS = ("lost", "token", "threshold", "regions", "units")

LOST: Mapping[str, Callable[[Counted], bool]] = {
    "may count too often": lambda one: one.silent_error == one.error > 0,
    "may count too seldom": lambda one: one.error < 0 == one.silent_error,
    "exact": lambda one: one.silent_error == 0 < one.lost,
}
"""By how a cell begins: what the writers of one region find, where answers are lost."""
COUNTS_AGAIN: Mapping[str, set[str]] = {
    "counts again": set(MOMENTS),
    "known while the newest": {AFTER_ONE, AFTER_MANY},
    "known among the latest 12": {AFTER_MANY},
    "known for ten minutes": {MINUTES_LATER, DAYS_LATER, ELSEWHERE},
    "known as long as the marker lives": {DAYS_LATER},
    "known everywhere for 5 minutes, then refused": set(),
    "known as long as it holds its slots": set(),
}
"""The moments at which a token that comes again counts again."""
THRESHOLDS: Mapping[str, Callable[[Sold], bool]] = {
    "exact": lambda one: one.oversold == 0 < one.sold < one.buyers,
    "each shard its part": lambda one: one.oversold == 0 < one.sold < one.buyers,
    "none": lambda one: one.oversold > 0,
}
REGIONS: Mapping[str, Callable[[Partitioned], bool]] = {
    "loses updates": lambda one: one.lost > 0,
    "loses nothing": lambda one: one.lost == 0 and one.agree,
}


def advice() -> Mapping[str, Mapping[str, str]]:
    """Return the cells of the table, by method."""
    rows = re.findall(r"^\| `([\w-]+)`[^|]*\|(.*)\|$", PAGE, re.MULTILINE)
    cells = {name: [cell.strip(" *") for cell in row.split("|")] for name, row in rows}
    return {
        name: dict(zip(COLUMNS, row, strict=True))
        for name, row in cells.items()
        if name in METHODS and len(row) == len(COLUMNS)
    }


def wrong(said: Mapping[str, str], found: MethodFigures) -> list[str]:
    """Return the columns of which a run found something else."""
    moments = {moment for moment, one in found.repeats.items() if one.times > 1}
    held = {
        "lost": beginning(LOST, said["lost"])(found.counted),
        "token": beginning(COUNTS_AGAIN, said["token"]) == moments
        and ("refused" in said["token"]) == any(one.refused for one in found.repeats.values()),
        "threshold": beginning(THRESHOLDS, said["threshold"])(found.sold),
        "regions": beginning(REGIONS, said["regions"])(found.partitioned),
        "units": said["units"].startswith(units(found, said["units"])),
    }
    return [column for column in COLUMNS if not held[column]]


def beginning(meanings: Mapping[str, Meaning], cell: str) -> Meaning:
    """Return the meaning of a cell by the phrase that it begins with."""
    return next(meanings[phrase] for phrase in meanings if cell.startswith(phrase))


def units(found: MethodFigures, said: str) -> str:
    """Return the units of a lone change in the form that the page has them."""
    slots = "1 for each KB of tokens / 0"
    return slots if said == slots and found.alone.write_units == 1 else str(found.alone)


@pytest.fixture(scope="module")
def run() -> Mapping[str, MethodFigures]:
    """One run in virtual time, which replays exactly, without the curves of a hot counter."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lab.compare.session.WRITERS", (1,))
        patched.setattr("lab.compare.session.PER_SECOND", (5,))
        report = compare(OPTIONS, on_step=lambda _: None)
    return {one.method: one for one in report.figures}


def test_the_table_has_every_method() -> None:
    """A method that the page leaves out is advice to nobody."""
    assert set(advice()) == set(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_the_page_says_of_a_method_what_a_run_finds(
    run: Mapping[str, MethodFigures], method: str
) -> None:
    """After a lost answer, for a token again, at a threshold, in two regions, and in units."""
    assert wrong(advice()[method], run[method]) == []


def test_a_page_that_says_otherwise_is_found(run: Mapping[str, MethodFigures]) -> None:
    """Each column is compared: figures of another kind contradict it."""
    said, found = advice()["marker"], run["marker"]
    blind = run["atomic"]
    assert wrong(said, replace(found, counted=blind.counted)) == ["lost"]
    assert wrong(said, replace(found, repeats=blind.repeats)) == ["token"]
    refused = {**found.repeats, AT_ONCE: Repeat(1, refused=True)}
    assert wrong(said, replace(found, repeats=refused)) == ["token"]
    assert wrong(said, replace(found, sold=run["collection"].sold)) == ["threshold"]
    assert wrong(said, replace(found, partitioned=run["collection"].partitioned)) == ["regions"]
    assert wrong(said, replace(found, alone=blind.alone)) == ["units"]
