"""The parts of the budgets of one open ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from anyio.abc import TaskGroup

from ledger.budgets.administrator import BudgetAdministrator
from ledger.budgets.creditor import Creditor
from ledger.budgets.hold_calls import HoldCalls
from ledger.budgets.holdings import Holdings
from ledger.budgets.limit_changer import LimitChanger
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.spender import Spender
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.wrappers.call_store import CallStore
from ledger.writes.hint_writer import HintWriter
from ledger.writes.past_horizon import PastHorizon
from ledger.writes.writer import Writer


@dataclass(frozen=True, slots=True)
class BudgetComponents:
    """The parts of one region's budgets, while the ledger is open."""

    spender: Spender
    holdings: Holdings
    creditor: Creditor
    holds: HoldCalls
    administrator: BudgetAdministrator
    changer: LimitChanger
    settings: LiveSettings

    @staticmethod
    def of(
        access: RegionAccess,
        writer: Writer,
        *,
        hints: HintWriter,
        late: PastHorizon,
        tasks: TaskGroup,
    ) -> "BudgetComponents":
        """Make the parts; those that do not spend ask each request of the call that it is of."""
        asked = _within_calls(access)
        changer = LimitChanger(asked)
        holdings = Holdings(access, tasks=tasks, go_on=changer.go_on)
        spender = Spender(access, writer, holdings=holdings, hints=hints, late=late)
        creditor = Creditor(access, writer, holdings=holdings, hints=hints, late=late)
        holds = HoldCalls(asked, at_hand=holdings.at_hand)
        administrator = BudgetAdministrator(asked, waiting=holdings.credits_waiting)
        return BudgetComponents(
            spender, holdings, creditor, holds, administrator, changer, access.settings
        )


def _within_calls(access: RegionAccess) -> RegionAccess:
    """Return access by which each request ends with the call that it is of (`runtime.calls`)."""

    def of_calls(store: Store) -> Store:
        return CallStore(store, lambda: store)

    async def others() -> Mapping[str, Store]:
        return {region: of_calls(store) for region, store in (await access.others()).items()}

    return replace(access, store=of_calls(access.store), others=others)
