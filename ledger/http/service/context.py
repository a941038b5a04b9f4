"""What every request shares: the ledger, the clock, and whether this instance goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal, cast

import anyio
from prometheus_client import CollectorRegistry
from starlette.requests import Request

from ledger.core.errors import KeyConflict, LedgerError
from ledger.core.values import Entry
from ledger.http.service.access.access import Access
from ledger.http.service.access.tokens import Scope, TokenGrant
from ledger.http.service.answers import CallRefused, problem_in_http, unauthorized, unavailable
from ledger.http.service.fleet.observer import Fleet
from ledger.http.service.turns import Slots
from ledger.http.wire.problems import FORBIDDEN, NOT_READY, SHUTTING_DOWN, Problem
from ledger.http.wire.schemas import EntryModel
from ledger.http.wire.values import Fields
from ledger.runtime.call_deadlines import LATE_AT_ONCE
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import Turns, call_soon, until_in_turn
from ledger.session.ledger import Ledger

GRANT_NOW = "ledger_grant_now"
"""Where the gate leaves, in a request's scope, what tells what its caller may do by now: while a
body comes, or a request waits, its token may be revoked or expire."""
LOOK = "ledger_look"
"""Where it leaves what counts the looks of an answer that goes on, against its caller's rate."""
RESULTS = "ledger_results"
"""Where an endpoint leaves how many changes of a request ended with each status, for metrics."""
REQUEST = "ledger_request"
"""Where it leaves the request's id, which log and answer have."""
IS_FULL = "ledger_is_full"
"""Where a connection leaves, in the `state` of a scope, that too many requests are under way."""
ARRIVED = "ledger_arrived"
"""Where it leaves there when the request had come, of what has come of it, by the loop's time."""
Kind = Literal["change", "spend", "list", "page"]
"""Of requests that are bounded for each caller: single changes, those that may wait for rights,
lists of changes, and pages."""
UNDER_WAY: Mapping[Kind, int] = {"change": 50, "spend": 256, "list": 2, "page": 4}
"""Requests of a kind carried out at a time for one caller. More would only wait for the table, and
hold up all others when they end together, as where it does not answer. A list has
`ENTRIES_AT_ONCE` changes under way; it and a page take megabytes until there is an answer."""
UNDER_WAY_IN_ALL: Mapping[Kind, int] = {"change": 100, "list": 4, "page": 8}
"""Of all callers: more than one has. Others are bounded for each caller alone: a spend may wait for
rights long, and holds up no other caller's."""
LOOKS_AT_ONCE = 4
"""Looks of streams that begin, or are told, in one round: of fifty totals one takes 1 to 2 ms. So
many spends are refused, who may all have waited for the same rights."""
PAGES_AT_ONCE = 2
"""Pages that are rendered in one round: a long one takes up to 8 ms."""
CHANGES_AT_ONCE = 128
"""Changes of requests with many that begin in one round of the event loop."""
READY_COUNTER = "ledger-service-ready"
"""The counter whose total is read to see whether the table answers; it need not have entries."""
READY_SECONDS_MAX = 2.0
READY_AGE_MAX = 5.0
"""How long a look at the table may take, and for how many seconds it holds."""


@dataclass(slots=True)
class Context:
    """What endpoints need; one of each process."""

    ledger: Ledger
    clock: Clock
    fleet: Fleet
    access: Access
    registry: CollectorRegistry
    is_leaving: bool = False
    is_draining: bool = False
    is_brief: bool = False
    """Whether an answer cannot go on: streams of events end after one look."""
    checking: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a body is checked: one in each round of the event loop."""
    changes: Turns = field(default_factory=lambda: Turns(call_soon, CHANGES_AT_ONCE))
    """In which changes of requests with many are made."""
    looks: Turns = field(default_factory=lambda: Turns(call_soon, LOOKS_AT_ONCE))
    """In which streams look at totals, and tell of them, and spends are refused."""
    pages: Turns = field(default_factory=lambda: Turns(call_soon, PAGES_AT_ONCE))
    """In which pages are rendered, and reads of them end whose time is over."""
    ends: Turns = field(default_factory=lambda: Turns(call_soon, LATE_AT_ONCE))
    """In which waits end whose time is over."""
    _leaving: anyio.Event = field(default_factory=anyio.Event)
    _slots: dict[tuple[Kind, str | None], Slots] = field(default_factory=dict)

    @property
    def region(self) -> str:
        """The region whose table this process reads and writes."""
        return self.ledger.region

    def leave(self) -> None:
        """Say that this instance is not ready, so that it gets no more; streams of events end."""
        self.is_leaving = True
        self._leaving.set()

    def drain(self) -> None:
        """Take no more requests; those under way go on."""
        self.leave()
        self.is_draining = True

    def slots_for(self, kind: Kind, caller: str | None = None) -> Slots:
        """Return what a request of a caller, or of any, is carried out in."""
        slots = self._slots.get((kind, caller))
        if slots is None:
            bounds = UNDER_WAY_IN_ALL if caller is None else UNDER_WAY
            slots = self._slots[kind, caller] = Slots(bounds[kind], self.ends)
        return slots

    async def left(self) -> None:
        """Wait until the instance leaves."""
        await self._leaving.wait()

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the instance leaves; of many a few go on in each round."""
        with until_in_turn(self.time() + seconds, self.ends):
            await self._leaving.wait()

    def time(self) -> float:
        """Return the time by which waits of requests are measured, in seconds."""
        return anyio.current_time()

    async def check_ready(self) -> None:
        """Return if an instance takes requests; why it takes none is in the log.

        Anybody may ask, so an answer has fixed words: what AWS says names accounts and tables.

        Raises:
            Refused: it takes none.
        """
        if self.is_leaving:
            raise unavailable(SHUTTING_DOWN, "this instance is shutting down")
        if self.access.is_stale():
            raise unavailable(NOT_READY, "the tokens cannot be read")
        try:
            await self.ledger.total(READY_COUNTER, max_age=READY_AGE_MAX, timeout=READY_SECONDS_MAX)
        except LedgerError as error:
            problem_in_http(error)  # which writes it to the log
            raise unavailable(NOT_READY, "the table does not answer") from None


def context_of(request: Request) -> Context:
    """Return what the request's application shares."""
    return cast("Context", request.app.state.context)


def granted(request: Request) -> TokenGrant:
    """Return what a request's caller may do by now.

    Raises:
        Refused: nothing any more.
    """
    grant = _grant_now(request)
    if grant is None:
        raise unauthorized("the token was revoked, or expired, while the request was under way")
    return grant


def allow(request: Request, scope: Scope, *counters: str) -> Context:
    """Return what requests share, if this one's caller may by now do this to these counters.

    Else the request is refused: the problem says what the caller lacks. So it is asked once all of
    the request has come, just before what it asks for is done.
    """
    if lack := granted(request).lacks(scope, counters):
        raise CallRefused(FORBIDDEN, lack)
    return context_of(request)


def slots_of(request: Request, kind: Kind) -> Slots:
    """Return what a request is carried out in: of one caller a few are at a time.

    Raises:
        Refused: the caller may do nothing any more.
    """
    return context_of(request).slots_for(kind, granted(request).name)


def is_still_allowed(request: Request, scope: Scope, *counters: str) -> bool:
    """Return whether the caller's token is still valid, and allows this."""
    grant = _grant_now(request)
    return grant is not None and not grant.lacks(scope, counters)


def problem_for(request: Request, error: LedgerError) -> Problem:
    """Return an error of the ledger as a problem, without what its caller may not read.

    Who may not read learns that a repeat differs, and nothing of what was written before.
    """
    problem = problem_in_http(error)
    if error.unread is None or is_still_allowed(request, "read", error.unread[0]):
        return problem
    hidden = {"theirs": None} if isinstance(error, KeyConflict) else {}
    return replace(problem, detail=error.unread[1], members={**problem.members, **hidden})


def shown_to(
    request: Request, entry: Entry, *, note: str | None = None, effective: date | None = None
) -> Fields:
    """Return an entry as JSON; to who may not read, with note and effective date as sent alone.

    Who may not read sees no legs, and no metadata.
    """
    if not is_still_allowed(request, "read", entry.counter):
        entry = replace(entry, note=note, effective=effective, legs=(), metadata=None)
    return EntryModel.fields_of(entry)


def _grant_now(request: Request) -> TokenGrant | None:
    return cast("TokenGrant | None", request.scope[GRANT_NOW]())


def may_look(request: Request) -> float:
    """Count a look at the table by a request that may have several: 0, or seconds to wait for it.

    The first is the request itself; each further one is counted as a request of its own.
    """
    return cast("float", request.scope[LOOK]())
