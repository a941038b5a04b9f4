from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from support.ledgers import HOME, make_services, make_settings

from ledger.core.errors import InvalidInput, LedgerError
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.source import LagUnit, Memory, Source, StreamPart
from ledger.pipeline.stream_runs import LEASE_SECONDS, ROUND_SECONDS, StreamRun, open_stream
from ledger.store.memory import MemoryStore
from ledger.testing.clock import ManualClock


@dataclass
class FakeSource:
    """A lane without records; `is_finished` is what it says of itself."""

    lane: str
    memory: Memory
    is_finished: bool = False

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield nothing."""
        for _none in range(0):
            yield [Delivery(after, b"")][:most]


@dataclass
class FakeStream:
    """A stream of these lanes."""

    lanes: Sequence[StreamPart]
    name: str = "trades"
    lag_unit: LagUnit = "records"

    async def lag(self, part: StreamPart, position: str) -> float:
        """Return what it takes for a lag."""
        return float(len(part.lane) + len(position))

    async def parts(self) -> Sequence[StreamPart]:
        """Return them."""
        return self.lanes

    def source(self, part: StreamPart, memory: Memory) -> FakeSource:
        """Return a lane's records."""
        return FakeSource(part.lane, memory)


@dataclass
class Desk:
    """Processes that run one stream, on one clock and one table."""

    stream: FakeStream
    clock: ManualClock = field(default_factory=ManualClock)
    store: MemoryStore = field(default_factory=lambda: MemoryStore(HOME))
    order: list[str] = field(default_factory=list)

    def process(self, number: int = 1, *, ends: bool = False) -> "FakeProcess":
        """Return a process, whose lanes end at once or never."""
        return FakeProcess(self, number, ends=ends)


class FakeProcess:
    """One process: it runs lanes by noting them."""

    def __init__(self, desk: Desk, number: int, *, ends: bool) -> None:
        self.held: set[str] = set()
        self.problems: list[str] = []
        self.told: list[str] = []
        self.broken: set[str] = set()
        self.stopping = anyio.Event()
        self._desk = desk
        self._ends = ends
        self.stream_run = StreamRun(
            stream=desk.stream,
            run=self,
            store=desk.store,
            dead=Path("dead"),
            services=make_services(desk.clock, number),
            report=self.told.append,
            problems=self.problems,
        )

    async def run(
        self, name: str, source: Source, dead: Path, *, until: anyio.Event | None = None
    ) -> None:
        """Note a lane; hold it until it ends, is lost, or a stop is wanted."""
        assert isinstance(source, FakeSource)
        assert dead == Path("dead")
        assert until is not None
        self._desk.order.append(name)
        if name in self.broken:
            raise LedgerError(f"{name} is broken")
        self.held.add(name)
        source.is_finished = self._ends
        if not self._ends:
            async with anyio.create_task_group() as tasks:
                for event in (until, self.stopping):
                    tasks.start_soon(_cancel_then, tasks, event)
        self.held.discard(name)

    async def wait_for(self, wanted: Callable[[], Awaitable[object]]) -> bool:
        """Wait, unless a stop is wanted."""
        if not self.stopping.is_set():
            await wanted()
        return not self.stopping.is_set()

    async def live(self) -> None:
        """Run until the end."""
        await self.stream_run.bring_in()


async def _cancel_then(tasks: anyio.abc.TaskGroup, event: anyio.Event) -> None:
    await event.wait()
    tasks.cancel_scope.cancel()


async def test_children_begin_once_their_parents_are_in() -> None:
    """Each lane is run once, by whichever process; the stream has ended when all have."""
    split = [
        StreamPart("trades/s2", ("trades/s0",)),
        StreamPart("trades/s0", ("trades/gone",)),
        StreamPart("trades/s1"),
        StreamPart("trades/s3", ("trades/s2", "trades/s1")),
    ]
    desk = Desk(FakeStream(split))
    async with anyio.create_task_group() as tasks:
        for number in (1, 2):
            tasks.start_soon(desk.process(number, ends=True).live)
        await desk.clock.advance(20 * ROUND_SECONDS)
    order = [lane[-2:] for lane in desk.order]
    assert sorted(order) == ["s0", "s1", "s2", "s3"]
    assert order.index("s0") < order.index("s2") < order.index("s3") > order.index("s1")
    again = desk.process(3)
    await again.live()
    assert again.told == []


async def test_processes_share_the_lanes_and_take_over_those_of_a_stopped_one() -> None:
    """Each takes a lane at a time; a lane that is given back goes to who is there."""
    desk = Desk(FakeStream([StreamPart(f"trades/{number}") for number in range(4)]))
    first, second = desk.process(1), desk.process(2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.live)
        tasks.start_soon(second.live)
        await desk.clock.advance(5.0)
        assert (len(first.held), len(second.held)) == (2, 2)
        assert first.held | second.held == {part.lane for part in desk.stream.lanes}
        first.stopping.set()
        await desk.clock.advance(LEASE_SECONDS)
        assert (len(first.held), len(second.held)) == (0, 4)
        second.stopping.set()
        await desk.clock.advance(ROUND_SECONDS)


async def test_a_lane_that_breaks_is_noted_and_the_others_go_on() -> None:
    """The process ends once nothing is left that it could read."""
    desk = Desk(
        FakeStream(
            [StreamPart("trades/a"), StreamPart("trades/b"), StreamPart("trades/c", ("trades/a",))]
        )
    )
    process = desk.process(ends=True)
    process.broken = {"trades/a"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.live)
        await desk.clock.advance(10 * ROUND_SECONDS)
    assert sorted(desk.order) == ["trades/a", "trades/b"]
    assert process.problems == ["trades/a is broken"]


async def test_a_lane_keeps_until_when_it_lacks_nothing() -> None:
    """A position and the time; nothing before it was noted."""
    desk = Desk(FakeStream([]))
    memory = desk.process().stream_run.memory("trades/a")
    assert await memory.caught_up() is None
    await memory.note("007")
    assert await memory.caught_up() == ("007", desk.clock.now().timestamp())


@pytest.mark.parametrize(
    "address",
    ["kinesis://", "kinesis://a/b", "kafka://host", "kafka:///topic", "kafka://a/b/c", "ftp://a"],
)
async def test_an_address_that_is_no_stream_is_refused(address: str) -> None:
    """The error names what there is."""
    with pytest.raises(InvalidInput, match=r"is not a stream: kinesis://STREAM, kafka://BROKER"):
        async with open_stream(address, make_settings(), HOME, clock=ManualClock()):
            pass
