"""Plans changes with the clock and the randomness of one process."""

from collections.abc import Sequence
from datetime import datetime

from ledger.core import amounts, keys
from ledger.core.ids import SUFFIX_BITS
from ledger.core.own_keys import KEY_BITS, own_keys
from ledger.core.values import Entry, Spending
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.writes.book_rules import check_not_book
from ledger.writes.entry_plan import (
    Change,
    GroupedChange,
    PlannedEntry,
    plan_entry,
    plan_group,
    replan,
)


class Planner:
    """Makes the ids of changes in one region.

    With `has_own_keys` an entry whose caller names no key gets one, from which its id follows: see
    `ledger.core.own_keys`. A spend gets none: it is repeated by its caller's key alone.
    """

    def __init__(
        self,
        region: str,
        *,
        settings: LiveSettings,
        services: Services,
        has_own_keys: bool = False,
    ) -> None:
        self._region = region
        self._settings = settings
        self._clock = services.clock
        self._random = services.randomness
        self._has_own_keys = has_own_keys

    def plan(
        self,
        change: Change,
        *,
        is_new: bool = True,
        suffix: int | None = None,
        spending: Spending | None = None,
    ) -> PlannedEntry:
        """Plan one change; with `is_new` false, for a counter that any existing id may have.

        Then the amount may be any exact one: the reversal of an entry is as large as the entry.
        `suffix` is the id's, by default a random one.

        Raises:
            InvalidInput: a value breaks a rule; the message names both.
            ContractConflict: the region is not written to; see `Settings.check_written`.
        """
        if is_new:
            counter = keys.checked_new_counter(change.counter)
            amounts.addend(change.change)
            if change.legs is None:
                check_not_book(counter, self._settings.current)
        made: int | str
        if suffix is not None:
            made = suffix
        elif self._has_own_keys and spending is None:
            (made,) = own_keys(self._random.getrandbits(KEY_BITS), 1)
        else:
            made = self._random.getrandbits(SUFFIX_BITS)
        return plan_entry(
            change,
            region=self._region,
            settings=self._open_settings,
            now=self._clock.now(),
            suffix=made,
            until=self._until,
            spending=spending,
        )

    def plan_group(self, changes: Sequence[GroupedChange]) -> list[PlannedEntry]:
        """Plan entries that are written together, their counters and amounts all checked."""
        return plan_group(
            changes,
            region=self._region,
            settings=self._open_settings,
            now=self._clock.now(),
            bits=self._random.getrandbits(
                (KEY_BITS if self._has_own_keys else SUFFIX_BITS) * len(changes)
            ),
            until=self._until,
            has_own_keys=self._has_own_keys,
        )

    def replan(self, entries: Sequence[Entry]) -> list[PlannedEntry]:
        """Plan to write items again, under the ids that they have.

        Raises:
            InvalidEntry: an id is not in the ledger's form.
            RetryHorizonPassed: too late to repeat one.
            ContractConflict: as `plan_entry`.
        """
        now, until, settings = self._clock.now(), self._until, self._open_settings
        return [
            replan(entry, region=self._region, settings=settings, now=now, until=until)
            for entry in entries
        ]

    @property
    def _open_settings(self) -> Settings:
        """The current settings, which must allow writing to this region."""
        settings = self._settings.current
        if settings.terms.closed:
            settings.check_written(self._region)
        return settings

    @property
    def _until(self) -> datetime | None:
        validity = self._settings.validity
        return None if validity is None else validity.until
