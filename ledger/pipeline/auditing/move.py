"""Moving a pipeline's states into a separate table, or back, while lanes run.

1. The registry of every region says where the states are from now on, and where others may still
be.
2. Every lane's item is marked so, under a new fence: workers under the former settings can no
longer
   commit anything. A lane that begins reads the registry after its entry is in it, so it is either
   marked here or marks itself.
3. Workers whose settings name the new place continue, and look at both; so a lane waits only for
its
   worker's restart.
4. Each state that is still at the former place is moved, in one transaction, on condition that it
is
   unchanged; a worker may be faster. One that is left there besides one at its own place was
   written by a worker that had been fenced: it is in no total, and is deleted.
5. The registry forgets the place before.

No audit runs meanwhile: it would read a state twice, or never. If interrupted, it is run again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ledger.core.entry import Item
from ledger.core.errors import InvalidInput, Unreachable
from ledger.pipeline.auditing.scan_checkpoints import Findings
from ledger.pipeline.auditing.task import TRIES_MAX, Task, TaskFindings, quiet_store
from ledger.pipeline.core.items import (
    state_item,
    state_key,
    state_of,
)
from ledger.pipeline.core.registry import region_key
from ledger.pipeline.core.state_places import StatePlaces, in_table, named, places_of, shown
from ledger.pipeline.core.transitions import State
from ledger.pipeline.stages.state_writes import still_there
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Delete, Update

MOVES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a move: states moved by it, states moved by lanes, lanes marked."""

    records: int
    lanes: int


class Move(Task):
    """One move of a pipeline's states to where the settings say, in all regions of the table."""

    def __init__(
        self,
        stores: Mapping[str, Store],
        settings: LiveSettings,
        *,
        services: Services,
        on_progress: Callable[[str], None] = quiet_store,
    ) -> None:
        target = settings.current.pipeline.state_table or ""
        name = f"move-states to {shown(target)}"
        super().__init__(stores, settings, services=services, name=name, on_progress=on_progress)
        self._records = 0

    async def run(self) -> Moved:
        """Move the states to the table that the settings name, from wherever they are.

        Raises:
            InvalidInput: an audit, a mend or another move is under way.
            StoreError: a region does not answer; run again to continue.
        """
        await self.begin(is_audit=False)
        if self.places.before is None:
            await self.end()
            return Moved(0, 0)
        await self._announce(self.places.before)
        lanes = 0
        for region in sorted(self.stores):
            for lane in await self.lanes(region):
                lanes += await self._mark(lane)
        await self._move_all(self.places.before)
        for region, store in sorted(self.stores.items()):
            await store.write(Update(region_key(region, self.pipeline), remove=("before",)))
        await self.end()
        return Moved(self._records, lanes)

    def _check_places(self, regions: Sequence[Item | None]) -> None:
        """Find out where states are that must be moved, also by an interrupted move."""
        target = self.places.table
        found = list(map(places_of, regions))
        before = {places.before for places in found} - {None}
        others = ({places.table for places in found} | before) - {target}
        if len(others) > 1:
            names = ", ".join(sorted(shown(other or "") for other in others))
            raise InvalidInput(f"states are on their way from {names}: finish that move first")
        self.places = StatePlaces(target, next(iter(others), None))

    def findings(self) -> Findings:
        """Return how many states were moved so far."""
        return {"records": self._records}

    async def _announce(self, before: str) -> None:
        """Record in every region where the states are, and where others may be."""
        values = {"states": {"S": named(self.places.table)}, "before": {"S": named(before)}}
        for region, store in sorted(self.stores.items()):
            await store.write(Update(region_key(region, self.pipeline), set=values))

    async def _mark(self, lane: str) -> bool:
        """Mark a lane, and fence its worker; returns whether it was unmarked."""
        for _ in range(TRIES_MAX):
            known, states = await self.lane(lane), named(self.places.table)
            if known.states == states:
                return False
            wanted = replace(known, states=states, fence=known.fence + 1)
            if await self.change_lane(lane, known, wanted):
                return True
        raise Unreachable(f"lane {lane} could not be marked in {TRIES_MAX} tries")

    async def _move_all(self, before: str) -> None:
        checkpoints = self.checkpoints(self._name)
        kept = await checkpoints.read()
        if kept is not None:
            self._records = kept[1]["records"]
        async for page in self.scan(checkpoints, kept[0] if kept else None, tables=(before,)):
            states = [(found, self.state_at(found, before)) for found in page]
            jobs = [partial(self._move, found, *one) for found, one in states if one is not None]
            if jobs:
                await run_all(jobs, at_once=MOVES_AT_ONCE)
        await checkpoints.forget()

    async def _move(self, found: TaskFindings, record_id: str, state: State) -> None:
        """Move a state, unless a worker has, and delete it if one exists at its own place."""
        store, key = self.stores[found.region], state_key(record_id, self.pipeline)
        before = self.places.before or ""
        for _ in range(TRIES_MAX):
            item = state_item(record_id, state, self.pipeline)
            moved = self.places.move(item, key, still_there(state))
            if isinstance(await store.transact(moved), Applied):
                self._records += 1
                return
            if await store.get(self.places.get(key)) is not None:
                await store.write(in_table(before, Delete(key)))
                return
            now = await store.get(Get(key, table=before))
            if now is None:
                return
            state = state_of(now)
        raise Unreachable(f"record {record_id[:40]!r} could not be moved in {TRIES_MAX} tries")
