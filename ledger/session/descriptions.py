"""Descriptions read and written, through the region's own store.

A write is conditional on the item as it was read (its stamp), or reads again: so calls in one
region each take effect. Regions write independently of each other: the item written last wins, as a
whole.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count

from ledger.core.descriptions import (
    Attributes,
    Value,
    attributes_in,
    changed,
    checked,
    description_item,
    description_key,
    description_of,
    stamp_in,
)
from ledger.core.entry import AttributeValue, Item, damaged
from ledger.core.errors import OutcomeUnknown, StoreError
from ledger.runtime.call_deadlines import NEVER, TIMEOUT, bounded, changing
from ledger.runtime.services import Services
from ledger.runtime.validity import signed_within
from ledger.settings.live import LiveSettings
from ledger.store.conditions import Absent, Condition, Equals
from ledger.store.port import Store
from ledger.store.reads import EACH_GETS_MAX, Get
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, Put, Unknown

_STAMP_BITS = 64


class Descriptions:
    """The descriptions of counters in one region."""

    def __init__(self, store: Store, settings: LiveSettings, *, services: Services) -> None:
        self._store = store
        self._settings = settings
        self._clock = services.clock
        self._random = services.randomness
        self._retrier = Retrier.of(store, clock=self._clock, randomness=self._random)

    async def describe(
        self, counter: str, attributes: Mapping[str, Value | None], *, end: float = NEVER
    ) -> dict[str, Value]:
        """Set and remove attributes; return all attributes afterwards. See `Ledger.describe`.

        `end` is the event loop's time at which the outcome is reported as unknown.
        """
        asked = checked(attributes)
        self._settings.current.check_written(self._store.region)
        with signed_within(self._settings.validity, self._clock), changing(None):
            work = self._described(counter, asked)
            return await bounded(end, work, partial(_unknown, counter, TIMEOUT))

    async def _described(
        self, counter: str, asked: Mapping[str, AttributeValue | None]
    ) -> dict[str, Value]:
        deadline = self._clock.monotonic() + self._settings.current.write_deadline
        for tries in count(1):
            item = await self._store.get(Get(description_key(counter)))
            _read(item)  # damaged values are refused, not kept
            after = changed(attributes_in(item), asked)
            if after == attributes_in(item) or await self._put(counter, after, item):
                return description_of(after)
            if not await self._retrier.pause_within(tries, deadline=deadline):
                break
        raise StoreError(
            f"the description of {counter!r} was written by others {tries} times in a row: repeat"
            " the call"
        )

    async def _put(self, counter: str, attributes: Attributes, before: Item | None) -> bool:
        """Replace the description that was read; return False if another writer came first.

        Raises:
            OutcomeUnknown: no answer.
        """
        stamp = stamp_in(before)
        unchanged: Condition = Absent() if stamp is None else Equals("stamp", {"S": stamp})
        made = description_item(
            counter, attributes, f"{self._random.getrandbits(_STAMP_BITS):016x}"
        )
        put = Put(made, unchanged)
        final = await self._retrier.until_answered(lambda: self._store.write(put))
        if isinstance(final.outcome, Unknown):
            raise _unknown(counter, final.outcome.cause)
        return isinstance(final.outcome, Applied)

    async def description(self, counter: str) -> dict[str, Value]:
        """Return the attributes of a counter."""
        return (await self.descriptions([counter]))[counter]

    async def descriptions(self, counters: Sequence[str]) -> dict[str, dict[str, Value]]:
        """Return the attributes of some counters by name.

        Raises:
            DamagedItem: an item holds something else.
        """
        found: dict[str, dict[str, Value]] = {}
        consistent = self._settings.current.consistent_reads
        for start in range(0, len(counters), EACH_GETS_MAX):
            some = counters[start : start + EACH_GETS_MAX]
            gets = [Get(description_key(counter), consistent=consistent) for counter in some]
            read = await self._store.get_each(gets)
            found |= {counter: _read(item) for counter, item in zip(some, read.items, strict=True)}
        return found


def _unknown(counter: str, cause: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"no answer for the description of {counter!r} ({cause}): repeat the call, which sets the"
        " same",
        entries=[],
        retryable=True,
    )


def _read(item: Item | None) -> dict[str, Value]:
    try:
        return description_of(attributes_in(item))
    except ValueError as error:
        raise damaged(item or {}, str(error)) from None
