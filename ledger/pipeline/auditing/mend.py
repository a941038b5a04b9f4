"""Repairing what an audit has found: a dead lane's remains, and totals that were damaged.

**A lane.** Its item is closed first, so no commit of it can land any more, and everything beyond
its position belongs to this mend. Each state that has open transitions there is rewritten without
them, in one transaction with a map item of their sums, on condition that it is unchanged: so each
is counted once, wherever this is interrupted and however often it is run. Then the map items are
reduced as usual. In the end the lane stays closed, or may continue: its records are in their
states, and change nothing.

**A category.** The difference that the last audit kept is written as an entry whose note says so,
in one transaction that deletes it: once for each audit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from ledger.core import amounts, ids
from ledger.core.errors import InvalidInput, Unreachable
from ledger.pipeline.auditing.scan_checkpoints import Findings
from ledger.pipeline.auditing.task import TRIES_MAX, Task, TaskFindings, pages, quiet_store
from ledger.pipeline.core.category_sums import Changes, add_in, digest, total
from ledger.pipeline.core.items import (
    lane_id,
    map_item,
    position_key,
    state_item,
)
from ledger.pipeline.core.registry import (
    DIFFERENCE_LAST,
    DIFFERENCE_PREFIX,
    difference_key,
    registry_partition,
)
from ledger.pipeline.core.transitions import State, beyond, without
from ledger.pipeline.stages.state_writes import still_there
from ledger.runtime.services import Services
from ledger.settings.live import LiveSettings
from ledger.store.conditions import Absent, Equals
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.writes import Applied, Delete, Put
from ledger.writes.entry_plan import Change, plan_entry

MENDED = "~mended"
"""The lane of each region in whose partition a mend puts map items."""
REDUCED_MAX = 200
"""Map items that a mend makes before it reduces them."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What a mend has committed: open transitions of `records` records, and their sums."""

    records: int
    changes: Changes


class Mend(Task):
    """One mend of a pipeline, over the stores of all regions of the table."""

    def __init__(
        self,
        stores: Mapping[str, Store],
        settings: LiveSettings,
        *,
        services: Services,
        lane: str = "",
        closes: bool = False,
        on_progress: Callable[[str], None] = quiet_store,
    ) -> None:
        how = "--close " if closes else ""
        name = f"mend {how}{lane}".rstrip()
        super().__init__(stores, settings, services=services, name=name, on_progress=on_progress)
        self._lane = lane
        self._closes = closes
        self._found: dict[str, Decimal] = {}
        self._records = 0

    async def run_lane(self) -> Mended:
        """Commit what a lane left open; then it stays closed, or may continue under any form.

        Raises:
            InvalidInput: there is no such lane, or an audit or another mend is under way.
            StoreError: a region does not answer; run again to continue.
        """
        if not (await self.lane(self._lane)).rev:
            raise InvalidInput(f"lane {self._lane!r} was never opened: `REGION/NAME` names a lane")
        await self.begin(is_audit=False)
        position = await self._close()
        for region in sorted(self.stores):
            await self.reduce_own(region, MENDED)
        checkpoints = self.checkpoints(self._name)
        kept = await checkpoints.read()
        if kept is not None:
            self._records = kept[1]["records"]
            self._found = {name: amounts.of_text(by) for name, by in kept[1]["changes"].items()}
        async for page in self.scan(checkpoints, kept[0] if kept else None):
            for found in page:
                await self._take(found, position)
        await checkpoints.forget()
        for region in sorted(self.stores):
            await self.reduce_own(region, MENDED)
        if not self._closes:
            await self._reopen()
        await self.end()
        return Mended(self._records, total([self._found]))

    def findings(self) -> Findings:
        """Return what was committed so far."""
        changes = {name: amounts.to_text(change) for name, change in self._found.items()}
        return {"records": self._records, "changes": changes}

    async def _take(self, found: TaskFindings, position: str) -> None:
        """Commit what the lane left open in a state, if an item is one."""
        kept = self.state_in(found)
        if kept is not None and beyond(kept[1], self._lane, position):
            await self._commit(found, kept[0], kept[1], position)
            if self._records % REDUCED_MAX == 0:
                await self.reduce_own(found.region, MENDED)

    async def run_totals(self) -> dict[str, Decimal]:
        """Write the differences that the last audit found; returns those written, by category.

        Raises:
            InvalidInput: an audit or another mend is under way.
            StoreError: home does not answer; run again to continue.
        """
        await self.begin(is_audit=False)
        query = Query(
            registry_partition(self.pipeline), first=DIFFERENCE_PREFIX, last=DIFFERENCE_LAST
        )
        kept = [item async for item in pages(self.home, query)]
        written = {}
        for item in kept:
            category = item["sk"]["S"].removeprefix(DIFFERENCE_PREFIX)
            change, audit = amounts.of_text(item["change"]["N"]), item["audit"]["N"]
            if await self._write(category, change, audit):
                written[category] = change
        await self.end()
        return written

    async def _write(self, category: str, change: Decimal, audit: str) -> bool:
        """Write a difference as an entry once; returns whether it is written.

        Also if the difference is gone: an earlier try wrote it, whose answer was lost.
        """
        await self.settings.renew()
        settings = self.settings.current
        validity = self.settings.validity
        name = f"pipeline {self.pipeline}".rstrip()
        planned = plan_entry(
            Change(category, change, note=f"{name}: mended after audit {audit}"),
            region=self.home.region,
            settings=settings,
            now=self.clock.now(),
            suffix=ids.suffix_of(category, f"{name}#{audit}"),
            until=None if validity is None else validity.until,
        )
        key = difference_key(category, self.pipeline)
        gone = Delete(key, Equals("audit", {"N": audit}))
        if isinstance(await self.home.transact([planned.put, gone]), Applied):
            return True
        return await self.home.get(Get(key)) is None

    async def _close(self) -> str:
        """Close the lane, and return its position, which no commit can move any more."""
        for _ in range(TRIES_MAX):
            known = await self.lane(self._lane)
            if known.is_closed:
                return known.position
            wanted = replace(known, is_closed=True, fence=known.fence + 1)
            if await self.change_lane(self._lane, known, wanted):
                return known.position
        raise Unreachable(f"lane {self._lane} could not be closed in {TRIES_MAX} tries")

    async def _reopen(self) -> None:
        known = await self.lane(self._lane)
        wanted = replace(known, is_closed=False, is_open=False, begun=None, fence=known.fence + 1)
        if not await self.change_lane(self._lane, known, wanted):
            raise Unreachable(f"lane {self._lane} could not be freed: run it again")

    async def _commit(
        self, found: TaskFindings, record_id: str, state: State, position: str
    ) -> None:
        """Take a lane's open transitions out of a state, and put their sums into a map item."""
        store = self.stores[found.region]
        lane = lane_id(found.region, MENDED)
        partition = position_key(lane, self.pipeline)[0]
        for _ in range(TRIES_MAX):
            left = beyond(state, self._lane, position)
            if not left:
                return
            changes = total(left.values())
            new = without(state, self._lane, position)
            put = Put(state_item(record_id, new, self.pipeline), still_there(state))
            puts = [self.places.write(put)]
            if changes:
                name = digest(partition, f"{record_id}#{state.rev}", max(left), changes)
                item = map_item(lane, name, 0, changes, self.pipeline)
                puts.append(Put(item, Absent()))
            if isinstance(await store.transact(puts), Applied):
                add_in(self._found, changes)
                self._records += 1
                return
            now = await self.read_state(found.region, record_id)
            if now is None:
                return
            state = now
        raise Unreachable(f"record {record_id[:40]!r} could not be mended in {TRIES_MAX} tries")
