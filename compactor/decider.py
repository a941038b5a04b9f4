"""From what every region showed to what is to be done: a plan, in a table that lost a region more.

A fold of an archived table gets its place in the archive here, before it is held.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from compactor.archive_object import ArchiveObject
from compactor.archiver import is_unsettled, settling
from compactor.context import MergeContext
from compactor.merge_plan import TOO_FEW, MergeRules, plan_merge
from compactor.observation import CollectionViews
from compactor.pass_terms import PassTerms
from compactor.succession import PutAgain, Succession, succeed
from ledger.core.errors import AmountOverflow, DamagedItem, LedgerError

_VERSION_BITS = 128
REPEATS_MAX = 100_000
"""How many of them a process remembers; one that is forgotten is put once more, at a cost."""
REPEAT_SECONDS = 3600.0
"""How long the copy of an entry that was put again may take to arrive everywhere."""


class RepeatedReasons:
    """The entries that this process has put again, each with when (monotonic)."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, str], float] = {}

    def add(self, partition: str, entries: Sequence[PutAgain], *, at: float) -> None:
        """Note that these entries of a collection are put again now."""
        for entry in entries:
            self._at[partition, entry.key] = at

    def without_recent(self, partition: str, found: Succession, *, at: float) -> Succession:
        """Leave out what was put again within the hour: it may still be on its way."""
        if len(self._at) > REPEATS_MAX:
            self._at.clear()
        since = at - REPEAT_SECONDS
        again = tuple(
            each for each in found.again if self._at.get((partition, each.key), -math.inf) < since
        )
        return replace(found, again=again)


class Decider:
    """Decides on the collections of one pass."""

    def __init__(
        self, context: MergeContext, terms: PassTerms, *, repeats: RepeatedReasons
    ) -> None:
        self._terms = terms
        self._archiver = context.archiver
        self._repeats = repeats
        self._clock = context.services.clock
        self._random = context.services.randomness

    def decided(
        self, observed: CollectionViews, asked_until: datetime | None
    ) -> tuple[Succession, ArchiveObject | None]:
        """Return what to do with a collection, and what must be in the archive before.

        `asked_until` is up to when it was asked about keys, None if it was not.

        Raises:
            DamagedItem: the sum of its entries does not fit in 38 digits, or what the net says of
                its archive cannot be read.
            ClockOff: by the answers of the observation, too.
        """
        rules = self._terms.rules
        is_asked = rules.is_archived and is_unsettled(observed, asked_until)
        # Of what was asked about even few entries are folded: they hold up the answer.
        found = self._found(observed, replace(rules, fold_age=0.0) if is_asked else rules)
        return self._archived(observed, found, is_asked=is_asked)

    def _found(self, observed: CollectionViews, rules: MergeRules) -> Succession:
        """Return what to do with a collection; in a table that lost nothing, a plan alone."""
        self._terms.check_clock()
        observation, now, version = observed.observation, self._clock.now(), self._version()
        partition = observation.partition
        try:
            if self._terms.has_lost:
                found = succeed(observation, rules, now=now, version=version, upto=observed.upto)
                return self._repeats.without_recent(partition, found, at=self._clock.monotonic())
            plan = plan_merge(observation, rules, now=now, version=version)
        except AmountOverflow as error:
            raise DamagedItem(f"counter {partition!r}: {error}") from None
        deletes = {self._terms.home.region: plan.deletes} if plan.deletes else None
        return Succession(plan=plan, deletes=deletes, waits=plan.waits)

    def _archived(
        self, observed: CollectionViews, found: Succession, *, is_asked: bool
    ) -> tuple[Succession, ArchiveObject | None]:
        """Give the entries of a fold their place in the archive, if the table has one."""
        rules, fold = self._terms.rules, found.plan.fold
        if not rules.is_archived:
            return found, None
        if self._archiver is None:
            raise LedgerError("the table is archived, and this compactor was given no archive")
        if fold is None and found.waits == TOO_FEW:
            fold = settling(observed, rules, version=self._version(), is_asked=is_asked)
        if fold is None:
            return found, None
        fold, made = self._archiver.add(observed, fold, rules)
        return replace(found, plan=replace(found.plan, fold=fold)), made

    def _version(self) -> str:
        return f"{self._random.getrandbits(_VERSION_BITS):032x}"
