"""Every value that crosses the wire is read as it was written, whatever it holds."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import any_amounts, moments, texts

from ledger.core.books import Accounts
from ledger.core.descriptions import Value
from ledger.core.values import Entry, Leg
from ledger.http.client.answers import read_as
from ledger.http.wire import schemas
from ledger.http.wire.models import ValueModel
from ledger.reads.feed.page import FeedPage
from ledger.reads.total import Total

SECONDS_MAX = 10**10
ENDS = st.sampled_from(["settled", "void", "expired", "charged", None])
MODELS: Mapping[str, type[ValueModel[Any]]] = {
    model.__name__: model
    for model in vars(schemas).values()
    if isinstance(model, type) and issubclass(model, ValueModel) and model.model_fields
}


@cache
def held() -> Mapping[Any, st.SearchStrategy[Any]]:
    """What a field of each kind may hold."""
    attribute = st.one_of(texts(), st.booleans(), st.integers(-(10**30), 10**30), any_amounts())
    return {
        Decimal: any_amounts(),
        datetime: moments().map(lambda time: time.astimezone(UTC)),
        date: st.dates(),
        int: st.integers(0, SECONDS_MAX),
        str: texts(),
        bool: st.booleans(),
        type(None): st.none(),
        Mapping[str, Value]: st.dictionaries(texts(), attribute, max_size=3),
        Mapping[str, str]: st.dictionaries(texts(), texts(), max_size=3),
        Accounts: st.dictionaries(
            texts(), st.dictionaries(texts(), any_amounts(), max_size=3), max_size=3
        ),
        Leg: st.builds(Leg, texts(), texts(), any_amounts()),
    }


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a kind, of what JSON has of it."""
    if kind in held():
        return held()[kind]
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        names = [one.name for one in fields(kind) if one.init and one.compare]
        parts = {name: ENDS if name == "resolved" else values(hints[name]) for name in names}
        if kind is Total:
            parts["accounts"] = st.none()  # those of a book are asked for by themselves
        return st.builds(kind, **parts)
    parts_of = get_args(kind)
    if get_origin(kind) is Literal:
        return st.sampled_from(parts_of)
    if get_origin(kind) is tuple:
        return st.lists(values(parts_of[0]), max_size=3).map(tuple)
    assert get_origin(kind) in {Union, UnionType}, kind
    strategy: st.SearchStrategy[Any] = st.one_of([values(part) for part in parts_of])
    return strategy


@pytest.mark.parametrize("name", MODELS)
@given(data=st.data())
def test_a_value_is_read_as_it_was_written(name: str, data: st.DataObject) -> None:
    """By its model, as the client reads it; what the model says is all that is written."""
    model = MODELS[name]
    value = data.draw(values(model.kind))
    besides: dict[Any, tuple[Any, dict[str, Any]]] = {
        schemas.TotalModel: (schemas.RegionTotalModel, {"age": 0.5}),
        schemas.CreditedModel: (schemas.EntryModel, {"spendable": True}),
    }
    written, more = besides.get(model, (model, {}))
    members = written.fields_of(value) | more
    read = read_as(model, orjson.dumps(members))
    assert read is not None
    assert read.to_value() == value
    assert {*members} <= {*model.model_fields}


def test_the_key_of_an_entry_is_written_for_its_writer_alone() -> None:
    """Others, who read it, could repeat it in the writer's name."""
    entry = Entry("stock", "id", Decimal(1), key="secret")
    assert "key" not in schemas.EntryModel.fields_of(entry)
    page = schemas.FeedModel.fields_of(FeedPage((entry,), "next", more=False))
    assert "secret" not in str(page)
    proved = schemas.ProvedEntryModel.fields_of(entry)
    read = read_as(schemas.ProvedEntryModel, orjson.dumps(proved))
    assert read is not None
    assert read.to_value().key == "secret"


@pytest.mark.parametrize(
    "wrong",
    [
        {"change": 5},
        {"change": "five"},
        {"change": f"1e{10**30}"},
        {"effective": "soon"},
        {"count": "1"},
        {"spending": {}},
    ],
)
def test_what_no_model_wrote_is_no_value(wrong: dict[str, Any]) -> None:
    """A number is no amount, since JSON's numbers are rounded; members of a later release pass."""
    members = schemas.EntryModel.fields_of(Entry("stock", "id", Decimal(1)))
    assert read_as(schemas.EntryModel, orjson.dumps(members | {"later": 1})) is not None
    assert read_as(schemas.EntryModel, orjson.dumps(members | wrong)) is None
