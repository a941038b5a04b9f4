import copy
import inspect
import pickle
import weakref
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from datetime import date
from decimal import Decimal
from typing import Any, cast

import pytest

from ledger import Change, Entry
from ledger.core.values import Leg, Spending, quickly_made

EVERY: dict[str, Any] = {
    "counter": "c",
    "id": "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887",
    "change": Decimal("1.50"),
    "region": "eu-west-1",
    "note": "refund",
    "effective": date(2026, 11, 1),
    "count": 2,
    "shard": 3,
    "reverses": "another id",
    "repeated": True,
    "spending": Spending(("eu-west-1.1",)),
    "key": "k",
    "parts": "1 0.50",
    "legs": (Leg("a", "EUR", Decimal(1)), Leg("b", "EUR", Decimal(-1))),
    "metadata": {"order": "17"},
}
HOW = {"shard", "repeated", "spending", "key", "parts"}
OPTIONAL = EVERY.keys() - {"counter", "id", "change"}


@dataclass(frozen=True, slots=True)
class Plain:
    """A frozen dataclass as Python makes it."""

    first: str
    second: int = 7
    third: int | None = field(default=None, compare=False, repr=False)


@quickly_made
@dataclass(frozen=True, slots=True)
class Quick:
    """The same, made quickly."""

    first: str
    second: int = 7
    third: int | None = field(default=None, compare=False, repr=False)


class More(Quick):
    """A subclass with room for more."""


def test_it_is_made_with_the_parameters_of_a_dataclass() -> None:
    """By position, by name and by default; a wrong one is refused in the same words."""
    assert inspect.signature(Quick) == inspect.signature(Plain)
    quickly, plainly = cast("Any", Quick), cast("Any", Plain)
    for given in ({"first": "a"}, {"third": 3, "first": "a"}, {"first": "a", "second": 1}):
        assert repr(quickly(**given)) == repr(plainly(**given)).replace("Plain", "Quick")
        assert asdict(quickly(**given)) == asdict(plainly(**given)) | given
    assert asdict(quickly("a", 1, 2)) == {"first": "a", "second": 1, "third": 2}
    for given in ({}, {"first": "a", "fourth": 4}):
        with pytest.raises(TypeError, match=r"^Quick\.__init__\(\) (missing|got an unexpected)"):
            quickly(**given)


@pytest.mark.parametrize("made", [Entry(**EVERY), Change("c", 1, key="k"), Quick("a", third=3)])
def test_it_stays_a_frozen_value(made: Any) -> None:
    """No field can be set or deleted; copies have the same fields, those not compared included."""
    for one in fields(made):
        with pytest.raises(FrozenInstanceError):
            setattr(made, one.name, None)
        with pytest.raises(FrozenInstanceError):
            delattr(made, one.name)
    assert not hasattr(made, "__dict__")
    with pytest.raises(TypeError, match="weak reference"):
        weakref.ref(made)
    for other in (copy.copy(made), pickle.loads(pickle.dumps(made)), replace(made)):  # noqa: S301 (ours)
        assert type(other) is type(made)
        assert (other, hash(other), repr(other)) == (made, hash(made), repr(made))
        assert all(getattr(other, one.name) == getattr(made, one.name) for one in fields(made))


def test_each_field_of_an_entry_has_its_own_value() -> None:
    """And the fields that say how it was made are no part of the change."""
    entry, bare = Entry(**EVERY), Entry(*(EVERY[name] for name in ("counter", "id", "change")))
    assert {one.name: getattr(entry, one.name) for one in fields(entry)} == EVERY
    for one in fields(entry):
        other: Any = {one.name: getattr(bare, one.name) if one.name in OPTIONAL else "other"}
        assert (replace(entry, **other) == entry) is (one.name in HOW)


def test_a_subclass_stays_one() -> None:
    """It is made as any dataclass is."""
    made = More("a", 1)
    assert (type(made), made.first, made.second) == (More, "a", 1)
    assert made != Quick("a", 1)
