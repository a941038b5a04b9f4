"""What a pass rests on: settings under the contract, replicas and clock, and that they still hold.

A pass begins with one home, one set of regions and one archive. What else the contract holds may
change under way, and is obeyed from the next step on.
"""

import math
from datetime import timedelta

from compactor.checks import REPLICAS_SECONDS, check_clock, check_replicas
from compactor.context import MergeContext
from compactor.merge_plan import MergeRules
from ledger.core.contract import NO_HOME, Validity
from ledger.core.errors import HomeMoving, LeaseLost
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.port import Store


def rules_of(settings: Settings) -> MergeRules:
    """Return the rules of plans by these settings."""
    compactor, terms = settings.compactor, settings.terms
    skew = timedelta(seconds=terms.clock_skew)
    return MergeRules(
        home=settings.home,
        settle=settings.settle,
        fold_max=compactor.fold_max,
        fold_min=compactor.fold_min,
        fold_age=compactor.fold_age,
        prune_min=compactor.prune_min,
        generation=terms.generation,
        unmerged=terms.unmerged,
        periods=terms.periods,
        given_up=None if terms.given_up_at is None else terms.given_up_at + skew,
        epochs={name: terms.epoch_of(name) for name in terms.regions} if terms.lost else None,
        is_archived=bool(terms.archive),
        index=terms.index,
        budgets=(*terms.budgets, *terms.budgets_coming),
        grant_late=terms.signature_lifetime + terms.clock_skew,
        is_signed=settings.signatures.are_made,
    )


class PassTerms:
    """The settings and rules of one pass, compared with contract, replicas and clock."""

    def __init__(self, context: MergeContext) -> None:
        self._stores = context.stores
        self._live = context.settings
        self._archive = context.archiver.urls if context.archiver else ()
        self._clock = context.services.clock
        self.settings = self._live.current
        self.rules = rules_of(self.settings)
        self.home = self._stores[self.settings.home]
        self._replicas_due = -math.inf

    @property
    def others(self) -> list[Store]:
        """The regions beside home."""
        return [store for region, store in self._stores.items() if region != self.home.region]

    @property
    def live(self) -> LiveSettings:
        """The settings under the contract as it is known now."""
        return self._live

    @property
    def has_lost(self) -> bool:
        """Whether the table lost a region for good: some of its writes arrived in part."""
        return bool(self.settings.terms.lost)

    def check_clock(self) -> None:
        """Refuse to merge with a clock that is off.

        Raises:
            ClockOff: by the answers of a region.
        """
        check_clock(self._stores, skew=self.settings.clock_skew)

    async def renew(self) -> Validity | None:
        """Take what the table's contract holds now; return until when to act on it.

        Raises:
            LeaseLost: the home, the regions or the archive are no longer those that the pass began
                with.
            HomeMoving: the home is about to change.
            ContractStale: it cannot be read.
            ReplicasDiffer: the table has other replicas.
        """
        await self._check_replicas()
        await self._live.renew()
        settings = self._live.current
        terms = settings.terms
        if terms.home == NO_HOME:
            raise HomeMoving(
                "the table's home region is being moved (`ledger table show`): nothing is merged"
                " until that is in force"
            )
        if terms.archive != self._archive:
            raise LeaseLost(
                "the table's contract names another archive now: the pass ends, and the next one"
                " goes by it"
            )
        if settings is not self.settings:
            if terms.home != self.home.region or set(settings.regions) != {*self._stores}:
                raise LeaseLost(
                    "the table's contract names another home or other regions now: the pass ends,"
                    " and the next one goes by it"
                )
            self.settings, self.rules = settings, rules_of(settings)
        return self._live.validity

    async def _check_replicas(self) -> None:
        """Compare the table's replicas with the regions observed, if that is due."""
        now = self._clock.monotonic()
        if now < self._replicas_due:
            return
        self._replicas_due = now + REPLICAS_SECONDS
        described = await self.home.replicas()
        check_replicas(described, home=self.home.region, regions=self._stores.keys())
