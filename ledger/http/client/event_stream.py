"""Totals as they change: the service's events, followed over as many connections as it takes."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio
import httpx

from ledger.core.errors import LedgerError, Unreachable
from ledger.http.client.answers import Failed, Judged, Unanswered, judged, read_as
from ledger.http.client.exchange import Exchange
from ledger.http.client.requests import Answer, Request
from ledger.http.wire.problems import error_of
from ledger.http.wire.schemas import ProblemModel, TotalModel
from ledger.reads.total import Total
from ledger.store.retrier import Tries

QUIET_SECONDS_MAX = 45.0
"""The service says something each 15 s: after so long without a word the connection is dead."""


@dataclass(slots=True)
class Events:
    """Server-sent events, read line by line: what a blank line ends, comments left out."""

    _name: str = ""
    _data: list[str] = field(default_factory=list)

    def taken(self, line: str) -> Iterator[tuple[str, str]]:
        """Yield the event that this line ends, by its name and its data, if it ends one."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._name = value
            elif name == "data":
                self._data.append(value)
            return
        if self._data:
            yield self._name or "message", "\n".join(self._data)
        self._name, self._data = "", []


async def followed(
    exchange: Exchange, request: Request[TotalModel], *, seconds: float
) -> AsyncIterator[Total]:
    """Yield each total once it is another than before, for as long as the caller goes on.

    Connections that end are made again; between them `seconds` may pass at most without a word.

    Raises:
        LedgerError: what a repeat does not mend; or the service was away for too long.
    """
    shown: dict[str, object] = {}
    tries = exchange.begin("read", exchange.clock.monotonic() + seconds)
    while True:
        error: LedgerError = Unreachable("the stream of events ended")
        try:
            async with aclosing(_events(exchange, request)) as events:
                async for name, data in events:
                    tries = exchange.begin("read", exchange.clock.monotonic() + seconds)
                    if name == "problem":
                        _check_temporary(error_of(_read(ProblemModel, data)))
                    elif name == "total":
                        total = _read(TotalModel, data).to_value()
                        state = (total.value, total.changes)
                        if shown.get(total.counter) != state:
                            shown[total.counter] = state
                            yield total
        except (httpx.TransportError, anyio.ClosedResourceError, TimeoutError) as cause:
            error = Unreachable(f"the stream of events broke: {cause or type(cause).__name__}")
        except LedgerError as refused:
            _check_temporary(refused)
            error = refused
        await _wait_or_raise(tries, error)


async def _events(
    exchange: Exchange, request: Request[TotalModel]
) -> AsyncGenerator[tuple[str, str], None]:
    """Yield the events of one connection.

    Raises:
        LedgerError: the service refuses.
        TimeoutError: it says nothing any more.
    """
    response = await exchange.streamed(exchange.stream_request(request))
    try:
        if response.headers.get("content-type", "").partition(";")[0] != "text/event-stream":
            outcome = judged(
                request,
                response.status_code,
                response.headers,
                await response.aread(),
                now=exchange.clock.now(),
            )
            raise _refused(outcome)
        events, lines = Events(), aiter(response.aiter_lines())
        while True:
            with anyio.fail_after(QUIET_SECONDS_MAX):
                line = await anext(lines, None)
            if line is None:
                return
            for event in events.taken(line):
                yield event
    finally:
        await response.aclose()


def _refused(outcome: Judged[TotalModel]) -> LedgerError:
    match outcome:
        case Failed(error) | Unanswered(error=LedgerError() as error):
            return error
        case Unanswered(cause):
            return Unreachable(cause)
        case _:
            return Unreachable("no events came")


def _read(form: type[Answer], data: str) -> Answer:
    """Return what an event says.

    Raises:
        Unreachable: the service sends no such event.
    """
    if (said := read_as(form, data)) is None:
        raise Unreachable(f"an event that is not the service's: {data!r:.80}")
    return said


def _check_temporary(error: LedgerError) -> None:
    if not error.retryable:
        error.outcome = "not_applied"  # a stream changes nothing, whatever the service says
        raise error


async def _wait_or_raise(tries: Tries, error: LedgerError) -> None:
    if not await tries.again("unanswered"):
        raise error
