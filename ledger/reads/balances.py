"""The balances of a book, as a plain value.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from ledger.core import amounts
from ledger.core.books import Accounts
from ledger.reads.total import Total

_NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True)
class Balances:
    """The balances of a book's accounts, as one region showed them while they were read.

    `assets` has them by asset and account, without those of 0, of the accounts that were asked for.
    Each transfer that is counted is counted whole: those of all accounts sum to 0 in each asset.
    What is counted is as in a `Total`: everything that had reached `region` at `as_of`, and some of
    what arrived before `ended`. `transfers` items are counted, merged or
    not, each of a transfer or of several that share it.
    """

    book: str
    assets: Accounts
    as_of: datetime
    region: str
    transfers: int
    ended: datetime
    cached: bool = False
    steady: bool = False
    at: datetime | None = None

    def of(self, account: str, asset: str) -> Decimal:
        """Return a balance; 0 of an account that has none."""
        return self.assets.get(asset, {}).get(account, _NOTHING)

    def total(self, asset: str) -> Decimal:
        """Return the sum of an asset's balances: of all accounts of the book it is 0."""
        return amounts.total_wide(self.assets.get(asset, {}).values())

    @staticmethod
    def of_total(total: Total, accounts: Collection[str] | None, prefix: str) -> "Balances":
        """Return those that a book's total holds, of some accounts or of all."""
        return Balances(
            book=total.counter,
            assets=chosen(total.accounts or {}, accounts, prefix),
            as_of=total.as_of,
            region=total.region,
            transfers=total.changes,
            ended=total.ended,
            cached=total.cached,
            steady=total.steady,
            at=total.at,
        )


def chosen(assets: Accounts, accounts: Collection[str] | None, prefix: str) -> Accounts:
    """Return the balances of some accounts, or of all, whose names begin with a prefix."""
    if accounts is None and not prefix:
        return {asset: dict(balances) for asset, balances in assets.items()}
    found = {
        asset: {
            account: balance
            for account, balance in balances.items()
            if account.startswith(prefix) and (accounts is None or account in accounts)
        }
        for asset, balances in assets.items()
    }
    return {asset: balances for asset, balances in found.items() if balances}
