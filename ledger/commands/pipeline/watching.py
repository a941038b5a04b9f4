"""Totals of counters in every region, read periodically for the page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import anyio

from ledger.commands.pipeline.rows import (
    ANY,
    Row,
    is_prefix,
    matches,
    sums_below,
    without_entries,
)
from ledger.core import amounts, keys
from ledger.core.errors import InvalidInput, LedgerError, StoreError
from ledger.ledger import Ledger
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import Scan
from ledger.totals.total import Total

Publish = Callable[[Mapping[str, Any]], None]
COUNTERS_MAX = 5_000
"""The most counters of one page."""
PAGES_MAX = 10_000
"""The most pages of a scan of names: 10 GB of a table."""
PARTITION = "pk"


@dataclass(slots=True)
class Watched:
    """The counters of a page: those named, and those that were found for its patterns."""

    named: Sequence[str]
    prefixes: Sequence[str]
    found: Sequence[str] = ()

    @classmethod
    def of(cls, patterns: Sequence[str]) -> "Watched":
        """Read ids of counters, and patterns that end with `*`.

        Raises:
            InvalidInput: one is neither.
        """
        prefixes = [pattern for pattern in patterns if is_prefix(pattern)]
        for prefix in prefixes:
            if ANY in prefix.removesuffix(ANY):
                raise InvalidInput(f"{prefix!r}: a pattern has one *, at its end, such as risk/*")
        named = [keys.checked_counter(one) for one in patterns if not is_prefix(one)]
        return cls(list(dict.fromkeys(named)), prefixes)

    @property
    def counters(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*self.named, *self.found]))

    async def find(self, store: Store) -> None:
        """Look for the counters of the patterns: a scan of the table in one region.

        Raises:
            InvalidInput: there are over `COUNTERS_MAX`.
            StoreError: the table cannot be read.
        """
        if self.prefixes:
            self.found = await names_in(store, self.prefixes)


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look at all regions."""

    totals: Mapping[str, Mapping[str, Total]]
    failed: Sequence[str] = field(default_factory=list)

    @property
    def empty(self) -> set[str]:
        """The counters that have nothing in any region."""
        return {
            name
            for name in set().union(*self.totals.values())
            if all(_is_empty(shown[name]) for shown in self.totals.values())
        }


def _is_empty(total: Total) -> bool:
    return not (total.entries or total.merged or total.additions or total.versions)


async def publish_totals(
    settings: Settings,
    counters: Sequence[str],
    publish: Publish,
    *,
    every_seconds: float,
    stop: anyio.Event,
    looks_per_find: int = 1,
) -> None:
    """Publish the totals periodically until `stop` is set; a region that fails is named.

    Patterns such as `kind/*` stand for all counters with that prefix, looked for in the first look
    and again after every `SCAN_LOOKS` looks.

    Raises:
        LedgerError: a counter's id, a pattern or the settings are wrong.
    """
    watched = Watched.of(counters)
    async with AsyncExitStack() as stack:
        ledgers = {
            name: await stack.enter_async_context(Ledger.open(settings, region=name))
            for name in settings.regions
        }
        looks = 0
        while not stop.is_set():
            notes = []
            if looks % looks_per_find == 0:
                notes = await _find(watched, ledgers.values())
            looks += 1
            look = await _look(ledgers, watched.counters)
            publish(snapshot(watched.counters, look, [*notes, *look.failed]))
            with anyio.move_on_after(every_seconds):
                await stop.wait()


async def _find(watched: Watched, ledgers: Iterable[Ledger]) -> list[str]:
    """Find the counters of patterns in the first region that answers; return the others' errors."""
    failed: list[str] = []
    for ledger in ledgers:
        try:
            await watched.find(ledger.store)
        except StoreError as error:
            failed.append(str(error))
        else:
            break
    return failed


async def names_in(store: Store, prefixes: Sequence[str]) -> list[str]:
    """Return the counters of a table whose names begin with one of some patterns, sorted.

    Raises:
        InvalidInput: there are over `COUNTERS_MAX`.
        LedgerError: the table has over `PAGES_MAX` pages.
        StoreError: the table cannot be read.
    """
    found: set[str] = set()
    scan = Scan(attributes=[PARTITION])
    for _ in range(PAGES_MAX):
        page = await store.scan(scan)
        for item in page.items:
            counter = keys.counter_of(item[PARTITION]["S"])
            if counter is not None and matches(counter[0], prefixes):
                found.add(counter[0])
        if len(found) > COUNTERS_MAX:
            raise InvalidInput(
                f"over {COUNTERS_MAX:,} counters begin as {' or '.join(prefixes)}: name fewer"
            )
        if page.after is None:
            return sorted(found)
        scan = scan.next(page)
    raise LedgerError(f"the table has over {PAGES_MAX:,} pages: name the counters")


async def _look(ledgers: Mapping[str, Ledger], counters: Sequence[str]) -> Look:
    shown: dict[str, Mapping[str, Total]] = {}
    failed: list[str] = []
    for name, ledger in ledgers.items():
        try:
            shown[name] = await ledger.totals(counters, max_age=0)
        except StoreError as error:
            failed.append(str(error))
    return Look(shown, failed)


def snapshot(counters: Sequence[str], look: Look, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the page's content: totals by region, and what could not be read."""
    shown = {
        region: {name: total.value for name, total in totals.items()}
        for region, totals in look.totals.items()
    }
    rows = totals_shown(counters, shown)
    without_entries(rows, look.empty, counters)
    return {
        "title": "ledger totals",
        "phase": "; ".join(notes) or "read just now in every region",
        "names": list(shown),
        "totals": rows,
        "sums": sums_below(rows) if shown else [],
    }


def totals_shown(
    counters: Sequence[str],
    shown: Mapping[str, Mapping[str, Decimal]],
    expected: Mapping[str, Decimal] = {},
) -> list[Row]:
    """Return the rows of the page: each counter's total by region, beside the true one if known."""
    return [
        {
            "category": counter,
            "regions": {name: amounts.to_text(totals[counter]) for name, totals in shown.items()},
            **({"truth": amounts.to_text(expected[counter])} if expected else {}),
        }
        for counter in counters
    ]
