"""Commands that show, export and reverse entries, over a table whose changes share items."""

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.commands import Ran, run_command_here
from support.serving import HOME
from support.shared_items import KEY, put_shared

from ledger.core import amounts, ids
from ledger.core.entry import entry_item
from ledger.core.values import Entry
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.writes import Put
from ledger.testing import MemoryGlobalTable

PARTS = "5 -1 8"


@dataclass
class Desk:
    """A table in memory that the commands open, and the changes that share an item there."""

    world: MemoryGlobalTable
    folder: Path
    made: list[Entry]

    def run(self, *arguments: str) -> Ran:
        """Run `ledger` with these arguments."""
        return run_command_here("ledger", *arguments, folder=self.folder)

    def json(self, *arguments: str) -> list[Any]:
        """Return what it prints with --json."""
        ran = self.run(*arguments, "--json")
        assert ran.status == 0, ran
        return [json.loads(line) for line in ran.out.splitlines()]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Id and amount of each change."""
        return list(zip((entry.id for entry in self.made), PARTS.split(" "), strict=True))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """An item of three changes of one counter."""
    world = MemoryGlobalTable([HOME])
    (tmp_path / "regions.yaml").write_text(f"regions: {{{HOME}: {{}}}}\n", encoding="utf-8")

    def opened(settings: Settings, *, region: str, **_: object) -> Ledger:
        del settings
        return world.ledger(region)

    monkeypatch.setattr(Ledger, "open", opened)
    made = anyio.run(put_shared, world.store(), "stock", PARTS, world.clock.now())
    return Desk(world, tmp_path, made)


def test_the_history_has_a_row_for_each_change(desk: Desk) -> None:
    """Between any two of them it may be cut, and goes on there."""
    rows = desk.json("history", "stock")
    assert [(row["id"], row["change"]) for row in rows] == desk.rows
    assert all((row["count"], "parts" in row) == (1, False) for row in rows)
    assert "combined of" not in desk.run("history", "stock").out
    cut = desk.run("history", "stock", "--limit", "2").out
    after = desk.made[1].id
    assert f"continue with --after '{after}'" in " ".join(cut.split())
    assert [row["change"] for row in desk.json("history", "stock", "--after", after)] == ["8"]
    assert [row["change"] for row in desk.json("history", "stock", "--before", after)] == ["5"]


def test_a_key_finds_all_changes_of_its_item(desk: Desk) -> None:
    """A writer that sends a list under one key puts one item."""
    suffix = ids.suffix_of("stock", "batch-17")
    whole = Entry(
        "stock",
        ids.sort_key(desk.world.clock.now(), suffix),
        amounts.total(entry.change for entry in desk.made),
        HOME,
        count=3,
        parts=PARTS,
    )
    anyio.run(desk.world.store().write, Put(entry_item(whole)))
    found = desk.json("history", "stock", "--key", "batch-17")
    assert [row["id"] for row in found] == [ids.part_id(whole.id, place) for place in range(3)]
    assert desk.json("history", "stock", "--key", KEY) == []


def test_an_item_that_names_no_changes_is_one_row(desk: Desk) -> None:
    """With how many it stands for, as earlier releases put it."""
    whole = Entry("old", ids.split(desk.made[0].id)[0], desk.made[0].change, HOME, count=3)
    anyio.run(desk.world.store().write, Put(entry_item(whole)))
    assert [(row["id"], row["count"]) for row in desk.json("history", "old")] == [(whole.id, 3)]
    assert "combined of" in desk.run("history", "old").out


def test_an_export_has_a_row_for_each_change(desk: Desk) -> None:
    """In either form of text."""
    lines = [json.loads(line) for line in desk.run("export").out.splitlines()]
    table = list(csv.DictReader(io.StringIO(desk.run("export", "stock", "--format", "csv").out)))
    for rows in (lines, table):
        assert [(row["id"], row["change"]) for row in rows] == desk.rows
        assert {str(row["count"]) for row in rows} == {"1"}


def test_each_change_is_reversed_alone(desk: Desk) -> None:
    """By the id that the history shows; of the whole item the command says to name one."""
    middle = desk.made[1].id
    for _ in range(2):
        (made,) = desk.json("reverse", "stock", middle)
        assert (made["change"], made["reverses"]) == ("1", middle)
    whole = desk.run("reverse", "stock", ids.split(middle)[0])
    assert whole.status != 0
    last = desk.made[2].id
    said = f"has 3 changes: name one, {desk.made[0].id} to {last}"
    assert said in " ".join(whole.errors.split())
    assert [row["change"] for row in desk.json("history", "stock")] == ["5", "-1", "8", "1"]
