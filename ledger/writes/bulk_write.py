"""A large write: independent entries, up to 25 in a request, and the outcome of each."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ledger.core.errors import (
    DamagedItem,
    KeyConflict,
    LedgerError,
    NotSent,
    OutcomeUnknown,
    StoreError,
)
from ledger.core.values import Entry
from ledger.runtime.tasks import run_all
from ledger.store.writes import BATCH_WRITES_MAX, EACH_WRITES_MAX
from ledger.writes.entry_plan import PlannedEntry, distinct, entries_written
from ledger.writes.sender import Result, Sender

WRITES_AT_ONCE = 8

SendPart = Callable[[Sequence[PlannedEntry]], Awaitable[object]]


async def send_all(sender: Sender, planned: Sequence[PlannedEntry]) -> list[Entry]:
    """Send entries independently, 25 to a request; conditionally if a key may conflict.

    Returns them in order; those that existed already as they were found.

    Raises:
        KeyConflict, DamagedItem: one stands for another change; the others are written, so of
            several the `outcome` is unknown.
        OutcomeUnknown: with the entries that are not confirmed.
        StoreError, NotSent: nothing was written.
    """
    once = distinct(planned)
    keyed = [change for change in once if change.keyed]
    free = [change for change in once if not change.keyed]
    write = _LargeWrite(total=len(once), is_keyed=not free)
    jobs = [partial(write.send_each, part, sender) for part in _parts_of(keyed, EACH_WRITES_MAX)]
    jobs += [partial(write.send, part, sender.batch) for part in _parts_of(free, BATCH_WRITES_MAX)]
    await run_all(jobs, at_once=WRITES_AT_ONCE)
    write.finish()
    return entries_written(planned, write.found)


def _parts_of(planned: Sequence[PlannedEntry], most: int) -> list[Sequence[PlannedEntry]]:
    return [planned[start : start + most] for start in range(0, len(planned), most)]


class _LargeWrite:
    """The outcomes of the parts of a large write."""

    def __init__(self, total: int, *, is_keyed: bool) -> None:
        self._total = total
        self._is_keyed = is_keyed
        self._unwritten: list[PlannedEntry] = []
        self._unknown: OutcomeUnknown | None = None
        self._refused: StoreError | NotSent | None = None
        self._conflict: KeyConflict | DamagedItem | None = None
        self._conflicting: list[PlannedEntry] = []
        self.found: list[Entry] = []

    @property
    def _is_over(self) -> bool:
        """Whether no more is sent: each further part could wait for its whole deadline, too."""
        return self._refused is not None or self._unknown is not None

    async def send(self, part: Sequence[PlannedEntry], send: SendPart) -> None:
        """Send a part; its failure is recorded, and stops the parts that are not in flight yet."""
        if self._is_over:
            self._unwritten.extend(part)
            return
        try:
            await send(part)
        except LedgerError as error:
            self._note(part, error)

    async def send_each(self, part: Sequence[PlannedEntry], sender: Sender) -> None:
        """Send a part in which each entry has its own outcome."""
        if len(part) == 1:
            await self.send(part, lambda part: self._put(part[0], sender))
        elif self._is_over:
            self._unwritten.extend(part)
        else:
            await sender.each(part, self._take)

    async def _put(self, change: PlannedEntry, sender: Sender) -> None:
        self._take(change, await sender.put(change))

    def _take(self, change: PlannedEntry, result: Result) -> None:
        if isinstance(result, LedgerError):
            self._note([change], result)
        elif result.repeated:
            self.found.append(result)

    def _note(self, part: Sequence[PlannedEntry], error: LedgerError) -> None:
        match error:
            case OutcomeUnknown():
                self._unknown = error
                self._unwritten.extend(change for change in part if change.entry in error.entries)
            case KeyConflict() | DamagedItem():
                self._conflict = self._conflict or error
                self._conflicting.extend(part)
            case StoreError() | NotSent():
                self._refused = error
                self._unwritten.extend(part)
            case _:
                raise error

    def finish(self) -> None:
        """Raise what went wrong, if anything, naming what can be written again."""
        nothing = self._unknown is None and len(self._unwritten) == self._total
        if self._refused is not None and nothing:
            raise self._refused
        if self._unwritten:
            cause = self._refused or self._unknown
            # A conflict is unwritten as well: a retry raises it again, silence would hide it.
            entries = [change.entry for change in (*self._unwritten, *self._conflicting)]
            raise OutcomeUnknown(
                f"{len(entries)} of {self._total} changes are not confirmed: {cause}",
                entries=entries,
                retryable=self._is_keyed,
            )
        if self._conflict is not None:
            if self._total > 1:  # the others are written
                self._conflict.outcome = "unknown"
            raise self._conflict
