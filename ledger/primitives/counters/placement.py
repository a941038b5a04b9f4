"""Where each change of a counter goes: to one shard, to all, or to those that have room.

A change goes to a random shard, or to the one of its token; a large one that adds to stock goes to
all of them; one without room goes elsewhere, or is split, and pieces are moved where that pays.
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import anyio

from ledger.core.errors import LedgerError, RequestRefused
from ledger.primitives.counters import shard_balance
from ledger.primitives.counters.addition import is_full
from ledger.primitives.counters.hand_over_tokens import doubt_of, is_doubtful
from ledger.primitives.counters.layout import Layout
from ledger.primitives.counters.new_tokens import draw_token
from ledger.primitives.counters.shard_balance import (
    is_restock,
    parts_for,
    spread_over,
    values_after,
)
from ledger.primitives.counters.shards import ShardItems
from ledger.store.writes import Applied, Outcome, Rejected

PLANS_MAX = 5
"""Times that a change without room in its first shard looks for room in others."""


class PlacedItems(ShardItems):
    """Items among which each change finds its place."""

    _is_moving: bool = False

    @abstractmethod
    async def _values(self, layout: Layout, *, consistent: bool) -> tuple[list[Decimal], int]:
        """Return what each shard holds, and how often pieces were moved between them.

        `LayoutMoved` is raised if a shard belongs to another layout.
        """

    async def _placed(
        self, layout: Layout, change: Decimal, token: str | None, *, spread: bool | None
    ) -> Outcome:
        """Make a change where it belongs in this layout, or find room for it elsewhere."""
        own = None
        if token is not None:
            await self._check_handed(layout, token)
        if token is not None and self.known_in == "item":
            own = draw_token(token, layout.shards)
            if await self._known_before(layout, own, token):
                return Rejected("applied before")
        first = self.randomness.randrange(layout.shards) if own is None else own
        shares = {first: change}
        if self._is_spread(layout, change, spread=spread):
            shares = spread_over(change, layout.shards, own)
        outcome = await self.add_parts(layout.parts(self.limits, shares), token)
        if layout.shards == 1 or not is_full(outcome) or not (self.splits or own is None):
            return outcome
        return await self._elsewhere(layout, change, token, first=first, own=own)

    async def _check_handed(self, layout: Layout, token: str) -> None:
        """Return unless another region may have used the token, and its item is on its way.

        Raises:
            RegionConflict: it may have, and nothing here shows it.
        """
        if not (self._may_be_late(layout) and is_doubtful(layout, token, self.clock.now())):
            return
        if not await self._is_known(layout, token):
            raise doubt_of(self.name, layout, token)

    def _may_be_late(self, layout: Layout) -> bool:
        """Return whether a token may be known in an item outside of the layout in force."""
        del layout
        return False

    async def _is_known(self, layout: Layout, token: str) -> bool:
        """Return whether anything here shows that a token was used."""
        own = draw_token(token, layout.shards)
        return await self.knows(own, token) or await self._known_before(layout, own, token)

    async def _elsewhere(
        self, layout: Layout, change: Decimal, token: str | None, *, first: int, own: int | None
    ) -> Outcome:
        """Look for room in all shards, until it is found, used up, or others are always first."""
        limits = layout.all_limits(self.limits)
        for _ in range(PLANS_MAX):
            values, moves = await self._values(layout, consistent=True)
            if own is not None and await self._has_room(layout, own, change, values, moves):
                shares = {own: change}
            else:
                shares = parts_for(change, values, limits, first=first, split=self.splits)
                if not shares:
                    return Rejected("threshold", str(self.limits))
                if own is not None:
                    shares.setdefault(own, Decimal(0))  # for the token, where a repeat looks for it
            outcome = await self.add_parts(layout.parts(self.limits, shares), token)
            if is_full(outcome):
                continue
            if isinstance(outcome, Applied) and own is None:
                await self._even_if_it_pays(layout, change, values_after(values, shares), moves)
            return outcome
        return Rejected("contention", "other writers used the free room each time")

    async def _has_room(
        self, layout: Layout, shard: int, change: Decimal, values: Sequence[Decimal], moves: int
    ) -> bool:
        """Return whether a shard has room for all of a change, once pieces were moved there."""
        limits = layout.all_limits(self.limits)
        if limits[shard].allows(values[shard], change):
            return True
        deltas = shard_balance.balance_shards(values, limits, shard=shard, change=change)
        return deltas is not None and await self._moved(layout, deltas, moves)

    async def _even_if_it_pays(
        self, layout: Layout, change: Decimal, values: Sequence[Decimal], moves: int
    ) -> None:
        """Move pieces after a change that found room elsewhere; that one counts, whatever."""
        limits = layout.all_limits(self.limits)
        if self._is_moving or not self.splits or not shard_balance.pays(values, limits, change):
            return
        deltas = shard_balance.balance_shards(values, limits)
        if deltas is None:
            return
        self._is_moving = True
        try:
            with suppress(LedgerError), anyio.move_on_after(shard_balance.MOVE_SECONDS_MAX):
                await self._moved(layout, deltas, moves)
        finally:
            self._is_moving = False

    async def _moved(self, layout: Layout, deltas: Sequence[Decimal], moves: int) -> bool:
        """Move pieces unless others did since; returns whether it surely did. It counts once."""
        parts = layout.parts(self.limits, dict(enumerate(deltas)))
        keys = [self.key(part.shard) for part in parts]
        try:
            outcome = await self.store.transact(shard_balance.move(keys, parts, moves))
        except RequestRefused:
            await self._check_overflow(parts)
            raise
        return isinstance(outcome, Applied)

    async def _known_before(self, layout: Layout, own: int, token: str) -> bool:
        """Return whether a token was applied in the shard that it had in an earlier layout."""
        for shard in {draw_token(token, earlier) for earlier in layout.earlier} - {own}:
            if await self.knows(shard, token):
                return True
        return False

    def _is_spread(self, layout: Layout, change: Decimal, *, spread: bool | None) -> bool:
        if not self.splits or layout.shards == 1 or not change:
            return False
        return is_restock(change, self.limits, layout.shards) if spread is None else spread
