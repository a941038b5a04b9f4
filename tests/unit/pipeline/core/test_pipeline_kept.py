"""What states keep of their records: enough to compute another form, in few bytes."""

import json
from decimal import Decimal
from typing import Any

import pytest
from support.ledgers import HOME
from support.pipelines import pipeline_settings

from ledger.core.capacity import item_size
from ledger.pipeline.core.category_sums import CategorySums
from ledger.pipeline.core.items import state_item
from ledger.pipeline.core.kept_fields import KEPT_BYTES_MAX, kept_of
from ledger.pipeline.core.records import Lacking, Poison, Record, RecordForm
from ledger.pipeline.core.transitions import State

RAW = (
    b'{"TradeID": "T1", "Version": 3, "Value": 2.50, "Time": 1763846400.250, "Lot": 7,'
    b' "Hierarchy": {"RiskType": "Delta", "Desk": "A"}}'
)
DAY = ("risk/{Hierarchy.RiskType}", "day/{Time:day}")


def read(categories: tuple[str, ...] = DAY, raw: bytes = RAW, **pipeline: Any) -> Record:
    """Return the record as a form reads it."""
    record = RecordForm(pipeline_settings(categories=categories, **pipeline)).read(raw)
    assert isinstance(record, Record)
    return record


@pytest.mark.parametrize(
    ("categories", "keep", "kept"),
    [
        (("all",), (), {}),
        (("risk/{Hierarchy.RiskType}",), (), {"Hierarchy": {"RiskType": "Delta"}}),
        (("{Hierarchy.RiskType}", "{Lot}"), (), {"Hierarchy": {"RiskType": "Delta"}, "Lot": "7"}),
        (("{Time:day}",), ("Lot",), {"Time": 1763846400.25, "Lot": 7}),
        (
            ("all",),
            ("Hierarchy.Desk", "Hierarchy"),
            {"Hierarchy": {"RiskType": "Delta", "Desk": "A"}},
        ),
        (("all",), ("Missing.Field", "Lot.Field"), {}),
    ],
)
def test_a_state_keeps_what_templates_name_and_what_is_asked(
    categories: tuple[str, ...], keep: tuple[str, ...], kept: dict[str, Any]
) -> None:
    """In its place in the record; what a record does not have is no error."""
    found = read(categories, keep_fields=keep).kept
    assert json.loads(found or "{}") == kept
    assert bool(found) == bool(kept)


def test_all_is_the_record_as_it_came() -> None:
    """To the byte, unless it is longer than a state may keep."""
    assert read(keep_fields="all").kept == RAW.decode()
    long = RAW[:-1] + b', "Note": "' + b"x" * KEPT_BYTES_MAX + b'"}'
    assert read(keep_fields="all", raw=long, record_bytes_max=200_000).kept == ""


def test_numbers_keep_their_digits_and_the_rest_is_left_out() -> None:
    """No float comes in between; half a surrogate cannot be written."""
    record = {"a": 10**30, "b": [Decimal("1.500")], "c": "\ud800", "d": True, "e": None}
    text = kept_of(record, [(name,) for name in "abcde"])
    assert text == '{"a":1000000000000000000000000000000,"b":[1.500],"d":true,"e":null}'


def test_another_form_is_computed_from_what_is_kept() -> None:
    """As if it had read the record: by another time, a measure, in place of a category."""
    other = RecordForm(
        pipeline_settings(categories=("at/{Time:hour}",), measures={"count": ["n/{Time:month}"]})
    )
    right = other.read(RAW)
    assert isinstance(right, Record)
    record = read()
    image = CategorySums(right.value, right.categories, right.counted)
    assert other.image_of(record.kept, record.value) == image
    assert other.image_of(RAW.decode(), Decimal(0)) == image


def test_what_is_not_kept_is_said() -> None:
    """A field that is missing is one thing, a field that cannot be taken another."""
    form = RecordForm(pipeline_settings(categories=("desk/{Hierarchy.Desk}",)))
    assert form.image_of(read().kept, Decimal(1)) == Lacking(
        "the record has no field Hierarchy.Desk"
    )
    assert form.image_of("", Decimal(1)) == Lacking("the record has no field Hierarchy.Desk")
    found = form.image_of('{"Hierarchy": {"Desk": []}}', Decimal(1))
    assert isinstance(found, Poison)
    assert "a text or a whole number is needed" in found.reason


def test_what_is_kept_costs_bytes_but_no_second_write_unit() -> None:
    """Of a usual record of two levels: 51 bytes more, far within 1 KB."""
    categories = ("risk/{Hierarchy.RiskType}", "desk/{Hierarchy.RiskType}/{Hierarchy.Desk}")
    record = read(categories)
    image = CategorySums(record.value, record.categories)
    with_, without = (
        item_size(state_item("T1", State(3, image, HOME, {}, 1, kept)))
        for kept in (record.kept, "")
    )
    assert (with_, with_ - without) == (135, 51)
