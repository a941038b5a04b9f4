"""States that are not remembered: read and written together, exact whatever becomes of that."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import pytest
from support.lanes import committed, lane_worker
from support.ledgers import AWAY, HOME
from support.pipelines import BOTH_HOMES, deliveries, message, position, shown, truth
from support.tiers import few_fast

from ledger.core.errors import AccessDenied, StoreError, Throttled, Unreachable
from ledger.pipeline.core.items import STATE_PREFIX, state_of
from ledger.pipeline.core.transitions import State
from ledger.pipeline.stages.state_writes import Strangers
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.wrappers.faults import (
    Fault,
    FaultCall,
    FaultyStore,
    Late,
    Lost,
    NeverArrived,
    Partial,
    Raises,
    Seeded,
)
from ledger.store.wrappers.forwarder import READS, Answer, ForwardingStore, Operation
from ledger.store.writes import EachOutcome, Write

TRADES = 60
OLD = [message(f"T{trade}", 1, trade) for trade in range(TRADES)]
NEW = [message(f"T{trade}", 2, -7 * trade, desk="AB"[trade % 2]) for trade in range(TRADES)]


async def with_states(raws: Sequence[bytes] = OLD) -> MemoryStore:
    """Return a store with the states of records, which came through another lane."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(raws), store, lane="before").run()
    return store


async def counted(store: MemoryStore, raws: Sequence[bytes], *, batch_max: int) -> Counter[str]:
    """Bring records in through another worker; return its requests, by operation."""
    operations = Counter[str]()

    def count(call: FaultCall) -> None:
        operations[call.operation] += 1

    await lane_worker(deliveries(raws), FaultyStore(store, count), batch_max=batch_max).run()
    return operations


async def test_corrections_that_are_not_remembered_share_requests() -> None:
    """60 of them take three requests that are refused, one that reads, and three that write."""
    store = await with_states()
    operations = await counted(store, NEW, batch_max=TRADES)
    assert shown(store.table) == truth([*OLD, *NEW])
    assert operations["write_each"] == 6
    assert operations["get_each"] == 1


async def test_after_a_batch_of_known_records_states_are_read_first() -> None:
    """The second batch reads before it writes, and nothing of it is refused."""
    store = await with_states()
    operations = await counted(store, NEW, batch_max=TRADES // 2)
    assert shown(store.table) == truth([*OLD, *NEW])
    assert operations["write_each"] == 2 + 2 + 2
    assert operations["get_each"] == 2


def test_strangers_are_known_while_many_of_the_latest_were() -> None:
    """One in six is too many; a few batches of new records make it forgotten."""
    strangers, seen = Strangers(), [False]
    for known in (10, 20, 0, 0):
        strangers.meet(60, known)
        seen.append(strangers.are_known)
    strangers.meet(0, 0)
    assert [*seen, strangers.are_known] == [False, False, True, False, False, False]


class Some:
    """Some calls of one operation fail, from the `first` to the `last`."""

    def __init__(self, operation: str, fault: Fault, first: int, last: int) -> None:
        self.met = 0
        self._operation, self._fault, self._range = operation, fault, range(first, last + 1)

    def __call__(self, call: FaultCall) -> Fault | None:
        """Return the fault of a call."""
        if call.operation != self._operation:
            return None
        self.met += 1
        return self._fault if self.met in self._range else None


PARTS = Partial(unprocessed=(0, 3), lost=(1, 4), never_arrived=(2, 5))
FAULTS: Sequence[Fault] = (
    *(PARTS, Lost(), NeverArrived(), Late()),
    *(Raises(Throttled("slow down")), Raises(Unreachable("no connection"))),
)


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("calls", few_fast([(1, 3), (4, 6), (1, 9)], fast=1), ids=str)
@pytest.mark.parametrize("landing", ["meanwhile", "in the end"])
async def test_faults_in_any_round_leave_totals_exact(
    fault: Fault, calls: tuple[int, int], landing: str
) -> None:
    """Requests without an answer, in the first round or those after it, are found out."""
    store = await with_states()
    fails = Some("write_each", fault, *calls)
    faulty = FaultyStore(store, fails)
    behind = Landing(faulty) if landing == "meanwhile" else faulty
    await lane_worker(deliveries(NEW), behind, batch_max=TRADES).run()
    while faulty.in_flight:
        await faulty.land()
    assert fails.met >= calls[0]
    assert shown(store.table) == truth([*OLD, *NEW])


class Landing(ForwardingStore):
    """Lets a write that is in flight land right after the read that did not see it."""

    def __init__(self, faulty: FaultyStore) -> None:
        super().__init__(faulty)
        self._faulty = faulty

    async def _carry(self, operation: Operation, send: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await send()
        if operation in {"get", "get_each"} and self._faulty.in_flight:
            await self._faulty.land()
        return answer


@pytest.mark.parametrize(
    "error", [AccessDenied("no"), Throttled("slow"), Unreachable("no answer")], ids=repr
)
async def test_states_that_cannot_be_read_together_are_read_one_by_one(error: StoreError) -> None:
    """Each record then takes a request of its own."""
    store = await with_states()
    faulty = FaultyStore(
        store, lambda call: Raises(error) if call.operation == "get_each" else None
    )
    await lane_worker(deliveries(NEW), faulty, batch_max=TRADES).run()
    assert shown(store.table) == truth([*OLD, *NEW])


VERSIONS = [
    message(f"T{trade}", version, 100 * version + trade)
    for version in range(1, 7)
    for trade in range(8)
]


@pytest.mark.parametrize("there", [0, 2, 4, 6])
@pytest.mark.parametrize("seed", range(3))
async def test_versions_of_one_record_in_a_batch_come_in_any_order(there: int, seed: int) -> None:
    """The newest counts, once, whether the state that is there is older, between or newer."""
    draw = Random(seed)  # noqa: S311 (repeatable)
    store = await with_states(VERSIONS[: there * 8]) if there else MemoryStore(HOME)
    raws = [*VERSIONS, *VERSIONS[8:24]]
    draw.shuffle(raws)
    await lane_worker(deliveries(raws), store, batch_max=len(raws)).run()
    assert shown(store.table) == truth(VERSIONS)
    assert {state.version for state in states_of(store.table)} == {6}


def states_of(table: MemoryTable) -> list[State]:
    """Return every state in a table."""
    return [state_of(item) for item in table.items() if item["pk"]["S"].startswith(STATE_PREFIX)]


class Racing(ForwardingStore):
    """Another lane brings newer versions of the records in between two requests of states."""

    def __init__(self, inner: MemoryStore, races: Sequence[Sequence[bytes]]) -> None:
        super().__init__(inner)
        self.store = inner
        self.races = list(races)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Write, after the other lane."""
        if self.races:
            lane = f"other {len(self.races)}"
            await lane_worker(deliveries(self.races.pop(0)), self.store, lane=lane).run()
        return await super().write_each(writes)


@pytest.mark.parametrize("races", range(1, 6))
async def test_another_lane_in_between_any_rounds_is_met_exactly(races: int) -> None:
    """A version below what is there by now is stale; one above it goes over it."""
    trades = range(20)

    def brought(version: int, parity: int) -> list[bytes]:
        mine = (trade for trade in trades if trade % 2 == parity)
        return [message(f"T{trade}", version, version * trade) for trade in mine]

    others = [[*brought(2 + turn, 0), *brought(20 + turn, 1)] for turn in range(races)]
    ours = [message(f"T{trade}", 10, 1000 + trade) for trade in trades]
    store = await with_states([message(f"T{trade}", 1, trade) for trade in trades])
    racing = Racing(store, others)
    await lane_worker(deliveries(ours), racing, batch_max=20).run()
    for number, left in enumerate(racing.races):
        await lane_worker(deliveries(left), store, lane=f"after {number}").run()
    before = [message(f"T{trade}", 1, trade) for trade in trades]
    assert shown(store.table) == truth([*before, *ours, *(raw for part in others for raw in part)])


async def test_a_home_that_falls_silent_between_rounds_parks_its_records() -> None:
    """The others are committed up to the first of them, and they follow once it answers."""
    stores: dict[str, Store] = {HOME: await with_states(), AWAY: MemoryStore(AWAY)}
    old = [message(f"E{trade}", 1, trade) for trade in range(9)]
    await lane_worker(deliveries(old), stores, lane="of both", home=BOTH_HOMES).run()
    silent = True

    def fails(call: FaultCall) -> Fault | None:
        return Raises(Unreachable("no answer")) if silent and call.operation in READS else None

    raws = [*NEW[:5], *(message(f"E{trade}", 2, 5 * trade) for trade in range(9)), *NEW[5:]]
    apart = {**stores, AWAY: FaultyStore(stores[AWAY], fails)}
    with pytest.raises(Unreachable, match="9 records are parked, the first at 000006"):
        await lane_worker(deliveries(raws), apart, home=BOTH_HOMES).run()
    home = stores[HOME]
    assert isinstance(home, MemoryStore)
    assert committed(home) == position(5)
    silent = False
    await lane_worker(deliveries(raws), apart, home=BOTH_HOMES).run()
    assert shown(home.table) == truth([*OLD, *old, *raws])


@pytest.mark.parametrize("seed", few_fast(range(40), fast=6))
async def test_lanes_after_each_other_under_any_faults_are_exact(seed: int) -> None:
    """Lanes that remember nothing, each under faults of every kind, end with the truth."""
    draw = Random(seed)  # noqa: S311 (repeatable)
    raws = [
        message(f"T{trade}", version, draw.randrange(-99, 99), desk=draw.choice("AB"))
        for trade in range(12)
        for version in range(1, draw.choice((2, 4)))
    ]
    store, dealt = MemoryStore(HOME), [draw.choices(raws, k=len(raws)) for _ in range(3)]
    dealt[-1] += raws
    faulty = FaultyStore(store, Seeded(seed, share=0.15))
    for number, part in enumerate(dealt):
        await lane_worker(
            deliveries(part), faulty, lane=f"lane {number}", batch_max=draw.choice((5, 40))
        ).run()
        while faulty.in_flight and draw.random() < 0.5:
            await faulty.land()
    while faulty.in_flight:
        await faulty.land()
    assert shown(store.table) == truth(raws)
