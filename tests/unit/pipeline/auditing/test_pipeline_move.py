"""States in a table of their own: what that spares, and the move there, and back, beside lanes."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from functools import partial

import pytest
from support.lanes import lane_worker
from support.ledgers import HOME, make_services
from support.pipelines import deliveries, message, pipeline_settings, shown, truth

from compactor.job import Compactor
from ledger.core.errors import AccessDenied, FormConflict, InvalidInput, SettingsError
from ledger.pipeline.auditing.audit import Audit, Report
from ledger.pipeline.auditing.mend import Mend, Mended
from ledger.pipeline.auditing.move import Move, Moved
from ledger.pipeline.auditing.reset import Reset, ResetResult
from ledger.pipeline.core.category_sums import CategorySums
from ledger.pipeline.core.items import STATE_PREFIX, state_item, state_key
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.core.transitions import State
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.pipeline.sources.source import ListSource
from ledger.runtime.metrics import Metrics
from ledger.settings import Settings
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Raises
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Action, InTable, Outcome, Put, placed
from ledger.testing.clock import ManualClock

OWN = "ledger-states"
LANE = f"{HOME}/lane"
RAWS = [message(f"T{number}", 1, 10**number) for number in range(4)]
LATER = [message(f"T{number}", 2, 3, desk="B") for number in (0, 2, 7)]
STATES = 20_000
UNITS = {"": 430, OWN: 2}
"""Of one search of the table, with states there, and in a table of their own."""


def settings_of(table: str | None = OWN) -> Settings:
    """Return settings of one region whose pipeline's states lie in a table."""
    settings = pipeline_settings(state_table=table)
    return settings.replace(regions={HOME: settings.regions[HOME]})


async def moved(store: Store, table: str | None = OWN) -> Moved:
    """Move the states of one region's table."""
    clock = ManualClock(instant=True)
    return await Move({HOME: store}, settings_of(table), services=make_services(clock)).run()


async def audited(store: Store, table: str | None = OWN) -> Report:
    """Audit one region's table."""
    clock = ManualClock(instant=True)
    return await Audit({HOME: store}, settings_of(table), services=make_services(clock)).run()


def states_in(table: MemoryTable) -> set[str]:
    """Return the partitions of the states in a table."""
    return {name for name in table.partitions if name.startswith(STATE_PREFIX)}


@pytest.mark.slow
@pytest.mark.parametrize("table", ["", OWN])
async def test_the_compactors_search_reads_no_states_of_a_table_of_their_own(table: str) -> None:
    """20,000 states cost each search of the table hundreds of read units, there next to none."""
    inner, metrics = MemoryStore(HOME, page_items_max=2_000), Metrics()
    image = CategorySums(Decimal("12.5"), ("desk/EMEA/A", "risk/Delta"))
    for number in range(STATES):
        left = {LANE: {f"{number:020d}": {"desk/EMEA/A": Decimal(5), "risk/Delta": Decimal(5)}}}
        item = state_item(f"TRADE-{number:011d}", State(3, image, HOME, left, 3))
        await inner.write(InTable(table, Put(item)) if table else Put(item))
    store = MeteredStore(inner, metrics=metrics, clock=ManualClock())
    await Compactor(settings_of(table or None), stores={HOME: store}).run_once()
    units = metrics.consumed_units.labels(HOME, "scan", "read")._value.get()
    assert units == UNITS[table]


async def test_states_move_and_totals_stay() -> None:
    """Each state lies in its own table then, and lanes, audits and corrections go on there."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()
    with pytest.raises(FormConflict, match="lie in the table itself, and `state_table`"):
        await lane_worker(deliveries(RAWS), store, state_table=OWN).run()
    assert await moved(store) == Moved(records=len(RAWS), lanes=1)
    assert await moved(store) == Moved(0, 0)
    assert states_in(store.table) == set()
    assert len(states_in(store.table.named(OWN))) == len(RAWS)
    assert (await audited(store)).differences == []
    await lane_worker(deliveries([*RAWS, *LATER]), store, state_table=OWN).run()
    await lane_worker(deliveries(LATER), store, lane="other", state_table=OWN).run()
    assert shown(store.table) == truth([*RAWS, *LATER])
    report = await audited(store)
    assert (report.records, report.differences) == (len(RAWS) + 1, [])
    assert states_in(store.table) == set()


async def test_states_move_back() -> None:
    """Without `state_table` they go where they were."""
    store = MemoryStore(HOME)
    await moved(store)
    await lane_worker(deliveries(RAWS), store, state_table=OWN).run()
    assert await moved(store, None) == Moved(len(RAWS), 1)
    assert states_in(store.table.named(OWN)) == set()
    for name in ("lane", "new"):
        with pytest.raises(FormConflict, match=f"says table {OWN}"):
            await lane_worker(deliveries(RAWS), store, lane=name, state_table=OWN).run()
    await lane_worker(deliveries([*RAWS, *LATER]), store).run()
    assert shown(store.table) == truth([*RAWS, *LATER])
    assert (await audited(store, None)).differences == []


@pytest.mark.slow
async def test_a_move_may_be_cut_off_anywhere() -> None:
    """Killed before or after any request, lanes going on: each state is one, and counts once."""
    for is_applied in (False, True):
        for number in range(1, 200):
            store = MemoryStore(HOME, page_items_max=3)
            await lane_worker(deliveries(RAWS), store).run()
            kill = Raises(AccessDenied("killed"), applied=is_applied)

            def decide(call: FaultCall, number: int = number, kill: Fault = kill) -> Fault | None:
                return kill if call.number == number else None

            faulty = FaultyStore(store, decide)
            with suppress(AccessDenied):
                await moved(faulty)
            for table in (None, OWN):
                with suppress(FormConflict):
                    records = deliveries([*RAWS, *LATER])
                    await lane_worker(records, store, state_table=table).run()
            if faulty.calls >= number:
                with suppress(InvalidInput):
                    assert (await audited(store)).differences == []
            await moved(store)
            await lane_worker(deliveries([*RAWS, *LATER]), store, state_table=OWN).run()
            assert shown(store.table) == truth([*RAWS, *LATER]), number
            report = await audited(store)
            assert (report.records, report.differences) == (len(RAWS) + 1, []), number
            assert states_in(store.table) == set()
            if faulty.calls < number:
                break
        else:
            raise AssertionError("the move never ends")


class Between(ListSource):
    """Records of a lane, between whose batches something happens once."""

    def __init__(self, raws: Sequence[bytes], happens: Callable[[], Awaitable[object]]) -> None:
        super().__init__(deliveries(raws))
        self.happens: Callable[[], Awaitable[object]] | None = happens

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield a record at a time."""
        del most
        async for batch in super().batches(after, most=1):
            yield batch
            happens, self.happens = self.happens, None
            if happens is not None:
                await happens()


async def test_a_worker_by_the_former_settings_is_stopped() -> None:
    """It commits nothing more, and what it left in states is committed by its successor."""
    store = MemoryStore(HOME)
    source = Between([*RAWS, *LATER], partial(moved, store))
    with pytest.raises(FormConflict):
        await lane_worker(source, store).run()
    await lane_worker(deliveries([*RAWS, *LATER]), store, state_table=OWN).run()
    assert shown(store.table) == truth([*RAWS, *LATER])
    assert (await audited(store)).differences == []


async def begin_only(store: MemoryStore) -> None:
    """Let a move mark all lanes, and die before it moves a state."""

    def decide(call: FaultCall) -> Fault | None:
        return Raises(AccessDenied("killed")) if call.operation == "transact" else None

    with suppress(AccessDenied):
        await moved(FaultyStore(store, decide))


async def test_a_lane_moves_the_states_that_it_writes() -> None:
    """While the move is under way a state is found where it was, and lies at one place after."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()
    await begin_only(store)
    letters = DeadLetterList()
    later = deliveries(LATER)
    await lane_worker(later, store, letters=letters, lane="new", state_table=OWN).run()
    left = {state_key(f"T{number}")[0] for number in (1, 3)}
    assert states_in(store.table) == left
    assert shown(store.table) == truth([*RAWS, *LATER])
    with pytest.raises(InvalidInput, match="move-states"):
        await audited(store)
    with pytest.raises(FormConflict):
        await lane_worker(deliveries(LATER), store, lane="newer").run()
    assert await moved(store) == Moved(len(left), 1)
    assert (await audited(store)).differences == []


async def test_a_state_that_a_lane_moves_is_written_until_then_or_not_at_all() -> None:
    """Its write has an end as any of a state: what was forgotten since, another decides by."""
    store, until = MemoryStore(HOME), list[datetime | None]()

    class Noting(ForwardingStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            puts = [own for _, own in map(placed, actions) if isinstance(own, Put)]
            until.extend(put.not_after for put in puts if put.key[0].startswith(STATE_PREFIX))
            return await super().transact(actions, token=token)

    await lane_worker(deliveries(RAWS), store).run()
    await begin_only(store)
    await lane_worker(deliveries(LATER), Noting(store), lane="new", state_table=OWN).run()
    assert len(until) == 2
    assert None not in until


async def test_what_a_stopped_worker_leaves_beside_a_state_counts_in_nothing() -> None:
    """A late write at the place before is deleted by the move, or not looked at after it."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()
    late = [item for part in list(store.table.partitions.values()) for item in part.values()]
    late = [item for item in late if item["sk"] == {"S": "state"}]
    await begin_only(store)
    await lane_worker(deliveries([*RAWS, *LATER]), store, state_table=OWN).run()
    for item in late:
        await store.write(Put(item))
    await moved(store)
    assert states_in(store.table) == set()
    assert len(states_in(store.table.named(OWN))) == len(RAWS) + 1
    for item in late:
        await store.write(Put(item))
    assert (await audited(store)).differences == []
    assert shown(store.table) == truth([*RAWS, *LATER])


async def test_a_mend_and_a_reset_find_states_in_their_own_table() -> None:
    """What a dead lane left there is committed, and a reset deletes all of it."""
    store = MemoryStore(HOME)
    await moved(store)

    def decide(call: FaultCall) -> Fault | None:
        return Raises(AccessDenied("killed")) if call.operation == "transact" else None

    dying = FaultyStore(store, decide)
    with pytest.raises(AccessDenied):
        await lane_worker(deliveries(RAWS), dying, state_table=OWN).run()
    services = make_services()
    mend = Mend({HOME: store}, settings_of(), lane=LANE, services=services)
    assert await mend.run_lane() == Mended(len(RAWS), truth(RAWS))
    assert shown(store.table) == truth(RAWS)
    reset = await Reset({HOME: store}, settings_of(), services=services).run()
    assert isinstance(reset, ResetResult)
    assert (reset.records, shown(store.table)) == (len(RAWS), {})
    assert states_in(store.table.named(OWN)) == set()
    await lane_worker(deliveries(RAWS), store, state_table=OWN).run()
    assert shown(store.table) == truth(RAWS)


def test_states_have_a_table_of_their_own_or_none() -> None:
    """It is neither the table itself nor that of the markers, and has a name that can be."""
    for table in ("ledger", "no"):
        with pytest.raises(SettingsError, match="table"):
            pipeline_settings(state_table=table)
    settings = pipeline_settings(state_table=OWN)
    assert (settings.for_states().table, settings.for_states().state_tables) == (OWN, ())
    with pytest.raises(SettingsError, match="names none"):
        pipeline_settings().for_states()
