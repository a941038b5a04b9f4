"""Budgets as JSON, and back."""

from decimal import Decimal

import orjson
import pytest

from ledger.budgets.budget_state import BudgetState, InFlight, OpenGrant, RegionRights
from ledger.budgets.spend_request import CROWDED, Refused
from ledger.core.values import Entry, Spending
from ledger.http.wire import schemas
from ledger.http.wire.schemas import BudgetModel, EntryModel
from ledger.http.wire.values import exceeded, refused_of

ID = "2026-11-21T06:50:00.000000Z#afb763d1b176a30d"
SECONDS = 1_800_000_000


def test_a_budget_is_what_it_was() -> None:
    """With every region, grant and transfer, and as the schema says."""
    state = BudgetState(
        "key/42",
        "key/42@2026-11-21",
        Decimal("10.50"),
        Decimal(8),
        Decimal(1),
        Decimal(2),
        (
            RegionRights("us-east-1", Decimal(3), Decimal(2), Decimal(1), Decimal("0.5")),
            RegionRights("sirius", Decimal(0), Decimal(0), Decimal(9), Decimal(0), Decimal(7)),
            RegionRights("mars", Decimal(4), Decimal(0), Decimal(0), Decimal(0), is_lost=True),
        ),
        (OpenGrant("us-east-1", 3, Decimal(2), SECONDS, SECONDS + 60, is_over=True),),
        (InFlight("mars", "us-east-1", Decimal("0.5")),),
        Decimal("0.25"),
        takes_credits=True,
    )
    fields = orjson.loads(orjson.dumps(BudgetModel.fields_of(state)))
    shown = schemas.BudgetModel(**fields)
    assert shown.to_value() == state
    assert (shown.free, shown.stranded, shown.owed) == (Decimal("3.5"), Decimal(6), Decimal(7))


@pytest.mark.parametrize(
    "spending",
    [
        None,
        Spending(),
        Spending(("a", "b"), SECONDS, "settled"),
        Spending(("eu-west-1.1/0/0", "eu-west-1.1/0/0@team")),
    ],
)
def test_an_entry_says_what_it_was_spent_from(spending: Spending | None) -> None:
    """Null if from no budget."""
    entry = Entry("key/42", ID, Decimal(-1), spending=spending)
    read = EntryModel(**EntryModel.fields_of(entry)).to_value()
    assert read.spending == spending


@pytest.mark.parametrize("crowded", [False, True])
def test_a_refusal_is_what_it_was(*, crowded: bool) -> None:
    """And says whether there is too little, or that grants have to be closed first."""
    refused = Refused("key/42", Decimal(1), Decimal("2.50"), Decimal(0), crowded)
    error = exceeded(refused)
    assert refused_of(error) == refused
    assert (CROWDED in str(error)) == crowded
    assert ("more than may be spent" in str(error)) == (not crowded)
