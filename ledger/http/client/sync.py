"""The client without async, for scripts, Django and Lambda: the same code behind a portal.

One event loop runs in a thread of its own while a ledger is open; any thread may call.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from ssl import SSLContext
from typing import Any, Self, TypeVar

from ledger.budgets.budget import Expires
from ledger.budgets.spend_request import Granted, Refused
from ledger.core.errors import LedgerError
from ledger.core.values import Entry
from ledger.http.client import books, budgets
from ledger.http.client.ledger import TIMEOUT_SECONDS
from ledger.http.client.ledger import Ledger as AsyncLedger
from ledger.runtime.portal import Opened as _Opened
from ledger.runtime.portal import Sync as _Sync
from ledger.runtime.portal import iterator as _iterator
from ledger.runtime.portal import plain as _plain


class Hold(_Sync[budgets.Hold]):
    """`ledger.http.client.budgets.Hold` with plain calls."""

    settle = _plain(budgets.Hold.settle)
    void = _plain(budgets.Hold.void)

    @property
    def entry(self) -> Entry:
        """Its entry."""
        return self._behind.entry

    def extend(self, expires: Expires, *, timeout: float | None = None) -> "Hold":
        """Let it expire later; see the async `Hold.extend`."""
        call = partial(self._behind.extend, expires, timeout=timeout)
        return Hold(self._loop.portal.call(call), self._loop)


_Budgets_co = TypeVar("_Budgets_co", bound=budgets.Budgets, covariant=True)


class _Spending(_Sync[_Budgets_co]):
    """What one budget and several have in common."""

    spend = _plain(budgets.Budgets.spend)

    @property
    def names(self) -> tuple[str, ...]:
        """The budgets' counters."""
        return self._behind.names

    def hold(
        self,
        amount: int | Decimal,
        *,
        expires: Expires,
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> Hold | Refused:
        """Keep an amount aside; see the async `Budgets.hold`."""
        call: Any = partial(self._behind.hold, amount, expires=expires, note=note, key=key, at=at)
        held: budgets.Hold | Refused = self._loop.portal.call(
            partial(call, wait=wait, timeout=timeout)
        )
        return held if isinstance(held, Refused) else Hold(held, self._loop)

    def held(self, entry: Entry) -> Hold:
        """Return the hold of an entry, which any process may settle or void."""
        return Hold(self._behind.held(entry), self._loop)

    def settle_many(
        self,
        settled: Sequence[tuple[Hold, int | Decimal]],
        *,
        over: bool = False,
        timeout: float | None = None,
    ) -> list[Granted | Refused | LedgerError]:
        """Settle holds; see the async `Budgets.settle_many`."""
        behind = [(hold._behind, actual) for hold, actual in settled]  # noqa: SLF001 (of this module)
        call = partial(self._behind.settle_many, behind, over=over, timeout=timeout)
        return self._loop.portal.call(call)

    def void_many(
        self, held: Sequence[Hold], *, timeout: float | None = None
    ) -> list[Granted | Refused | LedgerError]:
        """Void holds; see the async `Budgets.void_many`."""
        behind = [hold._behind for hold in held]  # noqa: SLF001 (of this module)
        return self._loop.portal.call(partial(self._behind.void_many, behind, timeout=timeout))


class Budgets(_Spending[budgets.Budgets]):
    """`ledger.http.client.budgets.Budgets` with plain calls."""


class Budget(_Spending[budgets.Budget]):
    """`ledger.http.client.budgets.Budget` with plain calls."""

    create = _plain(budgets.Budget.create)
    credit = _plain(budgets.Budget.credit)
    state = _plain(budgets.Budget.state)
    explain = _plain(budgets.Budget.explain)

    @property
    def name(self) -> str:
        """The budget's counter."""
        return self._behind.name


class Book(_Sync[books.Book]):
    """`ledger.http.client.books.Book` with plain calls."""

    @property
    def name(self) -> str:
        """The counter that the book is."""
        return self._behind.name

    transfer = _plain(books.Book.transfer)
    transfer_many = _plain(books.Book.transfer_many)
    balances = _plain(books.Book.balances)
    history = _iterator(books.Book.history)


class Ledger(_Opened[AsyncLedger]):
    """`ledger.http.client.Ledger` with plain calls.

    ::

        with Ledger.open("https://ledger.example", token=token) as ledger:
            ledger.record("customer1-balance", 3, note="refund")
    """

    @classmethod
    def open(
        cls,
        url: str,
        *,
        token: str | Callable[[], str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
        tls: SSLContext | None = None,
    ) -> Self:
        """Return a ledger behind this URL, to be used in `with`; see the async `Ledger.open`."""
        return cls(AsyncLedger.open(url, token=token, timeout=timeout, tls=tls))

    record = _plain(AsyncLedger.record)
    record_many = _plain(AsyncLedger.record_many)
    record_together = _plain(AsyncLedger.record_together)
    retry = _plain(AsyncLedger.retry)
    reconcile = _plain(AsyncLedger.reconcile)
    reverse = _plain(AsyncLedger.reverse)
    total = _plain(AsyncLedger.total)
    totals = _plain(AsyncLedger.totals)
    periods = _plain(AsyncLedger.periods)
    periods_many = _plain(AsyncLedger.periods_many)
    history = _iterator(AsyncLedger.history)
    counters = _iterator(AsyncLedger.counters)
    top = _plain(AsyncLedger.top)
    describe = _plain(AsyncLedger.describe)
    description = _plain(AsyncLedger.description)
    feed = _iterator(AsyncLedger.feed)
    feed_page = _plain(AsyncLedger.feed_page)
    live_totals = _iterator(AsyncLedger.live_totals)

    def budget(self, counter: str) -> Budget:
        """Return the limit of a counter; see `ledger.http.client.Ledger.budget`."""
        return Budget(self._behind.budget(counter), self._loop.current)

    def budgets(self, counters: Sequence[str]) -> Budgets:
        """Return several limits that are spent from together; see the async `Ledger.budgets`."""
        return Budgets(self._behind.budgets(counters), self._loop.current)

    def book(self, name: str) -> Book:
        """Return a book; see `ledger.http.client.Ledger.book`."""
        return Book(self._behind.book(name), self._loop.current)
