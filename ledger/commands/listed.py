"""Listed counters as commands show them."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ledger.core import amounts
from ledger.core.descriptions import Value
from ledger.core.index import Listed
from ledger.runtime.tables import Column, Grid, number, prose


def listed_fields(one: Listed) -> dict[str, Any]:
    """Return a listed counter as JSON shows it; its description only if it was asked for."""
    described = {} if one.description is None else {"description": shown(one.description)}
    return {
        "counter": one.counter,
        "value": amounts.to_text(one.value),
        "count": one.count,
        "as_of": one.as_of.isoformat(),
        "exact": one.is_exact,
        **described,
    }


def shown(description: Mapping[str, Value]) -> dict[str, str | bool]:
    """Return attributes as JSON shows them: numbers as text, so that no digit is lost."""
    return {name: text_of(value) for name, value in description.items()}


def text_of(value: Value) -> str | bool:
    """Return a value of an attribute: a number as text."""
    if isinstance(value, bool | str):
        return value
    return amounts.to_text(Decimal(value))


def listed_grid(found: Iterable[Listed], region: str) -> Grid:
    """Return counters that a region lists as a table."""
    found = list(found)
    is_described = any(one.description for one in found)
    columns = [Column("counter"), number("total"), number("changes"), Column("as of (UTC)")]
    columns += [prose("description")] if is_described else []
    rows = [_cells(one, is_described=is_described) for one in found]
    return Grid(columns, rows, title=f"counters in {region}")


def _cells(one: Listed, *, is_described: bool) -> list[str]:
    at = "now" if one.is_exact else one.as_of.strftime("%Y-%m-%d %H:%M:%S")
    described = [in_line(one.description or {})] if is_described else []
    return [one.counter, amounts.to_text(one.value), f"{one.count:,}", at, *described]


def in_line(description: Mapping[str, Value]) -> str:
    """Return attributes in one line."""
    return ", ".join(f"{name}={text_of(value)}" for name, value in description.items())
