"""What the budgets of one open ledger are made of."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from random import Random

from anyio.abc import TaskGroup

from ledger.late import LateAnswers
from ledger.limits.administering import Administrator
from ledger.limits.calendar import Window, checked_budget, rule_of, window_of
from ledger.limits.changing import LimitChanger
from ledger.limits.holding import Holder
from ledger.limits.reach import Reach
from ledger.limits.spending import Spender
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import Metrics
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.wrappers.opened import OpenedStore
from ledger.writing.hints import Hints
from ledger.writing.writer import Writer


@dataclass(frozen=True, slots=True)
class BudgetParts:
    """The parts of one region's budgets, while the ledger is open."""

    spender: Spender
    holder: Holder
    administrator: Administrator
    changer: LimitChanger
    settings: LiveSettings
    clock: Clock

    @staticmethod
    def of(
        store: Store,
        writer: Writer,
        *,
        settings: LiveSettings,
        clock: Clock,
        randomness: Random,
        hints: Hints,
        late: LateAnswers,
        others: Callable[[], Awaitable[Mapping[str, Store]]],
        tasks: TaskGroup,
        metrics: Metrics,
    ) -> "BudgetParts":
        """Make the parts; `others` opens the stores of other regions when they are needed.

        What is not a spend asks each request of the call that it is of (`ledger.runtime.calls`).
        """
        own = OpenedStore(store, lambda: store)

        async def asked() -> Mapping[str, Store]:
            return {
                region: OpenedStore(one, partial(_same, one))
                for region, one in (await others()).items()
            }

        reach = Reach(
            store=own, settings=settings, clock=clock, randomness=randomness, others=asked
        )
        changer = LimitChanger(reach)
        spender = Spender(
            store,
            writer,
            settings=settings,
            clock=clock,
            randomness=randomness,
            hints=hints,
            late=late,
            others=others,
            tasks=tasks,
            metrics=metrics,
            go_on=changer.go_on,
        )
        holder = Holder(reach, at_hand=spender.at_hand)
        administrator = Administrator(reach)
        return BudgetParts(spender, holder, administrator, changer, settings, clock)

    def window(self, budget: str, at: datetime | None = None) -> Window:
        """Return the window of a budget at a time, by default now.

        Raises:
            BudgetMissing: no pattern of the contract has its counter.
            InvalidCounter: it is not the counter of a budget.
        """
        rule = rule_of(self.settings.current.terms, budget)
        return window_of(checked_budget(budget, rule), rule, at or self.clock.now())


def _same(store: Store) -> Store:
    return store
