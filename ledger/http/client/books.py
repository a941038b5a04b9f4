"""`Book` over HTTP: double entry, each transfer whole in every region, through a service."""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from datetime import date, datetime

from ledger.core import keys
from ledger.core.values import Entry
from ledger.http.client import requests
from ledger.http.client.requests import PAGE_MAX, counter_path, query
from ledger.http.wire.schemas import BalancesModel
from ledger.reads.balances import Balances, chosen
from ledger.reads.history import Bound
from ledger.session.arguments import check_age
from ledger.session.book import Legs, Transfer, checked_choice, checked_transfer
from ledger.writes.change_list import check_list
from ledger.writes.entry_plan import Change

_Query = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class BookCalls:
    """What a book asks of its ledger; the numbers are timeouts in seconds, None for its own."""

    record: Callable[[Sequence[Change], float | None], Awaitable[list[Entry]]]
    record_listed: Callable[
        [Sequence[Change], str | None, datetime | None, float | None], Awaitable[list[Entry]]
    ]
    read: Callable[[str, _Query, float | None], Awaitable[BalancesModel]]
    entries: Callable[[str, _Query, str | None, float | None], AsyncIterator[Entry]]


class Book:
    """A book: transfers of any assets between any accounts, which sum to 0.

    The methods are those of `ledger.Book`; what differs is listed in
    `ledger/docs/howto/call-from-a-client.md`.
    """

    def __init__(self, name: str, calls: BookCalls) -> None:
        self.name = keys.checked_counter(name)
        self._calls = calls

    async def transfer(
        self,
        legs: Legs,
        *,
        key: str | None = None,
        at: datetime | None = None,
        note: str | None = None,
        metadata: Mapping[str, str] | None = None,
        effective: date | None = None,
        timeout: float | None = None,
    ) -> Entry:
        """Move amounts between accounts; durable in the service's region, whole, when it returns.

        Raises:
            As `ledger.Book.transfer`, and as `Ledger.record`.
        """
        asked = Transfer(legs, note, effective, key, at, metadata).change(self.name)
        (entry,) = await self._calls.record([asked], timeout)
        return entry

    async def transfer_many(
        self,
        transfers: Iterable[Transfer],
        *,
        key: str | None = None,
        at: datetime | None = None,
        timeout: float | None = None,
    ) -> list[Entry]:
        """Make many transfers, each independently, up to 1,000 in a request.

        With a `key` and its time, up to 1,000, as `ledger.Book.transfer_many`.

        Raises:
            As `transfer`, and as `Ledger.record_many`.
        """
        listed = check_list("transfers", transfers)
        asked = [checked_transfer(one).change(self.name) for one in listed]
        if key is not None or at is not None:
            return await self._calls.record_listed(asked, key, at, timeout)
        return await self._calls.record(asked, timeout)

    async def balances(
        self,
        accounts: Collection[str] | None = None,
        *,
        prefix: str = "",
        at: datetime | date | None = None,
        max_age: float | None = None,
        steady: bool = False,
        timeout: float | None = None,
    ) -> Balances:
        """Return balances of these accounts, of those whose names begin with a prefix, or of all.

        Raises:
            As `ledger.Book.balances`; `Unreachable` if the service is.
        """
        check_age(max_age, steady=steady, at=at)
        params = query(prefix=prefix or None, at=at, max_age=max_age, steady=steady or None)
        asked = checked_choice(accounts, prefix)
        if asked is not None:
            portions = list(requests.counter_portions(sorted(asked)))
            if len(portions) == 1:  # of more all are read, since they are of one moment
                params += [("account", account) for account in portions[0]]
        path = counter_path(self.name, "balances", of="books")
        found = (await self._calls.read(path, params, timeout)).to_value()
        return replace(found, assets=chosen(found.assets, asked, prefix))

    async def history(
        self,
        account: str | None = None,
        *,
        after: Bound = None,
        before: Bound = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Entry]:
        """Yield the transfers in the order of their ids, or those that name an account.

        Pages of 1,000 are read as they are needed; `timeout` bounds each wait for one.

        Raises:
            As `ledger.Book.history`.
        """
        path = counter_path(self.name, "transfers", of="books")
        first, last = map(requests.edge, (after, before))
        params = query(account=account, before=last, limit=PAGE_MAX)
        async for entry in self._calls.entries(path, params, first, timeout):
            yield entry
