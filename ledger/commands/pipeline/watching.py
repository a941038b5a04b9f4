"""Totals of counters in every region, read periodically for the page."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from typing import Any

import anyio

from ledger.core import amounts
from ledger.core.errors import StoreError
from ledger.ledger import Ledger
from ledger.settings import Settings

Publish = Callable[[Mapping[str, Any]], None]


async def publish_totals(
    settings: Settings,
    counters: Sequence[str],
    publish: Publish,
    *,
    every_seconds: float,
    stop: anyio.Event,
) -> None:
    """Publish the totals periodically until `stop` is set; a region that fails is named.

    Raises:
        LedgerError: a counter's id or the settings are wrong.
    """
    async with AsyncExitStack() as stack:
        ledgers = {
            name: await stack.enter_async_context(Ledger.open(settings, region=name))
            for name in settings.regions
        }
        while not stop.is_set():
            shown: dict[str, Mapping[str, Decimal]] = {}
            failed: list[str] = []
            for name, ledger in ledgers.items():
                try:
                    found = await ledger.totals(counters, max_age=0)
                except StoreError as error:
                    failed.append(str(error))
                else:
                    shown[name] = {counter: total.value for counter, total in found.items()}
            publish(snapshot(counters, shown, failed))
            with anyio.move_on_after(every_seconds):
                await stop.wait()


def snapshot(
    counters: Sequence[str], shown: Mapping[str, Mapping[str, Decimal]], failed: Sequence[str]
) -> dict[str, Any]:
    """Return what the page shows of totals by region, and of what could not be read."""
    return {
        "title": "ledger totals",
        "phase": "; ".join(failed) or "read just now in every region",
        "totals": totals_shown(counters, shown),
    }


def totals_shown(
    counters: Sequence[str],
    shown: Mapping[str, Mapping[str, Decimal]],
    expected: Mapping[str, Decimal] = {},
) -> list[dict[str, Any]]:
    """Return the rows of the page: each counter's total by region, beside the true one if known."""
    return [
        {
            "category": counter,
            "regions": {name: amounts.to_text(totals[counter]) for name, totals in shown.items()},
            **({"truth": amounts.to_text(expected[counter])} if expected else {}),
        }
        for counter in counters
    ]
