"""What tests of the importer share: files in memory, a store whose transactions go wrong, sums."""

import io
import random
from collections import deque
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Literal

from anyio.lowlevel import checkpoint
from support.ledgers import services_of

from ledger.core.amounts import EXACT
from ledger.core.entry import Item, entry_of
from ledger.core.errors import SignedTooLate, Throttled
from ledger.core.hints import HINT_PARTITIONS, hint_of
from ledger.core.keys import IMPORT_PARTITION
from ledger.core.parts import expanded
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.writes import Action, Outcome, Put, Unknown
from ledger.testing.clock import ManualClock
from ledger.writes.imports.batch_writer import BatchDone
from ledger.writes.imports.batches import batch_number
from ledger.writes.imports.file_format import Form
from ledger.writes.imports.importer import Importer, ImportReport
from ledger.writes.imports.source import ImportSource
from ledger.writes.imports.survey import StopSign, Survey, survey

HOME = "us-east-1"
SETTINGS = Settings(home=HOME, regions={HOME: {}, "eu-west-1": {}})
COMBINED = SETTINGS.replace(combine=["*"])

Fate = Literal[
    "applied",
    "applied, no answer",
    "lost, no answer",
    "lands later",
    "throttled",
    "frozen before it signs",
    "killed before",
    "killed after",
]


class Killed(Exception):
    """Stands for a process that is killed: nothing after it runs."""


class FateStore(MemoryStore):
    """A store in memory whose transactions end as `fates` says, then as they should.

    A transaction that lands later reaches the table when the next one is sent, or by `land`.
    """

    def __init__(self, table: MemoryTable, fates: Sequence[Fate] = ()) -> None:
        super().__init__(HOME, table, page_items_max=3)
        self.fates = deque(fates)
        self.sent: list[Sequence[Action]] = []
        self._in_flight: deque[Sequence[Action]] = deque()

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction as its fate has it."""
        self.sent.append(actions)
        await checkpoint()
        fate = self.fates.popleft() if self.fates else "applied"
        if fate == "lands later":
            self._in_flight.append(actions)
            return Unknown(fate)
        outcome = await self._done(actions, fate, token)
        await self.land()
        return outcome

    async def _done(self, actions: Sequence[Action], fate: Fate, token: str | None) -> Outcome:
        if fate == "killed before":
            raise Killed
        if fate == "throttled":
            raise Throttled("too many requests")
        if fate == "frozen before it signs":
            raise SignedTooLate(fate)
        if fate == "lost, no answer":
            return Unknown(fate)
        outcome = await super().transact(actions, token=token)
        if fate == "killed after":
            raise Killed
        return Unknown(fate) if fate == "applied, no answer" else outcome

    async def land(self) -> None:
        """Let every request that is in flight reach the table."""
        while self._in_flight:
            await super().transact(self._in_flight.popleft())


class MarkerlessStore(FateStore):
    """The mutant: the same store, to which no marker is ever written."""

    async def _done(self, actions: Sequence[Action], fate: Fate, token: str | None) -> Outcome:
        entries = [
            action
            for action in actions
            if not (isinstance(action, Put) and action.key[0] == IMPORT_PARTITION)
        ]
        return await super()._done(entries, fate, token)


def seeded(seed: int | None) -> random.Random:
    """Return randomness that a test can repeat."""
    return random.Random(seed)  # noqa: S311 (no secrets here)


def source_of(content: bytes | str, name: str = "made.csv") -> ImportSource:
    """Return a file of this content."""
    return ImportSource(name, io.BytesIO(content.encode() if isinstance(content, str) else content))


async def surveyed(content: bytes | str, form: Form | None = None) -> Survey:
    """Survey a file of this content."""
    found = await survey(source_of(content), form or Form(), SETTINGS, stop=StopSign())
    assert found is not None
    return found


async def imported(
    content: bytes | str,
    store: MemoryStore,
    *,
    form: Form | None = None,
    stop: StopSign | None = None,
    on_batch: Callable[[BatchDone], None] = lambda _done: None,
    settings: LiveSettings = SETTINGS,
    seed: int | None = None,
) -> ImportReport:
    """Import a file of this content, both passes."""
    services = services_of(ManualClock(instant=True), seeded(seed))
    importer = Importer(store, settings, services=services, stop=stop, on_batch=on_batch)
    return await importer.run(source_of(content), await surveyed(content, form))


def entries_of(table: MemoryTable) -> list[Item]:
    """Return every item but markers and hints."""
    others = (IMPORT_PARTITION, *HINT_PARTITIONS)
    return [item for item in table.items() if item["pk"]["S"] not in others]


def markers_of(table: MemoryTable) -> list[Item]:
    """Return the markers of batches, in order."""
    return [item for item in _all_markers(table) if batch_number(item) is not None]


def begins_of(table: MemoryTable) -> list[Item]:
    """Return the begin markers, in order."""
    return [item for item in _all_markers(table) if batch_number(item) is None]


def _all_markers(table: MemoryTable) -> list[Item]:
    return [item for item in table.items() if item["pk"]["S"] == IMPORT_PARTITION]


def sums_of(table: MemoryTable) -> dict[str, Decimal]:
    """Return the sum of the entries of each counter."""
    sums: dict[str, Decimal] = {}
    for item in entries_of(table):
        entry = entry_of(item)
        sums[entry.counter] = EXACT.add(sums.get(entry.counter, 0), entry.change)
    return sums


def hinted_in(table: MemoryTable) -> list[str]:
    """Return the counters that hints name."""
    hints = map(hint_of, (item for item in table.items() if item["pk"]["S"] in HINT_PARTITIONS))
    return sorted(hint.counter for hint in hints if hint is not None)


def changes_of(table: MemoryTable) -> dict[str, list[Decimal]]:
    """Return the changes of each counter in the order of their ids, as a history shows them."""
    entries = [part for item in entries_of(table) for part in expanded(entry_of(item))]
    changes: dict[str, list[Decimal]] = {}
    for entry in sorted(entries, key=lambda entry: entry.id):
        changes.setdefault(entry.counter, []).append(entry.change)
    return changes


def csv_of(count: int) -> str:
    """Return a file of `count` rows over five counters: row i changes counter i % 5 by i."""
    return "counter,change\n" + "".join(f"c{row % 5},{row}\n" for row in range(count))


def sums_of_csv(count: int) -> dict[str, Decimal]:
    """Return the sums of `csv_of(count)`."""
    return {
        f"c{counter}": Decimal(sum(range(counter, count, 5))) for counter in range(min(5, count))
    }
