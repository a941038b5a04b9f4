"""A counter in items of one table: its changes, what all of them come to, and how it is arranged.

The table's layout says how many items there are; `placement` to which of them a change goes.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Self

from ledger.core import amounts
from ledger.core.amounts import check_bool
from ledger.core.entry import Item
from ledger.core.errors import (
    InvalidInput,
    RequestRefused,
    StateConflict,
    StoreError,
    Unreachable,
)
from ledger.core.reconciliation import Reconciled
from ledger.core.tokens import Details, Marker
from ledger.primitives.counters import shard_balance
from ledger.primitives.counters.addition import after_doubt
from ledger.primitives.counters.counter import Guarantees, ReconcileOutcome, keeps_nothing
from ledger.primitives.counters.hand_over_tokens import doubt_of, is_doubtful
from ledger.primitives.counters.layout import (
    Layout,
    LayoutMoved,
    checked_shards,
    is_readable,
    moves_of,
)
from ledger.primitives.counters.layout_changes import CounterLayout, Layouts
from ledger.primitives.counters.new_tokens import new_token
from ledger.primitives.counters.placement import PLANS_MAX, PlacedItems
from ledger.primitives.counters.reconciliation import CounterReconciliation, asked, record_put
from ledger.primitives.counters.shard_balance import parts_for
from ledger.primitives.counters.shards import sharded_guarantees
from ledger.primitives.tokens import checked_token
from ledger.runtime.call_deadlines import arranging, changing, reading
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import (
    Applied,
    FinalOutcome,
    Outcome,
    Rejected,
    Unknown,
)

SHARDS_AT_ONCE = 16
GOES_ON = "the next call continues what was begun"
LAYOUTS_MAX = 8
"""How often a call continues with a new layout, or reads again while pieces are moved."""


class ItemCounter(PlacedItems):
    """A counter in one item, or in several shards, for more writes per second.

    `shards` is a wish for a counter that is new, or has fewer; the table says how many there are.
    `guarantees` are those of the number wished for.

    Raises:
        InvalidInput: `shards` is not a whole number from 1 to 96.
    """

    guarantees: Guarantees

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        services: Services,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
        shards: int | None = None,
    ) -> None:
        super().__init__(store, name, services=services, minimum=minimum, maximum=maximum)
        if shards is not None:
            self.guarantees = sharded_guarantees(type(self), checked_shards(shards))
        self._layout = CounterLayout(
            store,
            name,
            self.kind,
            wanted=shards or 1,
            services=services,
        )

    def share(self, layouts: Layouts, *, is_guarded: bool = False) -> None:
        """Take and remember layouts in common with the other counters of a process.

        With `is_guarded` a counter that another region writes is refused.
        """
        self._layout.remembered = layouts
        self._layout.is_guarded = is_guarded

    async def add(
        self,
        change: int | Decimal,
        *,
        token: str | None = None,
        details: Details | None = None,
        spread: bool | None = None,
        timeout: float | None = None,
    ) -> Outcome:
        """Change the value; see `Counter.add`.

        With shards, a change that adds to stock (above a `minimum`, or below a `maximum`, that the
        other direction goes towards) and gives each shard a whole unit is spread evenly over all of
        them, in one transaction; `spread` says so, or that it is not, for any change.

        Raises:
            MethodConflict: the table keeps the counter by another method; nothing was written.
            RegionConflict: another region writes it, or wrote it until an hour ago and may have
                used the token; nothing was written. Only counters of a `Table` look at that.
            InvalidInput: this method does not spread, or that number of shards is not possible.
            And as `Counter.add`.
        """
        if details is not None:
            kept = self.keeping(details)
            return await kept.add(change, token=token, spread=spread, timeout=timeout)
        amount, token = amounts.exact(change), checked_token(token)
        if spread is not None and check_bool("spread", spread) and not self.splits:
            raise InvalidInput(f"counter {self.name!r}: this method cannot spread a change")
        with changing(timeout):
            return await self._added(amount, token, spread=spread)

    def keeping(self, details: Details) -> Self:
        """Return the same counter, whose changes are kept with these details.

        Raises:
            InvalidInput: the method does not support it, or it breaks a rule.
        """
        del details
        raise keeps_nothing(self.name, "details")

    async def lookup(self, token: str, *, timeout: float | None = None) -> Marker | None:
        """Return what was made under a token; see `Counter.lookup`."""
        del token, timeout
        raise keeps_nothing(self.name, "markers")

    async def value(self, *, consistent: bool = True, timeout: float | None = None) -> Decimal:
        """Return the value in this region; see `Counter.value`.

        Of several shards it is the sum, each read at a moment of its own, and none of before a
        change of layout or a move of pieces beside one of after it.

        Raises:
            MethodConflict: as `add`.
            Unreachable: layout or pieces were changed during each of several reads.
            And as `Counter.value`.
        """
        check_bool("consistent", consistent)
        with reading(timeout):
            return await self._total(consistent=consistent)

    async def _total(self, *, consistent: bool) -> Decimal:
        for tries in range(1, LAYOUTS_MAX + 1):
            again = tries > 1
            consistent = consistent or again
            layout = await self._layout.to_read(again=again, consistent=consistent)
            if layout is None:
                return Decimal(0)
            try:
                values, _ = await self._values(layout, consistent=consistent)
                return amounts.total(values)
            except LayoutMoved:
                await self.retrier.pause(tries)
        raise self._restless()

    async def reconcile(
        self,
        *,
        counted: int | Decimal,
        at: datetime | None = None,
        value: int | Decimal | None = None,
        reason: str | None = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> ReconcileOutcome:
        """Correct the value by a physical count; see `Counter.reconcile`."""
        now = self.clock.now()
        count = asked(
            self.name,
            counted=counted,
            at=at,
            value=value,
            reason=reason,
            token=token,
            now=now,
            made=new_token(now, self.randomness),
        )
        with changing(timeout):
            return await self._reconciled(count, is_new=token is None and at is None)

    async def _reconciled(self, count: CounterReconciliation, *, is_new: bool) -> ReconcileOutcome:
        doubt: str | None = None
        for tries in range(LAYOUTS_MAX):
            try:
                if tries:
                    await self._layout.renewed()
                    await self.retrier.pause(tries)
                record = await self.store.get(Get(count.key))
                if record is not None:
                    return count.repeated(record)
                final = await self._corrected(count, is_new=is_new)
            except LayoutMoved:
                continue
            except (StateConflict, StoreError) as error:
                if doubt is None:
                    raise
                return Unknown(f"{doubt}; then {error}", count.token)
            match final:
                case FinalOutcome(outcome=Unknown(cause)):
                    return Unknown(cause, count.token)
                case FinalOutcome():
                    doubt = final.doubt or doubt
                case Rejected() if doubt is not None:
                    return Unknown(doubt, count.token)
                case _:
                    return final
        return Unknown(doubt, count.token) if doubt else Rejected("contention", "others were first")

    async def _corrected(
        self, count: CounterReconciliation, *, is_new: bool
    ) -> Reconciled | Rejected | FinalOutcome:
        """Look, and correct by one transaction; returns its outcome where it is not applied."""
        layout = await self._layout.in_use()
        if not is_new and is_doubtful(layout, count.token, self.clock.now()):
            raise doubt_of(self.name, layout, count.token)
        values, _ = await self._values(layout, consistent=True)
        done = count.against(amounts.total(values), self.store.region)
        shares = parts_for(
            done.change, values, layout.all_limits(self.limits), first=0, split=self.splits
        )
        if not shares:
            return Rejected("threshold", str(self.limits))
        parts = layout.parts(self.limits, shares) if done.change else []
        actions = [record_put(done), *await self.corrections(parts)]
        try:
            final = await self.retrier.until_answered(partial(self.store.transact, actions))
        except RequestRefused:
            await self._check_overflow(parts)
            raise
        return done if isinstance(final.outcome, Applied) else final

    async def shards(self, *, timeout: float | None = None) -> int:
        """Return how many shards there are.

        Raises:
            ReadTooSlow: `timeout` seconds ended.
            And as `add`.
        """
        with reading(timeout):
            return (await self._layout.in_use()).shards

    async def even_out(self, *, timeout: float | None = None) -> bool:
        """Move pieces so that all shards hold even portions, by one transaction; the sum stays.

        Returns whether they do now: False where thresholds do not let them, or others moved
        pieces each time. There is no need to call it: changes without room do the same where
        that pays.

        Raises:
            InvalidInput: a set of slots has no pieces that could be moved.
            AmountOverflow: no even portions fit in 38 digits.
            NotSent, OutcomeUnknown: `timeout` seconds ended; the sum stays in any case.
        """
        if not self.splits:
            raise InvalidInput(f"counter {self.name!r}: this method has no pieces to be moved")
        with arranging(timeout, "pieces may be moved, the sum is the same"):
            return await self._evened()

    async def _evened(self) -> bool:
        for _ in range(PLANS_MAX):
            layout = await self._layout.in_use()
            try:
                values, moves = await self._values(layout, consistent=True)
            except LayoutMoved:
                await self._layout.renewed()
                continue
            deltas = shard_balance.balance_shards(values, layout.all_limits(self.limits))
            if deltas is None:
                return shard_balance.are_even(values)
            await self._moved(layout, deltas, moves)
        return False

    async def convert(self, *, shards: int | None = None, timeout: float | None = None) -> None:
        """Keep the counter by this method, and in this many shards, whatever its method was.

        Its value is divided evenly. Nothing is lost or counts twice while others go on: they use
        the new layout from their next change on, or are refused if their method is of another kind.
        It may end at any point; the next caller finishes what was begun. Without `shards` their
        number stays.

        Raises:
            InvalidInput: of more than 96 items, 48 where the kind changes, or of a set of slots.
            AmountOverflow: no item could hold the sum.
            NotSent, OutcomeUnknown: `timeout` seconds ended, before or after it was begun.
            Unreachable: there was no answer; the next call continues what was begun.
        """
        if shards is not None:
            checked_shards(shards)
        with arranging(timeout, GOES_ON):
            await self._layout.convert(shards)

    async def hand_over(
        self, region: str, *, lost: str | None = None, timeout: float | None = None
    ) -> None:
        """Let another region of the table write this counter from now on; for good.

        Call it in the region that writes. Its callers are then refused (`RegionConflict`),
        and those of the other region go on once all items have arrived there: until then they
        are refused, or find others first. If the region that writes is lost for good, call it in
        another and name it as `lost`: what it did not replicate is lost with it. Only with
        `lost` is a new layout made from items that have not all arrived.

        It may end at any point; call it again.

        Raises:
            RegionConflict: another region writes it than this one, or than the lost one.
            RegionConflict: not all items of the counter have arrived here since it was handed over.
            InvalidInput: of more than 96 items, or to what is not the name of a region.
            NotSent, OutcomeUnknown: `timeout` seconds ended, before or after it was begun.
            Unreachable: there was no answer; the next call continues what was begun.
        """
        with arranging(timeout, GOES_ON):
            await self._layout.hand_over(region, lost=lost)

    async def _added(self, amount: Decimal, token: str | None, *, spread: bool | None) -> Outcome:
        """Make a change by the layout in use, again as long as that turns out to be another."""
        layout, doubt = await self._layout.in_use(), None
        for _ in range(LAYOUTS_MAX):
            try:
                outcome = await self._placed(layout, amount, token, spread=spread)
                return after_doubt(doubt, self._said(outcome, layout, token))
            except LayoutMoved as moved:
                doubt = doubt or moved.doubt
            except StoreError as error:
                if doubt is None:
                    raise
                return Unknown(f"{doubt}; then {error}")
            try:
                await self._layout.renewed()
                layout = await self._layout.in_use()
            except (StateConflict, StoreError) as error:
                if doubt is None:
                    raise
                return Unknown(f"{doubt}; then {error}")
        return after_doubt(doubt, Rejected("contention", "the number of shards changed each time"))

    async def _values(self, layout: Layout, *, consistent: bool) -> tuple[list[Decimal], int]:
        """Return what each shard holds, and how often pieces were moved between them.

        `LayoutMoved` is raised if a shard belongs to another layout.
        """
        for tries in range(1, LAYOUTS_MAX + 1):
            reads = [
                partial(self.item, shard, consistent=consistent or tries > 1)
                for shard in range(layout.shards)
            ]
            items: Sequence[Item | None] = await run_all(reads, at_once=SHARDS_AT_ONCE)
            if not all(is_readable(item, layout.revision) for item in items):
                raise LayoutMoved
            moves = set(map(moves_of, items))
            if len(moves) == 1:
                return [self.value_in(item) for item in items], moves.pop()
            await self.retrier.pause(tries)
        raise self._restless()

    def _said(self, outcome: Outcome, layout: Layout, token: str | None) -> Outcome:
        """Return an outcome in terms of the counter: a shard's value is not the counter's."""
        if layout.shards == 1:
            return outcome
        if isinstance(outcome, Applied):
            return Applied()
        if isinstance(outcome, Unknown) and token is None and self.known_in == "item":
            return Unknown(outcome.cause)  # the token made for it belongs to another shard
        return outcome

    def _restless(self) -> Unreachable:
        return Unreachable(f"counter {self.name!r}: its shards changed during each read")
