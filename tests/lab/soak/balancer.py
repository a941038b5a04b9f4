"""A load balancer in the clients' process: requests of a region go to its instances in turn.

It asks each instance whether it is ready, as load balancers do, and sends nothing to one that is
not; where none is, to every one that is not leaving. It repeats nothing: the client does, and its
next try meets the next instance.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

import anyio
import httpx

from lab.soak.curves import FAILED
from lab.soak.instances import Instance, Life
from ledger.http.client.ledger import IDLE_SECONDS_MAX
from ledger.runtime.clock import Clock

HEALTH_SECONDS = 0.25
HEALTH_TIMEOUT_SECONDS = 1.0
KNOWN_SECONDS = 1.0
"""How long an answer to that is relied on; an instance drains for longer."""
TRY_SECONDS_MAX = 6.0
"""How long an instance may take for an answer, but for what waits on purpose."""
WAITING = ("/v1/feed", "/v1/live")
REFUSED, TIMED_OUT, CUT, GIVEN_UP = "refused", "timed out", "cut", "given up"
"""What came in place of an answer: no connection; nothing in time; a connection that broke; the
client's own end."""
UNBOUNDED = httpx.Limits(
    max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE_SECONDS_MAX
)
_WAITED = frozenset({TIMED_OUT, GIVEN_UP, "504"})
_NEVER_MADE = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_LATE = (httpx.ReadTimeout, httpx.WriteTimeout)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request that was sent to an instance, and the status, or what came in place of it."""

    text: str
    result: str
    seconds: float
    life: Life | None = None
    is_calm: bool = False
    """Whether it began in a rolling restart without other faults."""
    is_clear: bool = True
    """Whether its instance had just said that it was ready, and no client was late meanwhile."""

    def complaint(self) -> tuple[str, str] | None:
        """Return the promise that it breaks, and how; None if it breaks none.

        No connection breaks but by a kill, also while its instance leaves, and no answer is 500. In
        a rolling restart without other faults each attempt is answered, or refused: by no
        connection, or by 503.

        What took longer than client or service wait is no complaint: it tells of the machine, and
        stands in the report. Nor is what goes wrong while the clients' own process is kept waiting
        for the machine: it may send to an instance what was meant for it seconds before.
        """
        where = "no instance" if self.life is None else self.life.name
        text = f"{self.text} at {where}: {self.result} after {self.seconds:.2f} s"
        if self.result == "500":
            return "answers", text
        if not self.is_clear:
            return None
        if self.result == CUT and self.life is not None and not self.life.is_killed:
            return "drain" if self.life.is_asked_to_end else "connections", text
        if not self.is_calm or self.result in {*_WAITED, REFUSED, "503"}:
            return None
        return ("rolling restart", text) if self.result >= FAILED else None


class Balancer(httpx.AsyncBaseTransport):
    """Sends requests to the instances of one region; each attempt is told."""

    def __init__(
        self,
        instances: Sequence[Instance],
        *,
        clock: Clock,
        on_attempt: Callable[[Attempt], None],
        is_calm: Callable[[], bool],
        was_late: Callable[[float], bool],
        http: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.instances = instances
        self._clock = clock
        self._on_attempt = on_attempt
        self._is_calm = is_calm
        self._was_late = was_late
        self._turn = 0
        # So that a connection which breaks was broken by the instance, not given up by the pool.
        self._http = http or httpx.AsyncHTTPTransport(limits=UNBOUNDED)

    async def watch(self, instance: Instance) -> None:
        """Ask an instance whether it is ready, again and again."""
        async with httpx.AsyncClient(timeout=HEALTH_TIMEOUT_SECONDS) as http:
            while True:  # until cancelled
                if (life := instance.life) is not None:
                    asked = self._clock.monotonic()
                    try:
                        answer = await http.get(f"http://127.0.0.1:{life.port}/readyz")
                    except httpx.TransportError:
                        life.is_ready = False
                    else:
                        life.is_ready = answer.status_code == HTTPStatus.OK
                        life.is_leaving = "shutting down" in answer.text
                        life.ready_at = asked if life.is_ready else life.ready_at
                await self._clock.sleep(HEALTH_SECONDS)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the next instance."""
        life, began, is_calm = self._next(), self._clock.monotonic(), self._is_calm()
        text = f"{request.method} {request.url.path}"
        is_known = life is None or (life.is_ready and began - life.ready_at <= KNOWN_SECONDS)

        def tell(result: str) -> None:
            seconds = self._clock.monotonic() - began
            is_clear = is_known and not self._was_late(began)
            self._on_attempt(Attempt(text, result, seconds, life, is_calm, is_clear))

        if life is None:
            tell(REFUSED)
            raise httpx.ConnectError("no instance is up", request=request)
        request.url = request.url.copy_with(port=life.port)
        if request.url.path not in WAITING:
            timeout = request.extensions["timeout"]
            timeout["read"] = min(timeout["read"], TRY_SECONDS_MAX)
        try:
            response = await self._http.handle_async_request(request)
            if request.url.path != "/v1/live":
                response = await _read(response)
        except _NEVER_MADE:
            tell(REFUSED)
            raise
        except _LATE:
            tell(TIMED_OUT)
            raise
        except httpx.TransportError as error:
            text = f"{text} ({_causes(error)})"
            tell(CUT)
            raise
        except asyncio.CancelledError:
            tell(GIVEN_UP)
            raise
        tell(str(response.status_code))
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        with anyio.CancelScope(shield=True):
            await self._http.aclose()

    def _next(self) -> Life | None:
        lives = [instance.life for instance in self.instances if instance.life is not None]
        lives = [life for life in lives if life.is_ready] or [
            life for life in lives if not life.is_leaving
        ]
        self._turn += 1
        return lives[self._turn % len(lives)] if lives else None


def _causes(error: BaseException) -> str:
    """Return an error and what caused it, down to the socket's: it tells which side closed it."""
    told, cause = [repr(error)], error.__cause__
    while cause is not None:
        told.append(repr(cause))
        cause = cause.__cause__ or cause.__context__
    return " from ".join(told)


async def _read(response: httpx.Response) -> httpx.Response:
    """Return a response whose body has arrived: if it does not, the attempt has failed."""
    stream = cast("httpx.AsyncByteStream", response.stream)
    body = b"".join([part async for part in stream])
    await stream.aclose()
    return httpx.Response(
        response.status_code,
        headers=response.headers,
        stream=httpx.ByteStream(body),
        extensions=response.extensions,
    )
