"""`RightsFetcher`: rights of other regions, sent here through those regions' own endpoints.

A region without spends would send nothing by itself. A process that needs rights writes the giver's
item through the giver's region, on condition of its version, as any process there would: the giver
sends (`rights_plan.send`), and what it has sent is taken up here at once, from the item as the
giver's region showed it. Nothing rests on when that replicates.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from functools import partial

import anyio

from ledger.budgets import rights_plan
from ledger.budgets.balance import quantum_of as smallest_piece
from ledger.budgets.balance import transfers
from ledger.budgets.calendar import Window
from ledger.budgets.grant_allowance import quantum_of
from ledger.budgets.initial_shares import first_rights
from ledger.budgets.limit_windows import BudgetLimit
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import Holder, Rights
from ledger.budgets.rights_items import ControlItems, RightsView
from ledger.budgets.rights_plan import TooFewRights
from ledger.core import amounts
from ledger.core.amounts import PROPORTION
from ledger.core.errors import LedgerError
from ledger.store.retry import Backoff

FETCH_SECONDS = 3.0
"""How long one region is waited for."""
PAUSES = Backoff(base_seconds=1.0, longest_seconds=30.0)
"""How long a region is not asked again that could not be reached, each time."""

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class _Pause:
    """Until when a region is not asked, by the process's clock, and how often it failed."""

    until: float
    failures: int


class RightsFetcher:
    """Reaches the other regions of a table, which it opens when it first needs them."""

    def __init__(self, access: RegionAccess) -> None:
        self._access = access
        self._clock = access.services.clock
        self._pauses: dict[str, _Pause] = {}

    async def fetch(
        self,
        window: Window,
        me: Holder,
        missing: Decimal,
        shown: RightsView,
        limit: BudgetLimit,
        quantum: Decimal,
    ) -> RightsView | None:
        """Let other regions send what is missing here, those that have most first.

        Amounts are multiples of `quantum`, or finer where what is missing can be had only so: as
        where settled holds left a part of a piece in each region.

        Returns what is shown with the givers' items as they are now, or None if nothing was sent.
        """
        items = dict(shown.items)
        left, is_fetched = missing, False
        others = amounts.total_wide(
            max(_ZERO, item.available) for holder, item in items.items() if holder != me
        )
        if others >= missing:
            quantum = min(quantum, quantum_of(missing), smallest_piece(items.values()))
        async for giver, region in self._reachable(me, items):
            sent = await self._from(giver, region, window, me, left, items, limit, quantum)
            if sent is None:
                continue
            items[giver], is_fetched = sent[0], True
            left = amounts.total((left, sent[1].copy_negate()))
            if left <= 0:
                break
        return RightsView(items, shown.limit) if is_fetched else None

    async def _reachable(
        self, me: Holder, items: Mapping[Holder, Rights]
    ) -> AsyncIterator[tuple[Holder, ControlItems]]:
        now, holders = self._clock.monotonic(), self._access.holders
        if me not in holders:  # it joins or leaves: what it were sent would lie there idle
            return
        holders.sort(key=lambda one: items[one].available if one in items else _ZERO, reverse=True)
        regions = await self._access.items_everywhere()
        for holder in holders:
            if holder == me or holder.region not in regions:
                continue
            pause = self._pauses.get(holder.region)
            if pause is None or now >= pause.until:
                yield holder, regions[holder.region]

    async def _from(
        self,
        giver: Holder,
        region: ControlItems,
        window: Window,
        me: Holder,
        missing: Decimal,
        shown: Mapping[Holder, Rights],
        limit: BudgetLimit,
        quantum: Decimal,
    ) -> tuple[Rights, Decimal] | None:
        """Let one region send; returns its item and what it sent, None if it has nothing."""
        amount = _ZERO
        terms = self._access.settings.current.terms
        under_way = [
            item
            for holder, item in shown.items()
            if holder.region in terms.written and holder.epoch == terms.epoch_of(holder.region)
        ]

        def planned(rights: Rights) -> Rights | TooFewRights:
            nonlocal amount
            begun: list[rights_plan.Step] = [
                partial(first_rights, window=window, limit=limit),
                *(partial(rights_plan.take_up, giver=other) for other in under_way),
            ]
            made = rights_plan.in_one_write(rights, begun)
            before = made if isinstance(made, Rights) else rights
            items = {**shown, giver: before, me: shown.get(me) or Rights(me)}
            items[me] = rights_plan.note_demand(items[me], rate=items[me].rate, want=missing)
            share = transfers(giver, items, quantum=quantum).get(me, _ZERO)
            amount = min(max(share, missing), max(_ZERO, before.available))
            amount = amount.quantize(quantum, ROUND_DOWN, PROPORTION)
            if amount <= 0:
                return TooFewRights(before.available)
            done = rights_plan.in_one_write(
                rights, [*begun, partial(rights_plan.send, to=me, amount=amount)]
            )
            return done if isinstance(done, Rights) else TooFewRights(before.available)

        try:
            with anyio.fail_after(FETCH_SECONDS), self._access.signed():
                done = await region.change(window.counter, giver, planned, seconds=FETCH_SECONDS)
        except (LedgerError, TimeoutError):
            self._pause(giver.region)
            return None
        self._pauses.pop(giver.region, None)
        return (done, amount) if isinstance(done, Rights) else None

    def _pause(self, region: str) -> None:
        """Ask a region no more for a while, which calls that failed together begin once."""
        now, before = self._clock.monotonic(), self._pauses.get(region)
        if before is None or now >= before.until:
            failures = before.failures + 1 if before else 1
            until = now + PAUSES.wait_seconds(failures, jitter=1.0)
            self._pauses[region] = _Pause(until, failures)
