"""Maintaining the index: items after a fold, and missing or old items that the search finds.

::

    fold applied ── noted ── 25 of them, or the end of the pass ──> items put, if not newer there
    search ── each page: items read ── missing, or older than the net ──> net read, item put
           ── an item of an earlier generation, this one's is everywhere ──> deleted

The item follows the fold, so it never has a state that no net had. A crash in between, an item that
lost against an older one of another home, and counters without a net are left to the search, which
corrects them within `scan_every`. Nothing depends on the index, so errors here fail no pass.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from compactor.merge_plan import MergeRules
from compactor.metrics import CompactorMetrics
from ledger.core.entry import Key
from ledger.core.errors import DamagedItem, LedgerError, StoreError
from ledger.core.index import (
    ONLY_LISTED,
    IndexState,
    attributes_of,
    index_key,
    index_place,
    state_of,
)
from ledger.core.values import NetChange
from ledger.reads.collection import read_net
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.store.conditions import Absent, AllOf, AnyOf, Compares, Condition, Equals
from ledger.store.port import Store
from ledger.store.reads import EACH_GETS_MAX, Get
from ledger.store.writes import EACH_WRITES_MAX, Delete, Put, Rejected, Update

REPAIRS_MAX = 100_000
"""Items that the search of one pass corrects: a new pattern of many counters takes several."""
REPAIRS_AT_ONCE = 16
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Noted:
    """An item to be put into the index; `is_new` if it probably has none for this collection.

    An existing one that `is_damaged`, edited by hand, is replaced in any case.
    """

    state: IndexState
    is_new: bool
    is_damaged: bool = False


class Indexer:
    """The index as one pass maintains it, through the home region.

    `others` are the stores of the other regions, `generation` is that of the contract.
    """

    def __init__(
        self,
        home: Store,
        *,
        others: Sequence[Store] = (),
        generation: int,
        clock: Clock,
        metrics: CompactorMetrics,
    ) -> None:
        self._home = home
        self._others = others
        self._generation = generation
        self._clock = clock
        self._metrics = metrics
        self._noted: dict[Key, Noted] = {}
        self._repairs_left = REPAIRS_MAX

    async def folded(
        self,
        partition: str,
        before: NetChange | None,
        fold: NetChange | None,
        *,
        is_applied: bool,
        rules: MergeRules,
    ) -> None:
        """Note the result of a fold, if it is known to be applied and counts more than before."""
        if fold is None or not fold.count or not is_applied or not rules.indexes(partition):
            return
        state, key = IndexState.of(fold), index_key(partition, self._generation)
        if key is None or not state.replaces(IndexState.of(before)):
            return
        self._noted[key] = Noted(state, before is None)
        if len(self._noted) >= EACH_WRITES_MAX:
            await self.flush()

    async def flush(self) -> None:
        """Put the noted items."""
        noted, self._noted = self._noted, {}
        await self._put(noted)

    async def saw(self, shown: Mapping[str, IndexState]) -> None:
        """Compare the index with collections as a search saw them, and correct it."""
        keys = {partition: index_key(partition, self._generation) for partition in shown}
        named = {key: partition for partition, key in keys.items() if key is not None}
        places = list(named)
        for start in range(0, len(places), EACH_GETS_MAX):
            if self._repairs_left <= 0:
                return
            some = places[start : start + EACH_GETS_MAX]
            try:
                await self._compare({key: (named[key], shown[named[key]]) for key in some})
            except LedgerError as error:
                self._failed(error)

    async def met(self, found: Iterable[Key]) -> None:
        """Delete index items of earlier generations, once every region shows this generation's.

        Until then they list the counter: a delete may reach a region before the item that was put
        earlier. An item without a successor, as its collection went with the lost home, stays.
        """
        outdated: dict[Key, Key] = {}
        for key in found:
            place = index_place(key[1])
            if place is not None and place.generation < self._generation:
                outdated[key] = place._replace(generation=self._generation).key
        places = list(outdated)
        try:
            for start in range(0, len(places), EACH_WRITES_MAX):
                some = {key: outdated[key] for key in places[start : start + EACH_WRITES_MAX]}
                await self._delete_followed(some)
        except StoreError as error:
            self._failed(error)

    async def _delete_followed(self, outdated: Mapping[Key, Key]) -> None:
        """Delete items whose successor every region shows."""
        followers = list(dict.fromkeys(outdated.values()))
        gets = [Get(key, consistent=False) for key in followers]
        reads = [partial(store.get_each, gets) for store in (self._home, *self._others)]
        found = await run_all(reads, at_once=len(reads))
        shown = zip(followers, *(view.items for view in found), strict=True)
        there = {key for key, *items in shown if None not in items}
        deletes = [Delete(key) for key, follower in outdated.items() if follower in there]
        outcomes = (await self._home.write_each(deletes)).outcomes if deletes else ()
        for outcome in outcomes:
            if isinstance(outcome, StoreError):
                self._failed(outcome)

    async def _compare(self, shown: Mapping[Key, tuple[str, IndexState]]) -> None:
        found = await self._home.get_each([Get(key, consistent=False) for key in shown])
        stale: dict[Key, tuple[str, Noted]] = {}
        for (key, (partition, state)), item in zip(shown.items(), found.items, strict=True):
            try:
                if state.replaces(None if item is None else state_of(item)):
                    stale[key] = partition, Noted(state, item is None)
            except DamagedItem:
                stale[key] = partition, Noted(state, is_new=False, is_damaged=True)
        self._repairs_left -= len(stale)
        reads = [partial(self._as_it_is, *each) for each in stale.values()]
        noted = await run_all(reads, at_once=REPAIRS_AT_ONCE) if reads else []
        await self._put(dict(zip(stale, noted, strict=True)))

    async def _as_it_is(self, partition: str, noted: Noted) -> Noted:
        """Return the net's current state, which may be newer than what the search saw."""
        try:
            net = await read_net(self._home, partition)
        except DamagedItem:  # its total is unknown
            net = None
        if net is not None and net.generation > self._generation:  # not one of this table
            net = None
        return replace(noted, state=IndexState.of(net))

    async def _put(self, noted: Mapping[Key, Noted]) -> None:
        places = list(noted)
        starts = range(0, len(places), EACH_WRITES_MAX)
        chunks = [{key: noted[key] for key in places[at : at + EACH_WRITES_MAX]} for at in starts]
        if chunks:
            await run_all(
                [partial(self._put_some, chunk) for chunk in chunks], at_once=REPAIRS_AT_ONCE
            )

    async def _put_some(self, noted: Mapping[Key, Noted]) -> None:
        """Put items by their expected condition, new or existing; then those that failed it."""
        try:
            writes = [self._expected(key, one) for key, one in noted.items()]
            each = await self._home.write_each(writes)
            for key, outcome in zip(noted, each.outcomes, strict=True):
                if isinstance(outcome, StoreError):
                    self._failed(outcome)
                elif isinstance(outcome, Rejected):
                    await self._home.write(self._any(key, noted[key]))
        except StoreError as error:
            self._failed(error)

    def _expected(self, key: Key, noted: Noted) -> Put | Update:
        if noted.is_damaged:
            return self._any(key, noted)
        if noted.is_new or noted.state == ONLY_LISTED:
            return self._any(key, noted)._replace(condition=Absent())
        attributes = attributes_of(noted.state, self._clock.now())
        return Update(key, set=attributes, condition=not_newer(noted.state))

    def _any(self, key: Key, noted: Noted) -> Put:
        """Return the put that replaces whatever may be replaced."""
        named = {"pk": {"S": key[0]}, "sk": {"S": key[1]}}
        item = {**named, **attributes_of(noted.state, self._clock.now())}
        return Put(item, None if noted.is_damaged else AnyOf((Absent(), not_newer(noted.state))))

    def _failed(self, error: LedgerError) -> None:
        log.warning("the index is behind until the next search: %s", error)
        self._metrics.error(error)


def not_newer(state: IndexState) -> Condition:
    """Return the condition that an existing item is not newer than a state."""
    generation, count = {"N": str(state.generation)}, {"N": str(state.count)}
    same = (Equals("generation", generation), Compares("count", "<=", count))
    return AnyOf((Compares("generation", "<", generation), AllOf(same)))
