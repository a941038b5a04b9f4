"""What the checker hears of calls and reads, and the end of a run, over stores in memory."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from lab.chaos.run import ChaosOptions
from lab.chaos.writer_process import WriterProcess
from lab.faults.calls import Call, CallResult, Kind
from lab.faults.end_checks import EndChecks, wrong_history
from lab.faults.report import FaultProgress
from lab.faults.workload import ReadMode, Workload
from prometheus_client import CollectorRegistry
from support.ledgers import AWAY, HOME, make_settings, net, seeded

from ledger.core.errors import ReadTooSlow, Throttled
from ledger.core.ids import parse
from ledger.core.values import Entry
from ledger.demo.harness import census
from ledger.demo.harness.checker import Outcome, TaggedChecker
from ledger.demo.harness.table import TestTable
from ledger.local import LocalGlobalTable
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.writes import Delete, Put
from ledger.testing.clock import ManualClock

ID = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"
Answers = Callable[[Call], CallResult | None]


class FakeWriter(WriterProcess):
    """A writer whose process answers as it is told to."""

    def __init__(self, region: str, answers: Answers) -> None:
        self.region = region
        self.calls: list[Call] = []
        self._answers_by = answers

    async def call(self, call: Call) -> CallResult | None:
        """Answer a call."""
        self.calls.append(call)
        return self._answers_by(call)


@dataclass(frozen=True, slots=True)
class Place:
    """A workload of two regions over stores in memory."""

    workload: Workload
    checker: TaggedChecker
    progress: FaultProgress
    stores: dict[str, MemoryStore]
    mode: ReadMode
    settings: Settings
    clock: ManualClock

    async def ask(self, kind: Kind, *numbers: int, at: datetime | None = None) -> Outcome | None:
        """Make a call for changes of counter `a` at home."""
        changes = tuple(("a", number) for number in numbers)
        return await self.workload.call(HOME, Call(kind, changes, at=at))

    @property
    def rules(self) -> list[str]:
        """The rules that were found broken."""
        return [wrong.rule for wrong in self.progress.wrong]


@asynccontextmanager
async def a_place(
    answers: Answers = lambda call: CallResult(call.number, "acknowledged"), **settings: Any
) -> AsyncIterator[Place]:
    """Open a workload; nothing is written or read but what a test asks for."""
    clock, chosen = ManualClock(instant=True), make_settings(**settings)
    checker = TaggedChecker()
    progress = FaultProgress(ChaosOptions(), checker, clock, started=0.0)
    stores = {HOME: MemoryStore(HOME), AWAY: MemoryStore(AWAY)}
    async with anyio.create_task_group() as tasks:
        ledgers = {}
        for region, store in stores.items():
            ledgers[region] = Ledger(
                chosen,
                region=region,
                given=GivenConnections(store=store),
                services=Services.of(clock=clock, randomness=seeded()),
            )
            await ledgers[region].__aenter__()
        mode = ReadMode("fresh", ledgers, 0.0, 0.0)
        workload = Workload(
            progress,
            settings=chosen,
            writers={region: FakeWriter(region, answers) for region in stores},
            read_modes=[mode],
            tasks=tasks,
        )
        yield Place(workload, checker, progress, stores, mode, chosen, clock)
        tasks.cancel_scope.cancel()
        for ledger in reversed(ledgers.values()):
            await ledger.close()


def entry(number: int) -> Entry:
    """Return the entry of a change of counter `a`."""
    return Entry("a", ID, Decimal(10**number), HOME)


async def test_a_partly_unknown_call_leaves_the_rest_acknowledged() -> None:
    """Only the entries in the error are unknown; all others are durable, as the ledger says."""
    async with a_place(lambda call: CallResult(call.number, "unknown", (entry(1),))) as place:
        assert await place.ask("many", 0, 1, 2) == "unknown"
        assert place.checker.tally() == {"acknowledged": 2, "unknown": 1}
        assert place.rules == []


async def test_a_call_without_answer_is_unknown() -> None:
    """A process that died in the midst of it may have written the change or not."""
    async with a_place(lambda _call: None) as place:
        assert await place.ask("record", 0) is None
        assert place.checker.tally() == {"unknown": 1}
        assert place.progress.calls == {"record": 1, "without answer": 1}


async def test_an_error_that_no_call_should_end_with_is_told() -> None:
    """It breaks the run at once."""
    async with a_place(
        lambda call: CallResult(call.number, "unknown", error="KeyError()")
    ) as place:
        await place.ask("record", 0)
        assert place.rules == ["errors"]
        assert "KeyError()" in place.progress.wrong[0].text
        assert place.progress.stop.is_set()


@pytest.mark.parametrize(("outcome", "rules"), [("late", []), ("acknowledged", ["P5", "P5"])])
async def test_repeats_past_the_horizon_are_checked(outcome: Outcome, rules: list[str]) -> None:
    """At the end keyed calls are repeated in every region: each must be refused as too late."""
    async with a_place(lambda call: CallResult(call.number, outcome)) as place:
        at = place.clock.now() - timedelta(seconds=301)
        place.checker.begin_call([("a", 0)])
        place.workload._keyed.append(Call("keyed", (("a", 0),), at=at))
        await place.workload.repeat_late()
        assert place.progress.repeats == {outcome: 2}
        assert place.rules == rules


async def test_an_archive_answers_repeats_past_the_horizon() -> None:
    """So none need be refused."""
    async with a_place(archive=["file:///nowhere"]) as place:
        at = place.clock.now() - timedelta(seconds=301)
        place.checker.begin_call([("a", 0)])
        place.workload._keyed.append(Call("list", (("a", 0),), at=at))
        await place.workload.repeat_late()
        assert place.progress.repeats == {"acknowledged": 2}
        assert place.rules == []


async def test_a_read_is_checked_by_what_the_region_shows() -> None:
    """An acknowledged change that the table does not have is missed at once."""
    async with a_place() as place:
        await place.ask("record", 0)
        await place.workload.read(AWAY, place.mode, "a")
        assert place.rules == []
        await place.workload.read(HOME, place.mode, "a")
        assert place.rules == ["P1"]


async def test_what_cannot_be_read_is_counted_and_what_cannot_be_summed_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A throttled read proves nothing; a damaged item breaks the run."""
    async with a_place() as place:

        async def throttled(*_: Any, **__: Any) -> None:
            raise Throttled("slow down")

        with monkeypatch.context() as patched:
            patched.setattr(place.mode.ledgers[HOME], "total", throttled)
            await place.workload.read(HOME, place.mode, "a")
        assert (place.progress.unread, place.rules) == (1, [])
        damaged = {"pk": {"S": "a"}, "sk": {"S": ID}, "change": {"S": "x"}}
        await place.stores[HOME].write(Put(damaged))
        await place.workload.read(HOME, place.mode, "a")
        assert place.rules == ["errors"]


def end_checks(place: Place) -> EndChecks:
    """Return the end of a run whose table has replicated everything."""
    status = {"regions": (HOME, AWAY), "endpoints": {}, "control_url": "", "table": "ledger"}
    table = TestTable(
        LocalGlobalTable(lambda _name, _body: {}, status),
        place.settings,
        {**place.stores},
        CollectorRegistry(),
        Path(),
        AsyncExitStack(),
    )
    return EndChecks(table, place.workload, place.progress, place.mode)


async def merged_everywhere(place: Place) -> None:
    """Let change 0 of counter `a` be acknowledged and merged in both regions."""
    parsed = parse(ID)
    assert parsed is not None
    await place.ask("record", 0)
    for store in place.stores.values():
        await store.write(Put(net("a", 1, [parsed])))


async def no_more_merging() -> None:
    """Stop nothing, since nothing merges."""


async def test_an_end_at_rest_is_right() -> None:
    """One net change in each region with all that was acknowledged: four things were checked."""
    async with a_place() as place:
        await merged_everywhere(place)
        await end_checks(place).run(no_more_merging)
        assert place.rules == []
        assert [one[:2] for one in place.progress.checked] == ["P2", "P4", "P5", "P2"]


@pytest.mark.parametrize(("failures", "is_read"), [(5, True), (500, False)])
async def test_a_busy_machine_is_given_time_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
    failures: int,
    is_read: bool,  # noqa: FBT001
) -> None:
    """A total that cannot be read at once is asked for again, for a bounded time."""
    async with a_place() as place:
        await merged_everywhere(place)
        ledger, left = place.mode.ledgers[HOME], [ReadTooSlow("busy")] * failures
        total = ledger.total

        async def busy(counter: str, **options: Any) -> Any:
            if left:
                raise left.pop()
            return await total(counter, **options)

        monkeypatch.setattr(ledger, "total", busy)
        with nullcontext() if is_read else pytest.raises(ReadTooSlow):
            await end_checks(place).run(no_more_merging)
        assert place.rules == []


@pytest.mark.parametrize("region", [HOME, AWAY])
async def test_an_entry_that_is_never_merged_is_told(
    monkeypatch: pytest.MonkeyPatch, region: str
) -> None:
    """Merging that stands still is given up, and what is left is named (P4)."""
    monkeypatch.setattr(census, "STILL_SECONDS_MAX", 3.0)
    async with a_place() as place:
        await merged_everywhere(place)
        left = {"pk": {"S": "a"}, "sk": {"S": ID}, "change": {"N": "1"}}
        await place.stores[region].write(Put(left))
        await end_checks(place).run(no_more_merging)
        assert place.rules == ["P4"]
        text = f"a in {region} ends as 1 net changes, 1 entries"
        assert text in place.progress.wrong[0].text


async def test_a_net_that_is_missing_in_a_region_is_told() -> None:
    """It is lost there (P2, P3), and the collection is not one net change (P4)."""
    async with a_place() as place:
        await merged_everywhere(place)
        await place.stores[AWAY].write(Delete(("a", "~net#0001")))
        await end_checks(place).run(no_more_merging)
        assert set(place.rules) == {"P2", "P3", "P4"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("0", "1"), ("1.000", "10"), ("1.001", "100")], ""),
        ([("1", "1"), ("0", "110")], "0 comes after 1"),
        ([("0", "1"), ("0", "110")], "0 comes after 0"),
        ([("0", "1"), ("1", "110")], "1 is 110, which is not one change"),
        ([("0", "1"), ("1", "10")], "it adds up to 11, and the total is 111"),
    ],
)
def test_a_history_has_each_change_of_its_total_once(
    changes: list[tuple[str, str]], said: str
) -> None:
    """In the order of ids, with the id of its own."""
    entries = [Entry("a", id_, Decimal(change)) for id_, change in changes]
    assert wrong_history(entries, Decimal(111)) == said
