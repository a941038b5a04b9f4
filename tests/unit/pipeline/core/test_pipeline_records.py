import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from support.ledgers import AWAY, HOME, make_settings
from support.pipelines import BOTH_HOMES, CATEGORIES, FIELDS, message, pipeline_settings

from ledger.core.errors import SettingsError
from ledger.pipeline.core.records import Delivery, Poison, Record, RecordForm

GOOD: dict[str, Any] = {
    "TradeID": "T1",
    "Version": 3,
    "Value": 12,
    "Hierarchy": {"RiskType": "Delta", "Region": "EMEA", "Desk": "A"},
}
FORM = RecordForm(pipeline_settings())


def read(**changed: Any) -> Record | Poison:
    """Read the good record with some fields changed; None takes one away."""
    told = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    return FORM.read(json.dumps(told).encode())


def test_a_record_has_what_the_settings_name() -> None:
    """Id, version, value and the categories of all templates are taken from the record."""
    categories = ("desk/EMEA/A", "risk/Delta")
    assert read() == Record("T1", 3, Decimal(12), categories, HOME)


def test_fields_go_by_any_name() -> None:
    """The settings name the fields, at any depth, and numbers can be names of things."""
    form = RecordForm(
        pipeline_settings(
            fields={"id": "record.no", "version": "v", "value": "amount"},
            categories=["book-{book}", "all"],
        )
    )
    raw = b'{"record": {"no": 17}, "v": 0, "amount": "1.50", "book": 4, "more": [1]}'
    assert form.read(raw) == Record("17", 0, Decimal("1.50"), ("all", "book-4"), HOME)


def test_a_record_of_a_book_is_not_taken() -> None:
    """A book takes transfers alone; the letter says which category it would be."""
    form = RecordForm(pipeline_settings().replace(books=["risk/*"]))
    poison = form.read(json.dumps(GOOD).encode())
    assert isinstance(poison, Poison)
    assert poison.reason.startswith("category 'risk/Delta' is a book, by a pattern of `books`")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.10", "12.10"),
        ("0.1000000000000000055511151231257827", None),
        ("-999999999999999.123456789012345", "-999999999999999.123456789012345"),
        ("1e3", "1000"),
        ("0.000", "0"),
        ('"7.25"', "7.25"),
        ("1.5000000000000000000000", "1.5"),
        ("1000000000000000", None),
        ("1e-16", None),
        ("1e999999999", None),
        ("1e9999999999999999999999", None),
        ("9" * 5000, None),
        ("NaN", None),
        ("Infinity", None),
        ("true", None),
        ("null", None),
        ("[1]", None),
        ('"1,5"', None),
    ],
)
def test_a_value_is_the_decimal_that_was_written(text: str, value: str | None) -> None:
    """Digits are taken as they stand, up to 15 on each side of the point; others are poison."""
    raw = json.dumps({**GOOD, "Value": "@"}).replace('"@"', text).encode()
    found = FORM.read(raw)
    if value is None:
        assert isinstance(found, Poison)
    else:
        assert isinstance(found, Record)
        assert found.value == Decimal(value)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"TradeID": None}, "no field TradeID"),
        ({"TradeID": ""}, "TradeID"),
        ({"TradeID": ["T"]}, "TradeID"),
        ({"TradeID": True}, "TradeID"),
        ({"TradeID": "x" * 1025}, "1,024 bytes"),
        ({"TradeID": "\ud800"}, "UTF-8"),
        ({"Version": None}, "no field Version"),
        ({"Version": 2.5}, "whole number"),
        ({"Version": "3"}, "whole number"),
        ({"Version": True}, "whole number"),
        ({"Version": -1}, "got -1"),
        ({"Version": 10**38}, "version"),
        ({"Value": None}, "no field Value"),
        ({"Value": "much"}, "Value"),
        ({"Hierarchy": None}, "no field Hierarchy.RiskType"),
        ({"Hierarchy": "EMEA"}, "no field Hierarchy.RiskType"),
        ({"Hierarchy": {**GOOD["Hierarchy"], "Desk": "a\nb"}}, "control"),
        ({"Hierarchy": {**GOOD["Hierarchy"], "Desk": 1.5}}, "Hierarchy.Desk"),
        ({"Hierarchy": {**GOOD["Hierarchy"], "Desk": "x" * 1020}}, "1,024 bytes"),
    ],
)
def test_poison_says_what_is_wrong(changed: dict[str, Any], reason: str) -> None:
    """A record that breaks a rule is told from a good one, with the reason in words."""
    found = read(**changed)
    assert isinstance(found, Poison)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"TradeID": ', "not JSON"),
        (b"[" * 60_000, "nested"),
        (b'{"TradeID": "' + b"x" * 70_000 + b'"}', "bytes"),
    ],
)
def test_what_is_no_record_is_poison(raw: bytes, reason: str) -> None:
    """Any bytes are taken: what is no JSON object of a bounded size is poison."""
    found = FORM.read(raw)
    assert isinstance(found, Poison)
    assert reason in found.reason


def test_a_category_counts_once() -> None:
    """Two templates that give the same counter for a record make one category."""
    form = RecordForm(pipeline_settings(categories=["{Hierarchy.Desk}", "{Hierarchy.RiskType}"]))
    found = form.read(message("T1", 1, 5, risk="A", desk="A"))
    assert isinstance(found, Record)
    assert found.categories == ("A",)


def test_the_first_pattern_that_matches_is_home() -> None:
    """A record's home follows from the field that the settings name, its id by default."""
    form = RecordForm(pipeline_settings(home=BOTH_HOMES))
    homes = [form.read(message(record, 1, 1)) for record in ("E1", "T1")]
    assert [home.home for home in homes if isinstance(home, Record)] == [AWAY, HOME]
    assert form.homes == {HOME, AWAY}
    by_desk = RecordForm(
        pipeline_settings(home={"field": "Hierarchy.Desk", "regions": {"A": AWAY}})
    )
    found = [by_desk.read(message("T1", 1, 1, desk=desk)) for desk in "AB"]
    assert isinstance(found[0], Record)
    assert found[0].home == AWAY
    assert isinstance(found[1], Poison)
    assert "matches none" in found[1].reason


def test_without_categories_there_is_no_form() -> None:
    """A pipeline that adds to nothing is refused, with the line that is missing."""
    with pytest.raises(SettingsError, match=r"pipeline\.categories"):
        RecordForm(make_settings())


@pytest.mark.parametrize(
    ("group", "told"),
    [
        ({"categories": ["{a"]}, "template"),
        ({"fields": {"id": "a..b"}}, "dots"),
        ({"home": {"regions": {"*": "mars-north-1"}}}, "mars-north-1"),
        ({"categories": ["{a}"] * 21}, "20"),
        ({"batch_max": 10_001}, "10000"),
    ],
)
def test_settings_are_checked_when_they_are_made(group: dict[str, Any], told: str) -> None:
    """What breaks a rule of the pipeline's settings is named before anything runs."""
    with pytest.raises(SettingsError, match=told):
        make_settings(pipeline={"fields": FIELDS, "categories": CATEGORIES, **group})


TIMED = RecordForm(
    pipeline_settings(
        fields={**FIELDS, "time": "Timestamp"}, categories=["all", "risk/{Timestamp:hour}"]
    )
)


def timed(text: str) -> Delivery:
    """Return a delivery of the good record with this as its time, in JSON."""
    raw = json.dumps({**GOOD, "Timestamp": "@"}).replace('"@"', text).encode()
    return Delivery("1", raw, at=datetime(2026, 1, 1, tzinfo=UTC))


def test_categories_by_the_hour_of_a_record() -> None:
    """Of the record's own time, wherever and whenever it is read."""
    found = TIMED.take(timed("1616413258.8997078"))
    assert isinstance(found, Record)
    assert found.categories == ("all", "risk/2021-03-22T11")
    assert TIMED.time_of(timed("1616413258.5")) == datetime(2021, 3, 22, 11, 40, 58, 500_000, UTC)


def test_a_record_whose_time_cannot_be_read_is_poison() -> None:
    """Where its field is named, used by a category or not; its age is then that of its source."""
    form = RecordForm(pipeline_settings(fields={**FIELDS, "time": "Timestamp"}))
    for each in (TIMED, form):
        found = each.take(timed('"tomorrow"'))
        assert isinstance(found, Poison)
        assert found.reason.startswith("Timestamp is 'tomorrow': a time as text is ISO 8601")
        assert each.time_of(timed('"tomorrow"')) == datetime(2026, 1, 1, tzinfo=UTC)
    missing = form.take(Delivery("1", json.dumps(GOOD).encode()))
    assert isinstance(missing, Poison)
    assert missing.reason == "the record has no field Timestamp"
