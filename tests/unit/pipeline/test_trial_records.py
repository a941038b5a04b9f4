"""The records of the acceptance trial: each kind is what it is said to be, and sums are right."""

import json
from fractions import Fraction
from typing import Any

import pytest
from support.trial.malformed import KINDS
from support.trial.records import FIELDS, Traffic, templates
from support.trial.schedule import schedule

from ledger.pipeline.core.records import Poison, RecordForm
from ledger.settings import Settings

REGIONS = ("us-east-1", "eu-west-1")
GOOD: dict[str, Any] = {
    "Row": {"Id": "0-1", "Version": 3},
    "Amount": "1.00",
    "Place": {"Account": "1", "Kind": "vklad", "Month": "1993-01"},
    "Serial": 1,
}


def form() -> RecordForm:
    """Return how the trial's pipelines read a record."""
    pipeline = {"fields": FIELDS, "categories": templates("plain", by_month=True)}
    return RecordForm(Settings(home=REGIONS[0], regions={REGIONS[0]: {}}, pipeline=pipeline))


def test_there_are_49_kinds_of_malformed_records() -> None:
    """As many as the issue asks for, no two of which spoil a record alike."""
    assert len(KINDS) == len({spoil(GOOD) for spoil, _ in KINDS.values()}) == 49
    assert not isinstance(form().read(json.dumps(GOOD).encode()), Poison)


@pytest.mark.parametrize("kind", KINDS)
def test_a_malformed_record_dies_of_its_own_reason(kind: str) -> None:
    """Each is refused, and the reason says what is wrong with it."""
    spoil, reason = KINDS[kind]
    found = form().read(spoil(GOOD))
    assert isinstance(found, Poison)
    assert reason in found.reason


def test_traffic_replays_and_its_totals_are_those_of_its_lines() -> None:
    """The same seed sends the same lines; the newest version of each record counts once."""
    traffic, again = Traffic("plain", 7), Traffic("plain", 7)
    sent = traffic.lines(3_000) + traffic.held_back()
    assert sent == again.lines(3_000) + again.held_back()
    assert set(traffic.malformed.values()) == {reason for _, reason in KINDS.values()}
    newest: dict[str, dict[str, Any]] = {}
    for told in (json.loads(line) for line in sent if line not in traffic.malformed):
        row = told["Row"]
        if (
            row["Version"]
            > newest.get(row["Id"], GOOD | {"Row": {"Version": -1}})["Row"]["Version"]
        ):
            newest[row["Id"]] = told
    kinds = {f"plain/kind/{told['Place']['Kind']}" for told in newest.values()}
    for kind in kinds:
        amounts = [
            Fraction(told["Amount"])
            for told in newest.values()
            if kind == f"plain/kind/{told['Place']['Kind']}"
        ]
        assert traffic.totals()[kind] == sum(amounts)
    share = Fraction(len(sent), 20)
    assert share / 2 < traffic.duplicates < 2 * share
    assert share / 2 < traffic.late < 2 * share


def test_categories_change_for_what_is_newest_afterwards() -> None:
    """A record counts under the categories in force when its newest version was sent first."""
    traffic = Traffic("plain", 7)
    first = traffic.lines(50)
    assert not any("/month/" in name for name in traffic.totals())
    traffic.by_month = True
    traffic.lines(50)
    some = sum(value for name, value in traffic.totals().items() if "/month/" in name)
    traffic.count_under(first, by_month=True)
    by_month = sum(value for name, value in traffic.totals().items() if "/month/" in name)
    by_kind = sum(value for name, value in traffic.totals().items() if "/kind/" in name)
    assert some != by_month == by_kind


def test_a_schedule_replays_from_its_seed() -> None:
    """The same seed and round draw the same events, another round other ones."""
    rounds = [schedule(7, n, ticks=40, lanes=4, regions=REGIONS) for n in (0, 0, 1)]
    assert rounds[0] == rounds[1] != rounds[2]
