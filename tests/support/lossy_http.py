"""A transport that loses requests and answers, drawn from a seed, in front of a service."""

from collections.abc import Callable
from random import Random
from typing import Any

import httpx

Fault = Callable[[httpx.Request], Exception | httpx.Response | None]


class LossyTransport(httpx.AsyncBaseTransport):
    """Passes requests on, loses some before the service has them, and answers of some after.

    `before` may end a request that never arrives, `after` one that was carried out.
    """

    def __init__(self, app: Any, *, before: Fault, after: Fault) -> None:
        self._behind = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self._before, self._after = before, after
        self.requests: list[httpx.Request] = []
        self.lost = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, or fail as a network does."""
        self.requests.append(request)
        if (fault := self._before(request)) is not None:
            return self._end(fault)
        answer = await self._behind.handle_async_request(request)
        if (fault := self._after(request)) is not None:
            return self._end(fault)
        return answer

    def _end(self, fault: Exception | httpx.Response) -> httpx.Response:
        self.lost += 1
        if isinstance(fault, Exception):
            raise fault
        return fault


def never(_request: httpx.Request) -> None:
    """Lose nothing."""


def sometimes(chance: Random, share: float, *faults: Callable[[], Any]) -> Fault:
    """Return one of these faults for this share of requests."""

    def drawn(_request: httpx.Request) -> Exception | httpx.Response | None:
        if chance.random() >= share:
            return None
        fault: Exception | httpx.Response = chance.choice(faults)()
        return fault

    return drawn


def first(count: int, fault: Callable[[], Any]) -> Fault:
    """Return a fault for so many requests, then none."""
    left = count

    def counted(_request: httpx.Request) -> Exception | httpx.Response | None:
        nonlocal left
        left -= 1
        made: Exception | httpx.Response | None = fault() if left >= 0 else None
        return made

    return counted


def refused() -> Exception:
    """Return the fault of a connection that was never made."""
    return httpx.ConnectError("connection refused")


def cut() -> Exception:
    """Return the fault of a connection that ended before an answer."""
    return httpx.RemoteProtocolError("server disconnected without sending a response")


def slow() -> Exception:
    """Return the fault of an answer that did not come in time."""
    return httpx.ReadTimeout("timed out")


def gateway() -> httpx.Response:
    """Return the answer of a load balancer whose target was away."""
    return httpx.Response(502, text="<html>Bad Gateway</html>")


def not_sent(_name: str = "") -> httpx.Response:
    """Return the answer of an instance that shuts down."""
    problem = {
        "type": "/problems/shutting-down",
        "title": "This instance is shutting down",
        "status": 503,
        "detail": "this instance is shutting down",
        "outcome": "not_applied",
        "retryable": True,
    }
    headers = {"Content-Type": "application/problem+json", "Retry-After": "1"}
    return httpx.Response(503, json=problem, headers=headers)
