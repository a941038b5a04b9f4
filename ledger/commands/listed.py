"""Listed counters as commands show them."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from ledger.core import amounts
from ledger.core.descriptions import Value
from ledger.core.index import Listed


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


def listed_table(found: Iterable[Listed]) -> Table:
    """Return a table of listed counters; names and digits are folded, never cut."""
    found = list(found)
    is_described = any(one.description for one in found)
    table = Table(box=box.SIMPLE)
    for name in ("counter", "total", "changes", "as of (UTC)"):
        is_number = name in {"total", "changes"}
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    if is_described:
        table.add_column("description", overflow="fold")
    for one in found:
        at = "now" if one.is_exact else one.as_of.strftime("%Y-%m-%d %H:%M:%S")
        cells = [escape(one.counter), amounts.to_text(one.value), f"{one.count:,}", at]
        if is_described:
            cells.append(escape(in_line(one.description or {})))
        table.add_row(*cells)
    return table


def in_line(description: Mapping[str, Value]) -> str:
    """Return attributes in one line."""
    return ", ".join(f"{name}={text_of(value)}" for name, value in description.items())
