"""The audit: do the totals agree with the states? Exact while lanes run.

The states are the reference. The totals must show each state's image minus those of its transitions
that are not in the totals yet. Lanes run meanwhile, so a cut is laid through them, as in the
snapshots of Chandy and Lamport, and carried by what the lanes write anyway::

    lane's item   position R, audit A, retain R  -- commits carry A and R --> position ..., A, R
    map items     earlier ones: no mark          |  later ones: A
    sums          value                          |  what map items with A add: in `since` too

    truth of the cut   states: image - transitions beyond R (none of them is dropped before the end)
    totals at the cut  value - since, once no map item without A is left

Both stay the same, whenever they are read until the audit ends. So it can be interrupted anywhere:
run again, it continues with the same cut. Two concurrent runs notice it, and the later one fails.

Categories are assumed to be the pipeline's own: what others record there is a difference.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial

from ledger.core import amounts, keys
from ledger.core.contract import Terms
from ledger.core.entry import number_of
from ledger.core.errors import LedgerError, Unreachable
from ledger.core.sums import SUM_PREFIX, since_of, sum_of
from ledger.pipeline.auditing.scan_checkpoints import Checkpoints, Findings, ScanPosition
from ledger.pipeline.auditing.task import TRIES_MAX, Task, TaskFindings, pages, quiet_store
from ledger.pipeline.core.category_sums import add_in
from ledger.pipeline.core.plans import SINCE_PREFIX, audit_name
from ledger.pipeline.core.registry import (
    DIFFERENCE_LAST,
    DIFFERENCE_PREFIX,
    difference_item,
    forgotten_in,
    registry_partition,
)
from ledger.pipeline.core.transitions import State
from ledger.reads.collection import ReadBounds, read_collection
from ledger.runtime.clock import ElapsedTime
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.settings.live import LiveSettings
from ledger.settings.templates import template_of
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import Delete, Put, Update

AUDIT = "audit"
CATEGORIES_AT_ONCE = 16
LOOKS_MAX = 12
"""How often a differing category is looked at, in case entries still replicate."""
LOOK_SECONDS = 2.0
"""The wait before the second look; each later wait grows by as much."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A category whose total differs from the states."""

    category: str
    truth: Decimal
    total: Decimal

    @property
    def change(self) -> Decimal:
        """What is missing in the total."""
        return amounts.total_wide((self.truth, self.total.copy_negate()))


@dataclass(slots=True)
class LaneReport:
    """What a lane holds back: transitions beyond its position at the cut, of `records` records.

    `held_seconds` is how long ago its worker last wrote its item, by both machines' clocks; None
    if none has.
    """

    lane: str
    position: str = ""
    is_open: bool = False
    is_closed: bool = False
    records: int = 0
    first: str = ""
    held_seconds: float | None = None


@dataclass(slots=True)
class Report:
    """The result of an audit."""

    number: int
    records: int = 0
    forgotten: int = 0
    categories: int = 0
    differences: list[Difference] = field(default_factory=list)
    lanes: dict[str, LaneReport] = field(default_factory=dict)


class Audit(Task):
    """One audit of a pipeline, over the stores of all regions of the table."""

    def __init__(
        self,
        stores: Mapping[str, Store],
        settings: LiveSettings,
        *,
        services: Services,
        on_progress: Callable[[str], None] = quiet_store,
    ) -> None:
        super().__init__(
            stores,
            settings,
            services=services,
            name=AUDIT,
            on_progress=on_progress,
        )
        self._truth: dict[str, Decimal] = {}
        self._number = 0
        self._report = Report(0)
        self._own = _own_categories(
            (*settings.current.pipeline.categories, *settings.current.pipeline.measures.count)
        )

    async def run(self) -> Report:
        """Compare states and totals at one cut; differences are kept for `mend`.

        Raises:
            InvalidInput: a mend is under way.
            LedgerError: another run of this audit has finished it meanwhile; run it again.
            StoreError: a region does not answer; run again to continue with the same cut.
        """
        self._truth.clear()
        self._number = number = await self.begin(is_audit=True)
        self._report = Report(number)
        for region in sorted(self.stores):
            for lane in await self.lanes(region):
                await self._mark(lane)
        checkpoints = self.checkpoints(f"audit {number}")
        begins = await self._restore(checkpoints)
        async for page in self.scan(checkpoints, begins):
            for found in page:
                await self._take(found)
        await self._add_forgotten()
        await self._reduce_what_came_before()
        differences = await self._differences(sorted(self._truth))
        if not await self.is_current(number):
            raise LedgerError(f"audit {number} was ended by another run of it: run it again")
        await self._keep(differences)
        await checkpoints.forget()
        await self._end()
        self._report.categories = len(self._truth)
        self._report.differences = differences
        return self._report

    def findings(self) -> Findings:
        """Return the reference and what lanes hold back, from what the scan has read."""
        return {
            "records": self._report.records,
            "truth": {name: amounts.to_text(value) for name, value in self._truth.items()},
            "lanes": {
                lane.lane: [lane.records, lane.first]
                for lane in self._report.lanes.values()
                if lane.records
            },
        }

    async def _restore(self, checkpoints: Checkpoints) -> ScanPosition | None:
        """Resume an interrupted audit's findings: at its cut they stay true."""
        kept = await checkpoints.read()
        if kept is None:
            return None
        begins, found = kept
        self._report.records = found["records"]
        self._truth = {name: amounts.of_text(value) for name, value in found["truth"].items()}
        for lane, (records, first) in found["lanes"].items():
            report = await self._mark(lane)
            report.records, report.first = records, first
        return begins

    async def _mark(self, lane: str) -> LaneReport:
        """Lay the cut through a lane, and return its position there."""
        if lane in self._report.lanes:
            return self._report.lanes[lane]
        for _ in range(TRIES_MAX):
            known = await self.lane(lane)
            wanted = replace(known, audit=self._number, retain=known.position)
            if known.audit == self._number or await self.change_lane(lane, known, wanted):
                found = known if known.audit == self._number else wanted
                report = LaneReport(lane, found.retain, found.is_open, found.is_closed)
                if found.at:
                    report.held_seconds = max(0.0, self.clock.now().timestamp() - found.at)
                self._report.lanes[lane] = report
                return report
        raise Unreachable(f"lane {lane} could not be marked in {TRIES_MAX} tries")

    async def _take(self, found: TaskFindings) -> None:
        """Record an item of a region: a state, or one that shows a lane or a category."""
        partition, sort_key = found.item["pk"]["S"], found.item["sk"]["S"]
        if (lane := self.lane_in(found)) is not None:
            await self._unknown(lane)
        elif sort_key.startswith(SUM_PREFIX) and self._own(partition):
            self._truth.setdefault(partition, Decimal(0))
        elif (kept := self.state_in(found)) is not None:
            await self._count(kept[1])

    async def _unknown(self, lane: str) -> LaneReport:
        if lane not in self._report.lanes:
            await self.register(lane)
        return await self._mark(lane)

    async def _count(self, state: State) -> None:
        """Add the part of a state that totals must show."""
        self._report.records += 1
        add_in(self._truth, state.image.changes)
        for lane, by_position in state.open.items():
            report = await self._unknown(lane)
            beyond = [at for at in by_position if at > report.position]
            for at in beyond:
                taken = {name: by.copy_negate() for name, by in by_position[at].items()}
                add_in(self._truth, taken)
            if beyond:
                report.records += 1
                report.first = min(filter(None, [report.first, *beyond]))

    async def _add_forgotten(self) -> None:
        """Add the images of the forgotten states: none is forgotten until this audit ends."""
        for item in await self.forgotten():
            _, category = forgotten_in(item)
            if category:
                add_in(self._truth, {category: number_of(item, "value")})
            else:
                self._report.forgotten += int(number_of(item, "records"))

    async def _reduce_what_came_before(self) -> None:
        """Add to the totals what was committed before the cut, as its lanes would."""
        for lane in self._report.lanes:
            store = self.store_of(lane) or self.home
            items = await self.map_items(lane, store)
            before = [item for item in items if item.audit != self._number]
            await self.reduce(store, before)

    async def _differences(self, categories: Iterable[str]) -> list[Difference]:
        """Compare totals with the reference; again if entries may still be in flight."""
        found: list[Difference] = []
        for look in range(LOOKS_MAX):
            if look:
                self.on_progress(
                    f"{len(found):,} categories differ: the next look is in"
                    f" {look * LOOK_SECONDS:.0f} s, since entries may still be on their way"
                )
                await self.clock.sleep(look * LOOK_SECONDS)
            since = await self._since_entries()
            jobs = [partial(self._compared, category, since) for category in categories]
            compared = await run_all(jobs, at_once=CATEGORIES_AT_ONCE) if jobs else []
            found = [difference for difference in compared if difference.change]
            categories = [difference.category for difference in found]
            if not found:
                break
        return found

    async def _compared(self, category: str, since: Mapping[str, Decimal]) -> Difference:
        total = amounts.EXACT.subtract(await self._total(category), since.get(category, Decimal(0)))
        return Difference(category, self._truth[category], total)

    async def _total(self, category: str) -> Decimal:
        """Return a category's total at the cut, except entries: of those everything at home."""
        settings = self.settings.current
        read = [
            await read_collection(
                self.home,
                keys.partition_key(category, shard),
                ElapsedTime(self.clock),
                ReadBounds.of(settings),
                consistent=True,
            )
            for shard in range(settings.shards_max(category))
        ]
        sums = {place: each.value for one in read for place, each in one.collection.sums.items()}
        entries = [
            amounts.EXACT.subtract(one.collection.total(), one.collection.added) for one in read
        ]
        name = audit_name(self._number, self.pipeline)
        for region, store in sorted(self.stores.items()):
            async for item in pages(store, Query(category, first=SUM_PREFIX)):
                place, is_copy, found = sum_of(item)
                if not is_copy and _is_live(place.region, place.epoch, region, settings.terms):
                    sums[place] = amounts.EXACT.subtract(found.value, since_of(item, name))
        return amounts.total_wide((*entries, *sums.values()))

    async def _since_entries(self) -> dict[str, Decimal]:
        """Return what was added as entries since the cut, in every region."""
        found: dict[str, list[Decimal]] = {}
        for region, store in sorted(self.stores.items()):
            begins = f"{SINCE_PREFIX}{self._number}#{region}#"
            query = Query(registry_partition(self.pipeline), first=begins, last=f"{begins}~")
            async for item in pages(store, query):
                for category, number in item["sums"]["M"].items():
                    found.setdefault(category, []).append(amounts.of_text(number["N"]))
        return {category: amounts.total_wide(changes) for category, changes in found.items()}

    async def _keep(self, differences: Iterable[Difference]) -> None:
        """Store the differences at home, replacing those of the previous audit."""
        query = Query(
            registry_partition(self.pipeline), first=DIFFERENCE_PREFIX, last=DIFFERENCE_LAST
        )
        kept = [item["sk"]["S"] async for item in pages(self.home, query)]
        for sort_key in kept:
            await self.home.write(Delete((registry_partition(self.pipeline), sort_key)))
        for difference in differences:
            item = difference_item(
                difference.category, difference.change, self._number, self.pipeline
            )
            await self.home.write(Put(item))

    async def _end(self) -> None:
        """Free the regions, then the lanes, which find no audit when they begin afterwards."""
        await self.end()
        for region in sorted(self.stores):
            for lane in {*await self.lanes(region), *self._report.lanes}:
                if lane.partition("/")[0] == region:
                    await self._free(lane)
        partition, name = registry_partition(self.pipeline), audit_name(self._number, self.pipeline)
        for region, store in sorted(self.stores.items()):
            begins = f"{SINCE_PREFIX}{self._number}#{region}#"
            query = Query(partition, first=begins, last=f"{begins}~", attributes=("pk", "sk"))
            gone = [item["sk"]["S"] async for item in pages(store, query)]
            for sort_key in gone:
                await store.write(Delete((partition, sort_key)))
            await self._forget_since(store, f"since.{name}")

    async def _forget_since(self, store: Store, name: str) -> None:
        terms = self.settings.current.terms
        for category in self._truth:
            async for item in pages(store, Query(category, first=SUM_PREFIX)):
                place, is_copy, _ = sum_of(item)
                is_ours = _is_live(place.region, place.epoch, store.region, terms)
                if name in item and not is_copy and is_ours:
                    await store.write(Update((category, place.sort_key), remove=(name,)))

    async def _free(self, lane: str) -> None:
        for _ in range(TRIES_MAX):
            known = await self.lane(lane)
            if known.audit != self._number:
                return
            if await self.change_lane(lane, known, replace(known, audit=0, retain="")):
                return


def _is_live(region: str, epoch: int, here: str, terms: Terms) -> bool:
    """Return whether a sum is the one that this region adds to now."""
    return region == here and epoch == terms.epoch_of(region)


class _OwnCategories:
    """Distinguishes the categories that templates can make from other counters."""

    def __init__(self, templates: Iterable[str]) -> None:
        self._patterns = [
            re.compile("(.+)".join(map(re.escape, template_of(text).literals)), re.DOTALL)
            for text in templates
        ]

    def __call__(self, counter: str) -> bool:
        return any(pattern.fullmatch(counter) for pattern in self._patterns)


def _own_categories(templates: Iterable[str]) -> _OwnCategories:
    return _OwnCategories(templates)
