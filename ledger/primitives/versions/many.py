"""Many records put by condition in one call: those that are new share requests.

::

    25 records   put if absent, each on its own ──┬── applied ─────────> handled
                                                  ├── rejected ──┐
                                                  └── unknown ───┴────> a separate put, if older

`put if absent` can be said as a statement, 25 to a request; `put if absent or older` cannot. So a
record that is there takes a write more. Where most of the last 25 were there, the next go by puts
of their own at once, which say what they replaced, until most are new again.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ledger.core.entry import Item, Key, key_of
from ledger.core.errors import LedgerError, StoreError
from ledger.primitives.versions.state import Handled, Rules, Skipped
from ledger.runtime.tasks import run_all
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.writes import EACH_WRITES_MAX, Applied, Outcome, Put, Unknown

PARTS_AT_ONCE = 4
PUTS_AT_ONCE = 8
"""Separate puts of each part, at a time."""

Result = Handled | Skipped | Unknown
Versioned = tuple[Item, int]
"""An item with its version in it, and the version."""
PutOlder = Callable[[Item, int, str | None], Awaitable[tuple[Result, bool]]]
"""Puts over an older item; takes the cause of an earlier doubt; returns whether it was new."""


class ManyPuts:
    """Puts many records; remembers whether those of late were new."""

    def __init__(self, store: Store, rules: Rules, put_older: PutOlder) -> None:
        self._store = store
        self._rules = rules
        self._put_older = put_older
        self._mostly_new = True

    async def put(self, records: Sequence[Versioned]) -> list[Result]:
        """Put each record, of those of one key the newest; returns the results in order.

        Raises:
            DamagedItem, StoreError: of one record; all others were tried.
        """
        newest = self._newest(records)
        once = [records[place] for place in newest.values()]
        parts = [
            once[start : start + EACH_WRITES_MAX] for start in range(0, len(once), EACH_WRITES_MAX)
        ]
        done = await run_all([partial(self._part, part) for part in parts], at_once=PARTS_AT_ONCE)
        told = dict(zip(newest, [result for part in done for result in part], strict=True))
        for result in told.values():
            if isinstance(result, LedgerError):
                raise result
        return [
            result if place == newest[key_of(item)] else self._overtaken(version, result)
            for place, (item, version) in enumerate(records)
            for result in (told[key_of(item)],)
            if not isinstance(result, LedgerError)
        ]

    def _overtaken(self, version: int, newest: Result) -> Result:
        """Return what became of a version, given what became of the one that stays."""
        match newest:
            case Handled(version=handled) if self._rules.is_old(version, handled):
                return Skipped(version, handled)
            case Skipped(newest=found):
                return Skipped(version, found)
        return newest

    def _newest(self, records: Sequence[Versioned]) -> dict[Key, int]:
        """Return, by key, the place of the version that stays: of duplicates, as the rules say."""
        newest: dict[Key, int] = {}
        for place, (item, version) in enumerate(records):
            other = newest.setdefault(key_of(item), place)
            if not self._rules.is_old(version, records[other][1]):
                newest[key_of(item)] = place
        return newest

    async def _part(self, part: Sequence[Versioned]) -> list[Result | LedgerError]:
        if len(part) == 1 or not self._mostly_new:
            told = await self._alone(part, [None] * len(part))
            self._look_back(sum(is_new for _, is_new in told), len(part))
            return [result for result, _ in told]
        answer = await self._together(part)
        self._look_back(sum(isinstance(outcome, Applied) for outcome in answer), len(part))
        results: dict[int, Result | LedgerError] = {
            place: Handled(version) if isinstance(outcome, Applied) else outcome
            for place, ((_, version), outcome) in enumerate(zip(part, answer, strict=True))
            if isinstance(outcome, Applied | StoreError)
        }
        left = [place for place in range(len(part)) if place not in results]
        doubts = [_doubt(answer[place]) for place in left]
        again = await self._alone([part[place] for place in left], doubts)
        results.update(zip(left, (result for result, _ in again), strict=True))
        return [results[place] for place in range(len(part))]

    def _look_back(self, new: int, of: int) -> None:
        if of > 1:
            self._mostly_new = 2 * new >= of

    async def _together(self, part: Sequence[Versioned]) -> Sequence[Outcome | StoreError]:
        try:
            answer = await self._store.write_each([Put(item, Absent()) for item, _ in part])
        except StoreError as error:
            return [error] * len(part)
        return answer.outcomes

    async def _alone(
        self, part: Sequence[Versioned], doubts: Sequence[str | None]
    ) -> list[tuple[Result | LedgerError, bool]]:
        async def one(
            item: Item, version: int, doubt: str | None
        ) -> tuple[Result | LedgerError, bool]:
            try:
                return await self._put_older(item, version, doubt)
            except LedgerError as error:
                return error, False

        jobs = [partial(one, *record, doubt) for record, doubt in zip(part, doubts, strict=True)]
        return await run_all(jobs, at_once=PUTS_AT_ONCE) if jobs else []


def _doubt(outcome: Outcome | StoreError) -> str | None:
    return outcome.cause if isinstance(outcome, Unknown) else None
