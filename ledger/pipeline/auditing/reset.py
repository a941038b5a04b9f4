"""Resetting a pipeline to its beginning: what its records added is taken out of the totals.

The totals cannot just be deleted: entries may be merged into a net with those of others, several
pipelines may add to one category, and the version of a sum item may never go back, since of a lost
region's copies the highest counts. So the opposite is added::

    each state      deleted, in one transaction with a map item of the opposite of what it has in
                    the totals (image - transitions beyond their lanes' positions, as in an audit)
    map items       reduced as any others: to sums, or to entries whose note says so
    lanes           closed first, so that nothing lands beside; in the end at their beginning, with
                    a fence by which a worker, or a warm function, forgets what it knows of states

So each state is taken out once, wherever this is interrupted and however often it is run; what
others added stays; and a total that was damaged before is off by the same amount afterwards.

Refused while a lane is open, or its item is written within `QUIET_SECONDS`: the time in it is that
of another machine's clock, so it is looked at twice, and closed on condition that it is as it was
first. That no worker runs is what the end rests on: positions go back, and one that knows a lane's
former position would take new transitions for covered by it. To force it is for lanes whose workers
have died. What they had sent may still land in states that were searched: those are searched again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger.core.entry import Item, key_of, number_of
from ledger.core.errors import InvalidInput, LedgerError, Unreachable
from ledger.pipeline.auditing.task import TRIES_MAX, Task, TaskFindings, pages, quiet_store
from ledger.pipeline.core.category_sums import Changes, digest, divided, total
from ledger.pipeline.core.items import (
    MAP_PREFIX,
    POSITION_SORT_KEY,
    lane_id,
    map_item,
    position_key,
    state_key,
    state_of,
)
from ledger.pipeline.core.lane_state import LaneState
from ledger.pipeline.core.registry import (
    DIFFERENCE_LAST,
    DIFFERENCE_PREFIX,
    FORM_LAST,
    FORM_PREFIX,
    forgotten_in,
    region_key,
    registry_partition,
)
from ledger.pipeline.core.transitions import State, beyond
from ledger.pipeline.stages.state_writes import still_there
from ledger.runtime.services import Services
from ledger.settings.live import LiveSettings
from ledger.store.conditions import Absent, Has
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import Action, Applied, Check, Delete, Put, Rejected, Update

RESET_TASK = "reset"
RESET = "~reset"
"""The lane of each region in whose partition a reset puts map items."""
QUIET_SECONDS = 10.0
STATES_MAX = 25
"""States of one transaction, besides the map items of what they add: within 100 actions."""
REDUCED_MAX = 20
"""Transactions after which map items are reduced."""
TOLD_MAX = 10_000
"""Records between two progress lines."""
NAMED_MAX = 3
"""The most lanes named in an error."""
ENDED = "this reset was finished by another run of it"
PASSES_MAX = 20
"""Searches of the table, as long as each finds what workers wrote meanwhile."""


@dataclass(slots=True)
class ResetResult:
    """The result of a reset."""

    records: int = 0
    categories: set[str] = field(default_factory=set)
    lanes: int = 0


class Reset(Task):
    """One reset of a pipeline, over the stores of all regions of the table."""

    def __init__(
        self,
        stores: Mapping[str, Store],
        settings: LiveSettings,
        *,
        services: Services,
        is_forced: bool = False,
        on_progress: Callable[[str], None] = quiet_store,
    ) -> None:
        super().__init__(
            stores,
            settings,
            services=services,
            name=RESET_TASK,
            on_progress=on_progress,
        )
        self._is_forced = is_forced
        self._is_late = is_forced
        self._positions: dict[str, str] = {}
        self._waiting: dict[str, list[tuple[str, State]]] = {}
        self._unreduced = 0
        self._done = ResetResult()

    async def run(self) -> ResetResult:
        """Take all records out of the totals, and put every lane back to its beginning.

        Raises:
            InvalidInput: a lane is open or moves, and this is not forced; or an audit or a mend is
                under way.
            LedgerError: another run of it has finished it meanwhile, or workers do not stop.
            StoreError: a region does not answer; run again to continue.
        """
        await self.begin(is_audit=False)
        await self._close_all()
        await self._note_taking()
        for lane in list(self._positions):
            await self._reduce(lane)
        for _pass in range(PASSES_MAX):
            before = self._done.records
            await self._search()
            if not self._is_late or (_pass and self._done.records == before):
                break
            self.on_progress("searching again for what workers have written meanwhile")
            await self.clock.sleep(self.settings.current.write_deadline)
        else:
            raise LedgerError(f"workers still write states after {PASSES_MAX} searches: stop them")
        await self._take_forgotten()
        await self._empty()
        await self.end()
        return self._done

    async def _close_all(self) -> None:
        """Close every lane that is known, unless one is in use.

        Raises:
            InvalidInput: one is. Lanes that an interrupted run has closed continue, unless it has
                begun to take records out.
        """
        names = [lane for region in sorted(self.stores) for lane in await self.lanes(region)]
        known = {lane: await self.lane(lane) for lane in names}
        going = {lane: state for lane, state in known.items() if not state.is_closed}
        self._positions |= {lane: known[lane].position for lane in known.keys() - going.keys()}
        if self._is_forced:
            for lane in going:
                await self._close(lane)
            return
        if opened := sorted(lane for lane, state in going.items() if state.is_open):
            await self._refuse(opened, "is open: a worker runs it, or died in it")
        if going:
            self.on_progress(
                f"{len(going):,} lanes: looking for {QUIET_SECONDS:.0f} s whether one moves"
            )
            await self.clock.sleep(QUIET_SECONDS)
        moved = [lane for lane, state in going.items() if not await self._closed(lane, state)]
        if moved:
            await self._refuse(sorted(moved), "was written meanwhile: a worker runs it")

    async def _refuse(self, lanes: Sequence[str], how: str) -> None:
        """Free everything again, and report which lanes are in use.

        Raises:
            InvalidInput: always.
        """
        named = ", ".join(lanes[:NAMED_MAX])
        named += f" and {len(lanes) - NAMED_MAX:,} more" if len(lanes) > NAMED_MAX else ""
        advice = f"lane {named} {how}. Stop its worker first, or give --force"
        if await self._is_taking():
            raise InvalidInput(f"the reset was interrupted, and is not complete: {advice}")
        for region in sorted(self.stores):
            for lane in await self.lanes(region):
                if (await self.lane(lane)).is_resetting:
                    await self._put_back(lane, _as_before)
        await self.end()
        raise InvalidInput(f"nothing was reset: {advice}")

    async def _is_taking(self) -> bool:
        """Return whether a run has begun to take records out."""
        items = [await self._region(region) for region in self.stores]
        return any("taking" in (item or {}) for item in items)

    async def _note_taking(self) -> None:
        """Note that records are taken out from now on: what is closed stays closed to the end.

        Raises:
            LedgerError: another run has ended this one.
        """
        for region, store in sorted(self.stores.items()):
            key = region_key(region, self.pipeline)
            update = Update(key, set={"taking": {"BOOL": True}}, condition=self.ours)
            if not isinstance(await store.write(update), Applied):
                raise LedgerError(ENDED)

    async def _closed(self, lane: str, known: LaneState) -> bool:
        """Close a lane if it is unchanged; returns whether it was."""
        wanted = replace(known, is_closed=True, is_resetting=True, fence=known.fence + 1)
        if not await self.change_lane(lane, known, wanted):
            return False
        self._positions[lane] = known.position
        return True

    async def _close(self, lane: str) -> str:
        """Close a lane, and return its position, which no commit can move any more."""
        for _ in range(TRIES_MAX):
            known = await self.lane(lane)
            if known.is_closed:
                self._positions[lane] = known.position
            if known.is_closed or await self._closed(lane, known):
                return self._positions[lane]
        raise Unreachable(f"lane {lane} could not be closed in {TRIES_MAX} tries")

    async def _search(self) -> None:
        """Take out every state that is found, and delete other items in lanes' partitions."""
        async for page in self.scan():
            for found in page:
                await self._look_at(found)
        for region in sorted(self.stores):
            await self._take(region)
            await self._reduce(lane_id(region, RESET))

    async def _look_at(self, found: TaskFindings) -> None:
        """Process an item of a region: a state, or one in a lane's partition."""
        partition, sort_key = found.item["pk"]["S"], found.item["sk"]["S"]
        own = position_key("", self.pipeline)[0]
        if partition.startswith(own):
            await self._beside(found, partition.removeprefix(own), sort_key)
        elif (kept := self.state_in(found)) is not None:
            group = self._waiting.setdefault(found.region, [])
            group.append(kept)
            if len(group) == STATES_MAX:
                await self._take(found.region)

    async def _beside(self, found: TaskFindings, lane: str, sort_key: str) -> None:
        """Find a lane by an item of it, or delete what its worker keeps: claims, notes."""
        if sort_key == POSITION_SORT_KEY or sort_key.startswith(MAP_PREFIX):
            await self._position(lane)
        elif found.region == (self.store_of(lane) or self.home).region:
            key = (found.item["pk"]["S"], sort_key)
            await self.stores[found.region].write(Delete(key))

    async def _position(self, lane: str) -> str:
        """Return the position of a lane; one that was not known is closed first."""
        if lane in self._positions:
            return self._positions[lane]
        if lane.partition("/")[2] == RESET:
            return ""
        self._is_late = True
        position = await self._close(lane)
        await self._reduce(lane)
        return position

    async def _take(self, region: str) -> None:
        """Take out the waiting states: together, or else one by one."""
        group = self._waiting.pop(region, [])
        if not group:
            return
        if not await self._taken(region, group):
            for one in group:
                await self._take_alone(region, *one)
        before, self._done.records = self._done.records, self._done.records + len(group)
        if before // TOLD_MAX < self._done.records // TOLD_MAX:
            self.on_progress(f"{self._done.records:,} records taken out of the totals")
        self._unreduced += 1
        if self._unreduced >= REDUCED_MAX:
            self._unreduced = 0
            await self._reduce(lane_id(region, RESET))

    async def _take_alone(self, region: str, record_id: str, state: State) -> None:
        """Take a state out that may have been written, or taken out, meanwhile."""
        for _ in range(TRIES_MAX):
            if await self._taken(region, [(record_id, state)]):
                return
            key = state_key(record_id, self.pipeline)
            if (item := await self.stores[region].get(self.places.get(key))) is None:
                return
            state = state_of(item)
            if not await self.is_under_way(region):
                raise LedgerError(ENDED)
        raise Unreachable(f"record {record_id[:40]!r} could not be reset in {TRIES_MAX} tries")

    async def _taken(self, region: str, group: Sequence[tuple[str, State]]) -> bool:
        """Delete states, and put map items of the opposite of what they have in the totals.

        Returns whether that was done: if not, one was written meanwhile, or they are too much
        together.
        """
        added = [changes for _, state in group for changes in await self._added(state)]
        changes = {name: change.copy_negate() for name, change in total(added).items()}
        if (parts := divided(changes)) is None:
            return False
        partition = position_key(lane_id(region, RESET), self.pipeline)[0]
        revs = "#".join(f"{record_id}#{state.rev}" for record_id, state in group)
        name = digest(partition, revs, "", changes)
        deletes = [
            self.places.write(Delete(state_key(record_id, self.pipeline), still_there(state)))
            for record_id, state in group
        ]
        puts = [
            Put(map_item(lane_id(region, RESET), name, number, part, self.pipeline), Absent())
            for number, part in enumerate(parts)
            if part
        ]
        still = Check(region_key(region, self.pipeline), self.ours)
        self._done.categories |= changes.keys()
        outcome = await self.stores[region].transact([*deletes, *puts, still])
        return isinstance(outcome, Applied)

    async def _take_forgotten(self) -> None:
        """Take the forgotten sums out of the totals as well; then nothing is forgotten any more."""
        for item in await self.forgotten():
            own, category = forgotten_in(item)
            region = own if own in self.stores else self.home.region
            actions: list[Action] = [Delete(key_of(item), Has("pk"))]
            if category:
                change = number_of(item, "value").copy_negate()
                partition = position_key(lane_id(region, RESET), self.pipeline)[0]
                name = digest(partition, category, repr(item), {category: change})
                part = map_item(lane_id(region, RESET), name, 0, {category: change}, self.pipeline)
                actions.append(Put(part, Absent()))
                self._done.categories.add(category)
            else:
                self._done.records += int(number_of(item, "records"))
            still = Check(region_key(region, self.pipeline), self.ours)
            outcome = await self.stores[region].transact([*actions, still])
            if isinstance(outcome, Rejected) and len(actions) in outcome.found:
                raise LedgerError(ENDED)
        for region, store in sorted(self.stores.items()):
            await self._reduce(lane_id(region, RESET))
            await store.write(Update(region_key(region, self.pipeline), remove=("forgotten",)))

    async def _added(self, state: State) -> list[Changes]:
        """Return a state's part in the totals, or in map items: without what is beyond."""
        found: list[Changes] = [state.image.changes]
        for lane in state.open:
            open_ = beyond(state, lane, await self._position(lane)).values()
            found += [{name: one.copy_negate() for name, one in each.items()} for each in open_]
        return found

    async def _reduce(self, lane: str) -> None:
        """Add the map items of a lane to the totals, in its region."""
        store = self.store_of(lane) or self.home
        items = await self.map_items(lane, store)
        note = f"pipeline {self.pipeline}".rstrip() + ": reset"
        await self.reduce(store, items, note=note)

    async def _empty(self) -> None:
        """Put lanes back to their beginning, and delete the rest of the registry but for them."""
        for region in sorted(self.stores):
            for lane in await self.lanes(region):
                self._positions.setdefault(lane, "")
        for lane in sorted(self._positions):
            await self._put_back(lane, _at_its_beginning)
        self._done.lanes = len(self._positions)
        partition = registry_partition(self.pipeline)
        for store in self.stores.values():
            for first, last in ((FORM_PREFIX, FORM_LAST), (DIFFERENCE_PREFIX, DIFFERENCE_LAST)):
                query = Query(partition, first=first, last=last, attributes=("pk", "sk"))
                gone: list[Item] = [item async for item in pages(store, query)]
                for item in gone:
                    await store.write(Delete((partition, item["sk"]["S"])))

    async def _put_back(self, lane: str, changed: Callable[[LaneState], LaneState]) -> None:
        """Write a lane's new item, under a new fence."""
        for _ in range(TRIES_MAX):
            known = await self.lane(lane)
            wanted = replace(changed(known), rev=known.rev, fence=known.fence + 1)
            if not known.rev and not known.position:
                return
            if await self.change_lane(lane, known, wanted):
                return
        raise Unreachable(f"lane {lane} could not be put back in {TRIES_MAX} tries")


def _as_before(state: LaneState) -> LaneState:
    """Return a lane as it was before a reset closed it."""
    return replace(state, is_closed=False, is_resetting=False)


def _at_its_beginning(state: LaneState) -> LaneState:
    """Return a lane as before its first record; other attributes of its item stay."""
    begun = replace(_as_before(state), position="", form="", is_open=False, begun=None)
    return replace(begun, audit=0, retain="", required="", forgotten=0, forgotten_at=0)
