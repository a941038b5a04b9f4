"""`Ledger`: the methods of `ledger.Ledger`, over HTTP."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from random import Random
from ssl import SSLContext
from types import TracebackType
from typing import Self

import httpx

from ledger.core import amounts, ids, keys
from ledger.core.errors import InvalidEntry, InvalidInput, LedgerError, OutcomeUnknown
from ledger.core.reconciliation import Reconciled
from ledger.core.values import Entry
from ledger.http.client.books import Book, BookCalls
from ledger.http.client.budgets import Budget, Budgets, Calls
from ledger.http.client.exchange import Exchange
from ledger.http.client.reads import Reads
from ledger.http.client.record_calls import record_all, unknown, unknown_list, written
from ledger.http.client.requests import (
    ENTRIES_MAX,
    Answer,
    NamedChange,
    Request,
    checked_entry,
    counter_path,
    named,
    portions,
    query,
    recording,
    recording_list,
    segment,
    size_of,
)
from ledger.http.wire.schemas import (
    BalancesModel,
    BudgetModel,
    EntriesModel,
    EntryModel,
    ProvedEntryModel,
    ReconciledModel,
)
from ledger.runtime.call_deadlines import check_timeout
from ledger.runtime.clock import Clock, SystemClock, system_random
from ledger.runtime.supervisor import Supervised
from ledger.store.writes import TRANSACTION_ACTIONS_MAX
from ledger.writes.asked_parts import ListedChanges
from ledger.writes.change_list import ChangeLike, check_list, parse_changes
from ledger.writes.entry_plan import Change, checked_date, checked_key, checked_note

TIMEOUT_SECONDS = 30.0
"""How long a call may take that says nothing else, as `write_deadline` and `read_deadline`."""
CONNECTIONS_MAX = 100
IDLE_SECONDS_MAX = 5.0
"""How long a connection is kept for the next request: less than service and load balancers do, so
that none is closed with a request on the way to it."""
_CREATED = 201


class Ledger(Reads):
    """Counters and balances behind the ledger's service of one region.

    Methods, values and errors are those of `ledger.Ledger`; what differs is listed in
    `ledger/docs/howto/call-from-a-client.md`. Any
    number of tasks of one asyncio event loop may use a ledger::

        async with Ledger.open("https://ledger.example", token=token) as ledger:
            await ledger.record("customer1-balance", 3, note="refund")
            total = await ledger.total("customer1-balance", max_age=0)

    Each change is sent under a key, so a request that gets no answer is repeated without harm; a
    change without a key gets one here, by this machine's clock.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | Callable[[], str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
        tls: SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
        randomness: Random | None = None,
    ) -> None:
        self.url = _checked_url(url)
        self._token = token
        self._timeout = check_timeout(timeout)
        self._tls = tls
        self._transport = transport
        self._clock = clock or SystemClock()
        self._random = randomness or system_random()
        self._opening = Supervised(self._opened)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        token: str | Callable[[], str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
        tls: SSLContext | None = None,
    ) -> Self:
        """Return a ledger behind this URL, to be used in `async with`.

        `token` is what `ledger token create` made, or a function that returns it, asked at each
        request, so that a token may be rotated. `timeout` bounds each call that says nothing else,
        in seconds. `tls` holds the authorities that are trusted, and a certificate of one's own.

        Raises:
            InvalidInput: it is not a URL of http or https, or `timeout` is not above 0.
        """
        return cls(url, token=token, timeout=timeout, tls=tls)

    async def __aenter__(self) -> Self:
        await self._opening.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; calls under way in other tasks end. It may be repeated.

        Raises:
            LedgerError: another event loop opened it.
        """
        await self._opening.close()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Exchange]:
        token = self._token
        http = httpx.AsyncClient(
            base_url=self.url,
            transport=self._transport,
            verify=True if self._tls is None else self._tls,
            limits=httpx.Limits(
                max_connections=CONNECTIONS_MAX,
                max_keepalive_connections=CONNECTIONS_MAX,
                keepalive_expiry=IDLE_SECONDS_MAX,
            ),
        )
        async with http:
            exchange = Exchange(
                http,
                token=token if callable(token) else lambda: token,
                clock=self._clock,
                randomness=self._random,
            )
            try:
                yield exchange
            finally:
                exchange.close()

    async def record(
        self,
        counter: str,
        change: int | Decimal,
        *,
        note: str | None = None,
        effective: date | None = None,
        key: str | None = None,
        at: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Entry:
        """Add `change` to a counter; durable in the service's region when it returns.

        `key`, `at` and `metadata` as in `ledger.Ledger.record`. Without a key each call is a change
        of its own: lost requests and answers are repeated within the call under a key that is made
        here.

        Raises:
            NotSent: `timeout` ended before it was sent.
            OutcomeUnknown: no answer by the end of the call; its `entries` are for `retry`, also
                where nothing was ever answered.
            InvalidEntry, RetryHorizonPassed: without a key, this machine's clock is off.
            And as `ledger.Ledger.record`; `Unreachable` if the service is, `AccessDenied` if the
            token does not allow it: nothing was written.
        """
        asked = Change(counter, change, note, effective, key, at, None, metadata)
        (entry,) = await self._recorded([asked], timeout)
        return entry

    async def record_many(
        self,
        changes: Iterable[ChangeLike],
        *,
        key: str | None = None,
        at: datetime | None = None,
        timeout: float | None = None,
    ) -> list[Entry]:
        """Record many changes, each on its own, up to 1,000 in a request.

        A list with a `key`, as in `ledger.Ledger.record_many`, is one request: up to 1,000 changes.

        All are checked before any is sent, but for what only the service knows: a key that is past
        the retry horizon is refused alone.

        Raises:
            OutcomeUnknown: some are not confirmed: pass its `entries` to `retry`; all others are
                durable.
            InvalidInput, KeyConflict: of one that the service refuses; the others may be written,
                so repeat only those that have keys.
            And as `record`; any other error means that none was written.
        """
        given = parse_changes(changes)
        if key is not None or at is not None:
            return await self._record_listed(given, key, at, timeout)
        return await self._recorded(given, timeout)

    async def _recorded(self, changes: Sequence[Change], timeout: float | None) -> list[Entry]:
        asked = [self._named(change) for change in changes]
        return await record_all(self._opening.here(), asked, end=self._end(timeout))

    async def _record_listed(
        self,
        changes: Sequence[Change],
        key: str | None,
        at: datetime | None,
        timeout: float | None,
    ) -> list[Entry]:
        if len(changes) > ENTRIES_MAX:
            raise InvalidEntry(
                f"{len(changes):,} changes with one key: a request has up to {ENTRIES_MAX:,}"
            )
        asked = ListedChanges.of(changes, key, at).entries()
        if not changes:
            return []
        lost = partial(unknown_list, asked)
        answer = await self._write(recording_list(asked, key, at), timeout, lost)
        return [written(result) for result in answer.results]

    async def record_together(
        self, changes: Iterable[ChangeLike], *, timeout: float | None = None
    ) -> list[Entry]:
        """Record up to 100 changes in one transaction: all or none in the service's region.

        Raises:
            As `record`.
        """
        asked = [self._named(change) for change in parse_changes(changes)]
        if len(asked) > TRANSACTION_ACTIONS_MAX:
            raise InvalidEntry(
                f"{len(asked)} changes together: a transaction holds up to"
                f" {TRANSACTION_ACTIONS_MAX}"
            )
        if not asked:
            return []
        answer = await self._write(
            recording(asked, together=True), timeout, partial(unknown, asked, together=True)
        )
        return [written(result) for result in answer.results]

    async def retry(
        self,
        entries: Sequence[Entry],
        *,
        together: bool = False,
        timeout: float | None = None,
    ) -> list[Entry]:
        """Write the entries of an `OutcomeUnknown` again, under the same ids.

        Raises:
            InvalidInput: `entries` is not a list of entries; nothing was written.
            As `ledger.Ledger.retry`.
        """
        checked = [checked_entry(entry) for entry in check_list("entries", entries)]
        sizes = {
            place: size_of(ProvedEntryModel.fields_of(entry)) for place, entry in enumerate(checked)
        }
        parts = [checked] if together and checked else list(portions(checked, sizes))
        found: list[Entry] = []
        for part in parts:
            left = checked[len(found) :]
            proved = [ProvedEntryModel.fields_of(entry) for entry in part]
            body = {"entries": proved, "together": together}
            answer = await self._write(
                Request("POST", "/v1/retries", EntriesModel, body=body),
                timeout,
                partial(_still_unknown, left, together=together),
            )
            found += [written(result) for result in answer.results]
        return found

    async def reconcile(
        self,
        counter: str,
        *,
        counted: int | Decimal,
        at: datetime | None = None,
        reason: str | None = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> Reconciled:
        """Correct a total by a physical count, in the home region, by an entry of the difference.

        Without `token` and `at` the count gets a token here, so that repeats correct once.

        Raises:
            As `ledger.Ledger.reconcile`.
        """
        path = counter_path(counter, "reconciliations")
        is_named = token is not None or at is not None
        chosen = token if is_named else self._new_key()
        body = {
            "counted": amounts.to_text(amounts.addend(counted)),
            **dict(query(at=at)),
            **({} if reason is None else {"reason": checked_note(reason)}),
            **({} if chosen is None else {"token": checked_key(chosen, what="token")}),
        }
        named_by = "the same time" if chosen is None else f"token {chosen!r}"

        def lost(cause: str) -> OutcomeUnknown:
            return OutcomeUnknown(
                f"no answer for counter {counter!r}: it may be corrected or not ({cause}); repeat"
                f" the call with {named_by}, which corrects it once",
                entries=[],
                retryable=is_named,
            )

        request = Request("POST", path, ReconciledModel, body=body)
        return (await self._write(request, timeout, lost)).to_value()

    async def reverse(
        self,
        entry: Entry,
        *,
        note: str | None = None,
        effective: date | None = None,
        timeout: float | None = None,
    ) -> Entry:
        """Take an entry back by the opposite change, in the home region, once; return that entry.

        Raises:
            As `ledger.Ledger.reverse`.
        """
        if not isinstance(entry, Entry):
            raise InvalidInput(f"only an entry is reversed, got {entry!r}")
        body = {"counter": keys.checked_counter(entry.counter)}
        if note is not None:
            body["note"] = checked_note(note)
        if effective is not None:
            body["effective"] = checked_date(effective).isoformat()
        path = f"/v1/entries/{segment(entry.id)}/reverse"
        request = Request("POST", path, EntryModel, body=body)

        def lost(cause: str) -> OutcomeUnknown:
            return OutcomeUnknown(
                f"no answer for the reversal of {entry.id} of {entry.counter!r} ({cause}): repeat"
                " the call, which reverses it once",
                entries=[],
                retryable=True,
            )

        status, made = await self._send(request, timeout, lost)
        return made.to_value(repeated=status != _CREATED)

    def budget(self, counter: str) -> Budget:
        """Return the limit of a counter: `await ledger.budget("key/42").spend(Decimal("0.12"))`.

        Raises:
            InvalidCounter: it is not a counter id.
        """
        return Budget(counter, self._calls())

    def budgets(self, counters: Sequence[str]) -> Budgets:
        """Return several limits that are spent from together, all or none, the narrowest first.

        A key belongs to the first: a repeat names them in the same order.

        Raises:
            InvalidInput: it is not a list of different counters.
        """
        return Budgets(counters, self._calls())

    def book(self, name: str) -> Book:
        """Return a book: `await ledger.book("book/shop").transfer(legs)`.

        Raises:
            InvalidCounter: it is not a counter id.
        """
        calls = BookCalls(self._recorded, self._record_listed, self._balances, self._entries)
        return Book(name, calls)

    async def _balances(
        self, path: str, params: Iterable[tuple[str, str]], timeout: float | None
    ) -> BalancesModel:
        return await self._read(BalancesModel, path, params, self._end(timeout))

    def _calls(self) -> Calls:
        async def read(
            path: str, params: Iterable[tuple[str, str]], timeout: float | None
        ) -> BudgetModel:
            return await self._read(BudgetModel, path, params, self._end(timeout))

        return Calls(self._send, read, self._named)

    async def _send(
        self, request: Request[Answer], timeout: float | None, lost: Callable[[str], LedgerError]
    ) -> tuple[int, Answer]:
        end = self._end(timeout)
        return await self._opening.here().write(request, end=end, unknown=lost)

    async def _write(
        self,
        request: Request[Answer],
        timeout: float | None,
        lost: Callable[[str], OutcomeUnknown],
    ) -> Answer:
        _, answer = await self._send(request, timeout, lost)
        return answer

    def _named(self, change: Change) -> NamedChange:
        bits = self._random.getrandbits(ids.SUFFIX_BITS)
        return named(change, now=self._clock.now(), bits=bits)

    def _new_key(self) -> str:
        return ids.sort_key(self._clock.now(), self._random.getrandbits(ids.SUFFIX_BITS))


def _still_unknown(entries: Sequence[Entry], cause: str, *, together: bool) -> OutcomeUnknown:
    first = entries[0]
    more = f" and {len(entries) - 1} more" if len(entries) > 1 else ""
    return OutcomeUnknown(
        f"no answer for counter {first.counter!r} id {first.id}{more}: the change may or may not be"
        f" there ({cause}); until the retry horizon the same call is safe",
        entries=entries,
        together=together,
        retryable=True,
    )


def _checked_url(url: object) -> str:
    """Return the URL of a service.

    Raises:
        InvalidInput: it is none of http or https, or has a query or a fragment.
    """
    try:
        parsed = httpx.URL(str(url))
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.query or parsed.fragment:
        raise InvalidInput(
            f"url must be that of a service, such as https://ledger.example, got {url!r}"
        )
    return str(url)
