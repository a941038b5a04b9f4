"""What became of transfers is counted by the pattern of their book."""

from contextlib import suppress
from decimal import Decimal

import pytest
from support.ledgers import HOME

from ledger import Change, InvalidInput, KeyConflict, LedgerError, OutcomeUnknown, Transfer
from ledger.core.errors import Throttled
from ledger.core.values import Entry, Leg
from ledger.runtime.metrics import Metrics
from ledger.session.call_guard import counted_transfers
from ledger.settings import Settings
from ledger.testing import MemoryGlobalTable

SALE = [("cash", "EUR", Decimal(-1)), ("alice", "EUR", Decimal(1))]
OTHER = [("cash", "EUR", Decimal(-2)), ("alice", "EUR", Decimal(2))]
WRONG = [("cash", "EUR", Decimal(-1)), ("alice", "EUR", Decimal(2))]
SETTINGS = Settings(regions={HOME: {}}, books=["book/*", "*"])


def counted(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Return the transfers by pattern and outcome."""
    return {
        (sample.labels["pattern"], sample.labels["outcome"]): sample.value
        for family in metrics.book_transfers.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }


async def test_each_call_counts_its_transfers() -> None:
    """One, many, those of one transaction, repeats, and what is refused; no plain change."""
    async with MemoryGlobalTable(books=["book/*", "journal"]).table(HOME) as table:
        book, metrics, at = table.book("book/1"), table.ledger.metrics, table._services.clock.now()
        await book.transfer(SALE, key="a", at=at)
        await book.transfer(SALE, key="a", at=at)
        with pytest.raises(KeyConflict):
            await book.transfer(OTHER, key="a", at=at)
        await table.book("journal").transfer_many([Transfer(SALE), Transfer(OTHER)])
        change = Change("journal", 0, legs=SALE)
        await table.ledger.record_together([change, ("stock", 1)])
        await table.ledger.record("stock", 1)
        for legs in (WRONG, []):
            with pytest.raises(InvalidInput):
                await book.transfer(legs)
        with pytest.raises(InvalidInput):
            await book.transfer_many([Transfer(SALE), Transfer(WRONG)])
        assert counted(metrics) == {
            ("book/*", "applied"): 1,
            ("book/*", "repeated"): 1,
            ("book/*", "failed"): 1,
            ("book/*", "refused"): 4,
            ("journal", "applied"): 3,
        }


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            OutcomeUnknown("no answer", entries=[Entry("book/1", "id", Decimal(0), legs=(
                Leg("cash", "EUR", Decimal(-1)), Leg("alice", "EUR", Decimal(1)),
            ))]),
            {("book/*", "unknown"): 1, ("book/*", "applied"): 1, ("*", "applied"): 1},
        ),
        (Throttled("later"), {("book/*", "failed"): 2, ("*", "failed"): 1}),
        (InvalidInput("no"), {("book/*", "refused"): 2, ("*", "refused"): 1}),
    ],
)  # fmt: skip
def test_an_error_of_several_says_what_became_of_each(
    error: LedgerError, expected: dict[tuple[str, str], float]
) -> None:
    """Those that an unknown outcome does not name are durable."""
    metrics = Metrics()
    asked = [Change(name, 0, legs=SALE) for name in ("book/1", "book/2", "other")]
    with (
        suppress(LedgerError),
        counted_transfers(metrics, HOME, SETTINGS, [*asked, Change("c", 1)]),
    ):
        raise error
    assert counted(metrics) == expected
