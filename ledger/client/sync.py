"""The client without async, for scripts, Django and Lambda: the same code behind a portal.

One event loop runs in a thread of its own while a ledger is open; any thread may call.
"""

from collections.abc import Callable
from ssl import SSLContext
from typing import Self

from ledger.client.ledger import TIMEOUT_SECONDS
from ledger.client.ledger import Ledger as AsyncLedger
from ledger.runtime.portal import Opened as _Opened
from ledger.runtime.portal import iterator as _iterator
from ledger.runtime.portal import plain as _plain


class Ledger(_Opened[AsyncLedger]):
    """`ledger.client.Ledger` with plain calls.

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
