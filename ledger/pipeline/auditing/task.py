"""One audit, mend or rebuild of a pipeline at a time, and their shared reads of its items.

Each region's registry item records what is under way. The same task continues it, its scan where it
was interrupted; another task is refused until it has ended.

A store for callers whose writes may be repeated without harm: no outcome is unknown.

A write of unknown outcome is sent again until it is answered. A conditional write that was applied
without an answer is then rejected: the caller reads again, as after any rejection.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from random import Random

from ledger.core.entry import AttributeValue, Item
from ledger.core.errors import InvalidInput, LedgerError, Unreachable
from ledger.pipeline.auditing.scan_checkpoints import Checkpoints, Findings, ScanPosition
from ledger.pipeline.core.items import (
    MAP_LAST,
    MAP_PREFIX,
    POSITION_SORT_KEY,
    STATE_SORT_KEY,
    MapItem,
    lane_id,
    map_item_of,
    position_key,
    state_key,
    state_of,
)
from ledger.pipeline.core.lane_state import LaneState, lane_item, lane_state_of, still
from ledger.pipeline.core.registry import (
    FORGOTTEN_LAST,
    FORGOTTEN_PREFIX,
    LANE_PREFIX,
    audit_of,
    forgotten_in,
    lane_entry,
    last_audit_of,
    region_key,
    registry_partition,
    task_of,
)
from ledger.pipeline.core.state_places import StatePlaces, places_of, shown
from ledger.pipeline.core.transitions import State
from ledger.pipeline.metrics import PipelineMetrics, StageMetrics
from ledger.pipeline.stages.reduce_stage import ReduceStage
from ledger.runtime.clock import Clock
from ledger.runtime.services import Services
from ledger.settings.live import LiveSettings
from ledger.store.conditions import AllOf, AnyOf, Condition, Equals, Has, Not
from ledger.store.port import Store
from ledger.store.reads import Get, Query, Scan
from ledger.store.retrier import Retrier
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Action, Applied, Outcome, Put, Unknown, Update, Write


class AnsweredStore(ForwardingStore):
    """A `Store` whose single writes and transactions are applied, are rejected, or raise.

    Raises:
        Unreachable: from `write` and `transact`: no request was answered; it may have
            been applied.
    """

    def __init__(self, inner: Store, *, clock: Clock, randomness: Random) -> None:
        super().__init__(inner)
        self._retrier = Retrier.of(inner, clock=clock, randomness=randomness)

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        return await self._answered(partial(self._inner.write, write))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        return await self._answered(partial(self._inner.transact, actions, token=token))

    async def _answered(self, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        outcome = (await self._retrier.until_answered(send)).outcome
        if isinstance(outcome, Unknown):
            raise Unreachable.unanswered(
                f"{self.region}: a write was not answered ({outcome.cause}), and may have been"
                " applied: run this again to continue"
            )
        return outcome


UNDER_WAY = ("task", "run", "audit", "required", "forgetting", "taking")
"""Attributes of a region's item while something is under way."""
_RUN_BITS = 64
TRIES_MAX = 50
"""Tries of a write of a lane's item: each rejection means that its worker committed a batch."""
REPORT_PAGES = 100
"""Items of a scan between two progress lines: 100 MB."""
PAGES_MAX = 10_000_000
"""Pages of one scan: more than a table of any size has."""


@dataclass(frozen=True, slots=True)
class TaskFindings:
    """An item of the pipeline that a scan of its region has found."""

    region: str
    item: Item
    table: str = ""


class Task:
    """What audits, mends and rebuilds share: the stores of all regions, and one claim on them.

    `on_progress` is called with how far the work has come, a line now and then.
    """

    def __init__(
        self,
        stores: Mapping[str, Store],
        settings: LiveSettings,
        *,
        services: Services,
        name: str,
        on_progress: Callable[[str], None],
    ) -> None:
        self.stores: Mapping[str, Store] = {
            region: AnsweredStore(store, clock=services.clock, randomness=services.randomness)
            for region, store in stores.items()
        }
        self.on_progress = on_progress
        self.settings = settings
        self.clock = services.clock
        self.pipeline = settings.current.pipeline.name
        self._name = name
        self._run = ""
        self._random = services.randomness
        self.places = StatePlaces(settings.current.pipeline.state_table or "")

    @property
    def home(self) -> Store:
        """The store of the table's home."""
        return self.stores[self.settings.current.home]

    async def begin(
        self, *, is_audit: bool, asks: Mapping[str, AttributeValue] | None = None
    ) -> int:
        """Claim every region; returns the number of the audit, that of the one continued, if any.

        `asks` are further attributes of the registry item, for lanes to see.

        Raises:
            InvalidInput: something else is under way.
            StoreError: a region does not answer; the next run continues what was claimed.
        """
        items = [await self._region(region) for region in sorted(self.stores)]
        self._check_places(items)
        self._run = self._run_of(items, asks or {})
        running = max(map(audit_of, items))
        number = running or max(map(last_audit_of, items)) + 1
        for region, store in sorted(self.stores.items()):
            values = {"task": {"S": self._name}, "run": {"S": self._run}, **(asks or {})}
            if is_audit:
                values |= {"audit": {"N": str(number)}, "last": {"N": str(number)}}
            await self._claim(region, store, values)
        self._check_places([await self._region(region) for region in sorted(self.stores)])
        return number

    def _run_of(self, items: Sequence[Item | None], asks: Mapping[str, AttributeValue]) -> str:
        """Return the id of the run to continue, if it asks the same of all; else a new one.

        A checkpoint has it: those of an earlier run, or of a process that was stopped and woke
        after its run had ended, are not used.
        """
        wanted = {"task": {"S": self._name}, **asks}
        claimed = [item for item in items if task_of(item)]
        found = {str((item or {}).get("run", {}).get("S", "")) for item in claimed}
        is_same = all(
            item is not None and wanted.items() <= {name: item.get(name) for name in wanted}.items()
            for item in claimed
        )
        if is_same and len(found) == 1 and "" not in found:
            return found.pop()
        return f"{self._random.getrandbits(_RUN_BITS):016x}"

    async def _claim(self, region: str, store: Store, values: Mapping[str, AttributeValue]) -> None:
        """Claim a region.

        Raises:
            InvalidInput: something else is under way there.
        """
        free = AnyOf((Not(Has("task")), Equals("task", {"S": self._name})))
        claim = Update(region_key(region, self.pipeline), set=values, condition=free)
        for _ in range(TRIES_MAX):
            if isinstance(await store.write(claim), Applied):
                return
            task = task_of(await self._region(region))
            if task and task != self._name:  # without one, it has ended meanwhile
                raise InvalidInput(
                    f"`ledger pipeline {task}` is under way in {region}: run it to its end"
                )
        raise Unreachable(f"{region} could not be claimed in {TRIES_MAX} tries")

    def _check_places(self, regions: Sequence[Item | None]) -> None:
        """Check that the states are where the settings say.

        Raises:
            InvalidInput: they are elsewhere, or are being moved.
        """
        for places in map(places_of, regions):
            if places != self.places:
                raise InvalidInput(
                    f"the states lie in {shown(places.table)}, and `state_table` of the settings"
                    f" says {shown(self.places.table)}: set it as it was, or run `ledger pipeline"
                    " move-states` to its end"
                )

    async def is_current(self, number: int) -> bool:
        """Return whether an audit of this number is still under way in every region."""
        items = [await self._region(region) for region in self.stores]
        return all(audit_of(item) == number for item in items)

    async def is_under_way(self, region: str) -> bool:
        """Return whether this is still what is under way in a region."""
        item = await self._region(region) or {}
        return task_of(item) == self._name and item.get("run") == {"S": self._run}

    @property
    def ours(self) -> Condition:
        """The condition on a region's item that this run is what is under way."""
        return AllOf((Equals("task", {"S": self._name}), Equals("run", {"S": self._run})))

    async def end(self) -> None:
        """Free every region, the first last: the run that has that one may have the others.

        Raises:
            LedgerError: another run has begun there: this one may be incomplete.
        """
        for region, store in sorted(self.stores.items(), reverse=True):
            key = region_key(region, self.pipeline)
            outcome = await store.write(Update(key, remove=UNDER_WAY, condition=self.ours))
            if not isinstance(outcome, Applied) and (task := task_of(await self._region(region))):
                raise LedgerError(
                    f"this was ended by another run: `ledger pipeline {task}` is under way in"
                    f" {region}"
                )

    async def _region(self, region: str) -> Item | None:
        return await self.stores[region].get(Get(region_key(region, self.pipeline)))

    async def lanes(self, region: str) -> list[str]:
        """Return the lanes that were ever opened in a region."""
        begins = f"{LANE_PREFIX}{region}/"
        query = Query(
            registry_partition(self.pipeline), first=begins, last=f"{LANE_PREFIX}{region}0"
        )
        return [
            item["sk"]["S"].removeprefix(LANE_PREFIX)
            async for item in pages(self.stores[region], query)
        ]

    def store_of(self, lane: str) -> Store | None:
        """Return the store of a lane's region, if that is still in the table."""
        return self.stores.get(lane.partition("/")[0])

    async def lane(self, lane: str) -> LaneState:
        """Read a lane's item in its region."""
        store = self.store_of(lane) or self.home
        return lane_state_of(await store.get(Get(position_key(lane, self.pipeline))))

    async def register(self, lane: str) -> None:
        """Enter a lane in the registry: of a region that is gone, or of a task itself."""
        store = self.store_of(lane) or self.home
        await store.write(Put(lane_entry(lane, self.pipeline)))

    async def change_lane(self, lane: str, known: LaneState, wanted: LaneState) -> bool:
        """Write a lane's item if it is unchanged; returns whether it was.

        The repeat of a write that was applied without an answer is rejected, and finds its own.
        """
        store = self.store_of(lane) or self.home
        state = replace(wanted, rev=known.rev + 1)
        put = Put(lane_item(lane, state, self.pipeline), still(known))
        return isinstance(await store.write(put), Applied) or await self.lane(lane) == state

    async def forgotten(self) -> list[Item]:
        """Return the items of what was forgotten in every region; of a lost one, as home shows."""
        found: list[Item] = []
        partition = registry_partition(self.pipeline)
        for region, store in sorted(self.stores.items()):
            query = Query(partition, first=FORGOTTEN_PREFIX, last=FORGOTTEN_LAST)
            async for item in pages(store, query):
                own = forgotten_in(item)[0]
                if own == region or (store is self.home and own not in self.stores):
                    found.append(item)
        return found

    async def map_items(self, lane: str, store: Store) -> list[MapItem]:
        """Return the map items of a lane that wait in a region."""
        partition = position_key(lane, self.pipeline)[0]
        query = Query(partition, first=MAP_PREFIX, last=MAP_LAST)
        return [map_item_of(item) async for item in pages(store, query)]

    async def reduce(self, store: Store, items: Sequence[MapItem], *, note: str = "") -> None:
        """Add map items to the totals of a region; entries that this makes have the note."""
        stage = ReduceStage(
            store,
            settings=self.settings,
            clock=self.clock,
            retrier=Retrier.of(store, clock=self.clock, randomness=self._random),
            metrics=StageMetrics(PipelineMetrics(), store.region, "reduce"),
            note=note,
        )
        await stage.reduce(items)

    async def reduce_own(self, region: str, name: str) -> None:
        """Reduce the map items of a lane that tasks have in a region, whichever run made them."""
        lane, store = lane_id(region, name), self.stores[region]
        await self.register(lane)
        await self.reduce(store, await self.map_items(lane, store))

    async def read_state(self, region: str, record_id: str) -> State | None:
        """Read the state of a record in a region."""
        key = state_key(record_id, self.pipeline)
        item = await self.stores[region].get(self.places.get(key))
        return state_of(item) if item else None

    def lane_in(self, found: TaskFindings) -> str | None:
        """Return the lane whose position, or map item, an item is."""
        partition, sort_key = found.item["pk"]["S"], found.item["sk"]["S"]
        own = position_key("", self.pipeline)[0]
        is_ours = sort_key == POSITION_SORT_KEY or sort_key.startswith(MAP_PREFIX)
        return partition.removeprefix(own) if is_ours and partition.startswith(own) else None

    def state_in(self, found: TaskFindings) -> tuple[str, State] | None:
        """Return the record's id and state, if an item is a state that its region keeps.

        One in another table than the states' is not: see `core/state_places`.
        """
        return self.state_at(found, self.places.table)

    def state_at(self, found: TaskFindings, table: str) -> tuple[str, State] | None:
        """Return the record's id and state, if an item is a state that its region keeps there."""
        if found.table != table:
            return None
        partition, sort_key = found.item["pk"]["S"], found.item["sk"]["S"]
        prefix = state_key("", self.pipeline)[0]
        if sort_key != STATE_SORT_KEY or not partition.startswith(prefix):
            return None
        state = state_of(found.item)
        keeper = state.home if state.home in self.stores else self.settings.current.home
        return (partition.removeprefix(prefix), state) if keeper == found.region else None

    def findings(self) -> Findings:
        """Return the scan's findings so far, as a checkpoint stores them."""
        return {}

    def checkpoints(self, run: str) -> Checkpoints:
        """Return the checkpoints of a run over these regions; no other run uses them."""
        run = f"{run} {self._run} from {self.home.region} of {' '.join(sorted(self.stores))}"
        return Checkpoints(self.home, self.pipeline, run, self._random)

    async def scan(
        self,
        checkpoints: Checkpoints | None = None,
        begins: ScanPosition | None = None,
        tables: Collection[str] | None = None,
    ) -> AsyncIterator[list[TaskFindings]]:
        """Yield every item of every region's table, strongly consistent, a page at a time.

        And of the table of the states, or of these `tables` alone. A page is taken for done once
        the next one is asked for: then `findings` and the place may be kept in a checkpoint.
        `begins` is the place to go on from.
        """
        chosen = {"", self.places.table} if tables is None else tables
        for region, table in product(sorted(self.stores), sorted(chosen)):
            if begins is not None and (region, table) < (begins.region, begins.table):
                continue
            scan, items = Scan(consistent=True, table=table), 0
            if begins is not None and (region, table) == (begins.region, begins.table):
                scan, items = replace(scan, after=begins.after), begins.items
                self.on_progress(f"{region}: continues after {items:,} items")
            where = f"table {table}" if table else "its table"
            for number in range(1, PAGES_MAX):
                page = await self.stores[region].scan(scan)
                yield [TaskFindings(region, item, table) for item in page.items]
                items += len(page.items)
                if page.after is None:
                    break
                if number % REPORT_PAGES == 0:
                    self.on_progress(f"{region}: {items:,} items of {where} read")
                if checkpoints is not None and checkpoints.is_due():
                    place = ScanPosition(region, page.after, items, table)
                    await checkpoints.write(place, self.findings())
                scan = scan.next(page)
            self.on_progress(f"{region}: {where} read, {items:,} items")


def quiet_store(_line: str) -> None:
    """Default of `on_progress`: nothing."""


async def pages(store: Store, query: Query) -> AsyncIterator[Item]:
    """Yield what a query returns, page by page."""
    for _page in range(PAGES_MAX):
        page = await store.query(query)
        for item in page.items:
            yield item
        if page.after is None:
            return
        query = query.next(page)
