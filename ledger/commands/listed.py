"""Listed counters as commands show them."""

from collections.abc import Iterable, Mapping

from ledger.core import amounts
from ledger.core.descriptions import Value
from ledger.core.index import Listed
from ledger.runtime.tables import Column, Grid, number, prose
from ledger.wire.values import text_of


def listed_grid(found: Iterable[Listed], region: str) -> Grid:
    """Return counters that a region lists as a table."""
    found = list(found)
    is_described = any(listed.description for listed in found)
    is_exact = all(listed.is_exact for listed in found)
    columns = [
        Column("counter"),
        number("total" if is_exact else "merged total"),
        number("changes"),
        Column("as of (UTC)"),
    ]
    columns += [prose("description")] if is_described else []
    rows = [_cells(listed, is_described=is_described) for listed in found]
    return Grid(
        columns,
        rows,
        title=f"counters in {region}" if is_exact else f"counters in {region}: merged changes only",
    )


def _cells(one: Listed, *, is_described: bool) -> list[str]:
    at = "now" if one.is_exact else one.as_of.strftime("%Y-%m-%d %H:%M:%S")
    described = [in_line(one.description or {})] if is_described else []
    return [one.counter, amounts.to_text(one.value), f"{one.count:,}", at, *described]


def in_line(description: Mapping[str, Value]) -> str:
    """Return attributes in one line."""
    return ", ".join(f"{name}={text_of(value)}" for name, value in description.items())
