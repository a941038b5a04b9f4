"""The gate: what every request passes before an endpoint sees it, in this order.

::

    headers clear? ── host right? ── token valid? ── query clear? ── draining, full? ──┐
          400              421            401             400              503         │
                                                                                       │
    access log, metrics, X-Request-Id, no-store <── answer ── endpoint <── rate? ── body too large?
                                                                           429          413

The token is looked at before a request can be refused for anything but its headers: log and metrics
name the caller of each refusal from there on, and a stranger's query is not looked at. Nor is that
of a public path, which has no parameters.

No answer is kept by a cache on the way, but for the page's files, which say so themselves.

Where a proxy names who asks, by a header (`ledger token proxy`), the name stands for a token of
that name. The header is refused from any other than the proxy, and beside a token: never left out
in silence, so that no caller is taken for another.

Without tokens the Host header is all that tells a page of another site apart, whose name was bound
to this machine's address (DNS rebinding), so then it must be a loopback name; so must the Origin,
if there is one, since a browser sends forms to this machine from pages of any site.

It also lets routes see paths as they were sent, so that a counter's id may have slashes: those of
an id come percent-encoded, and are decoded once the route is found.
"""

import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ledger.core.errors import InvalidInput
from ledger.http.service.access.tokens import ANYONE, TokenGrant
from ledger.http.service.answers import (
    CallRefused,
    problem_answer,
    request_id,
    retry_after,
    unauthorized,
    unavailable,
)
from ledger.http.service.compression import Compressed, takes_gzip
from ledger.http.service.context import ARRIVED, GRANT_NOW, IS_FULL, LOOK, REQUEST, RESULTS, Context
from ledger.http.service.heads import check_headers, check_query
from ledger.http.service.options import BODY_OF_ONE_MAX, ServiceOptions
from ledger.http.service.request_models import wait_of
from ledger.http.wire.problems import (
    INVALID,
    MISDIRECTED,
    OVERLOADED,
    SHUTTING_DOWN,
    TOO_LARGE,
    TOO_MANY_REQUESTS,
)

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""What probes ask without a token, also while an instance is draining, or full."""
PATHS_OF_MANY = frozenset({"/v1/entries", "/v1/retries"})
"""What takes a body of many entries, as long as a body may be; any other is of one thing."""
NOBODY = "-"
"""The caller of a request whose token is missing or not valid."""
_REQUEST_ID_HEADER = b"x-request-id"
_CLOSE = (b"connection", b"close")
_NO_STORE = (b"cache-control", b"no-store")
_NAME = r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?"
_LOOPBACK = re.compile(_NAME, re.ASCII | re.IGNORECASE)
_LOOPBACK_ORIGIN = re.compile(f"https?://{_NAME}", re.ASCII | re.IGNORECASE)
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class GateStatus:
    """One request and its answer, as log and metrics take it."""

    id: str
    method: str
    route: str
    path: str
    caller: str
    status: int
    seconds: float
    problem: str | None
    proxy: str | None = None
    """The address of the proxy that named the caller, if one did."""
    results: Mapping[int, int] = field(default_factory=dict)
    """Of a request with many changes: how many ended with each status."""


@dataclass(frozen=True, slots=True)
class RequestLog:
    """How requests are named, and who is told of each once it is answered."""

    new_id: Callable[[], str]
    on_request: Callable[[GateStatus], None]


class Gate:
    """The ASGI application around the endpoints."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        context: Context,
        requests: RequestLog,
        public: Callable[[str], bool],
        options: ServiceOptions,
    ) -> None:
        self._app = app
        self._context = context
        self._access = context.access
        self._requests = requests
        self._is_public = public
        self._body_max = options.body_max
        self._loopback_only = options.loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what is not HTTP goes through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passage = _Passage(self._requests.new_id(), scope["method"], self._context, send)
        # A HEAD is answered as its GET is, by its headers alone (RFC 9110, 9.3.2).
        method = "GET" if passage.is_head else passage.method
        path = scope["raw_path"].decode("latin-1")
        scope = {**scope, REQUEST: passage.id, "path": path, "method": method}
        scope.setdefault("state", {}).setdefault(ARRIVED, anyio.current_time())
        request_id.set(passage.id)
        try:
            grant = self._admitted(scope, passage)
            try:
                bounded = self._bounded(receive, path)
                await self._app(scope, bounded, self._sending(scope, passage))
            finally:
                self._access.leave(grant)
        except CallRefused as error:
            await passage.refuse(error, scope, receive)
        finally:
            self._requests.on_request(passage.seen(scope))

    def _admitted(self, scope: Scope, passage: "_Passage") -> TokenGrant:
        """Return what the caller may do, once the request may pass.

        Raises:
            Refused: it may not.
        """
        path, headers = scope["path"], Headers(scope=scope)
        self._check_head(scope, headers)
        grant = self._recognised(scope, headers, passage)
        self._check_taken(scope, path, headers)
        if wait := self._access.enter(grant):
            raise CallRefused(
                TOO_MANY_REQUESTS,
                f"token {grant.name!r} has used its share",
                headers=retry_after(wait),
                retryable=True,
            )
        return grant

    def _check_head(self, scope: Scope, headers: Headers) -> None:
        """Check whether it is clear whose request this is: each header has one meaning.

        Raises:
            Refused: it breaks a rule.
        """
        try:
            check_headers(headers.raw, scope["http_version"])
        except InvalidInput as error:
            raise CallRefused(INVALID, str(error)) from None
        if self._loopback_only:
            _check_host(headers.get("host"))
            _check_origin(headers.get("origin"))

    def _recognised(self, scope: Scope, headers: Headers, passage: "_Passage") -> TokenGrant:
        """Return what the caller may do; from now on log and metrics name the caller.

        Raises:
            Refused: the token is missing or not valid; and as `_granted`.
        """
        grant: TokenGrant | None = ANYONE
        if self._is_public(scope["path"]):
            scope["query_string"] = b""
        else:
            scope[GRANT_NOW] = granted = self._granted(scope, headers, passage)
            scope[LOOK] = self._looking(granted)
            grant = granted()
        if grant is None:
            raise unauthorized("the token is missing or not valid")
        passage.caller = grant.name
        return grant

    def _check_taken(self, scope: Scope, path: str, headers: Headers) -> None:
        """Check whether this instance takes a request, by its query, and the length of its body.

        Raises:
            Refused: it does not.
        """
        try:
            check_query(scope["query_string"])
            wait_of(headers.getlist("prefer"))
        except InvalidInput as error:
            raise CallRefused(INVALID, str(error)) from None
        if self._context.is_draining and path not in OPEN_PATHS:
            raise unavailable(SHUTTING_DOWN, "this instance is shutting down")
        if scope.get("state", {}).get(IS_FULL) and path not in OPEN_PATHS:
            raise unavailable(
                OVERLOADED,
                "too many requests are under way, in all or from one address",
                {"Connection": "close"},
            )
        length = headers.get("content-length", "0")
        if not _LENGTH.fullmatch(length) or int(length) > self._most(path):
            raise self._too_large(path)

    def _looking(self, granted: Callable[[], TokenGrant | None]) -> Callable[[], float]:
        """Return what counts the looks of one request: the first was counted with it."""
        is_first = True

        def look() -> float:
            nonlocal is_first
            if is_first:
                is_first = False
                return 0.0
            grant = granted()
            return 0.0 if grant is None else self._access.look(grant)

        return look

    def _granted(
        self, scope: Scope, headers: Headers, passage: "_Passage"
    ) -> Callable[[], TokenGrant | None]:
        """Return what tells what the caller may do now: by its token, or as the proxy names it.

        Raises:
            Refused: the proxy's header is not the proxy's, or there is a token beside it.
        """
        authorization = headers.get("authorization")
        if (proxy := self._access.proxy) is not None:
            peer = (scope.get("client") or (None,))[0]
            try:
                name = proxy.caller(headers.getlist(proxy.name), peer)
            except ValueError as error:
                raise unauthorized(str(error)) from None
            if name is not None:
                if authorization is not None:
                    raise unauthorized(f"there is a token beside the header {proxy.name}")
                passage.proxy = peer
                return partial(self._access.named, name)
        return partial(self._access.grant, authorization)

    def _sending(self, scope: Scope, passage: "_Passage") -> Send:
        """Return what sends an answer: compressed, but where a proxy let the caller in."""
        if passage.proxy is not None:
            return passage.send
        accepted = Headers(scope=scope).getlist("accept-encoding")
        return Compressed(passage.send, is_taken=takes_gzip(accepted))

    def _bounded(self, receive: Receive, path: str) -> Receive:
        """Return what receives a body no longer than is allowed, whatever its headers say."""
        left = self._most(path)

        async def bounded() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise self._too_large(path)
            return message

        return bounded

    def _most(self, path: str) -> int:
        return self._body_max if path in PATHS_OF_MANY else min(BODY_OF_ONE_MAX, self._body_max)

    def _too_large(self, path: str) -> CallRefused:
        return CallRefused(
            TOO_LARGE,
            f"a body may have up to {self._most(path):,} bytes",
            headers={"Connection": "close"},
        )


def _check_host(host: str | None) -> None:
    """Refuse a request that was not sent to a loopback name.

    Raises:
        Refused: it was not.
    """
    if not _LOOPBACK.fullmatch(host or ""):
        raise CallRefused(
            MISDIRECTED,
            "without tokens the Host must be localhost, 127.0.0.1 or [::1], with or without a port,"
            f" got {host!r:.100}",
        )


def _check_origin(origin: str | None) -> None:
    """Refuse a request that a page of another site makes.

    Raises:
        Refused: its origin is none of this machine.
    """
    if origin is not None and not _LOOPBACK_ORIGIN.fullmatch(origin):
        raise CallRefused(
            MISDIRECTED,
            "without tokens the Origin, if there is one, must be http:// or https:// and localhost,"
            f" 127.0.0.1 or [::1], with or without a port, got {origin!r:.100}",
        )


class _Passage:
    """One request on its way: its id, and what was answered."""

    def __init__(self, id_: str, method: str, context: Context, send: Send) -> None:
        self.id = id_
        self.method = method
        self.is_head = method == "HEAD"
        self.is_begun = False
        self.caller = NOBODY
        self.proxy: str | None = None
        self._context = context
        self._began = context.clock.monotonic()
        self._seconds = 0.0
        self._send = send
        self._status = int(HTTPStatus.INTERNAL_SERVER_ERROR)
        self._kind: str | None = None

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of the answer, with the request's id among the headers, for no cache to keep.

        Once the instance leaves, each answer ends its connection: none is idle, with a request on
        the way to it, when all are closed.
        """
        self._seconds = self._context.clock.monotonic() - self._began  # before the caller takes it
        if message["type"] == "http.response.start":
            self.is_begun = True
            self._status = message["status"]
            headers = [*message["headers"], (_REQUEST_ID_HEADER, self.id.encode())]
            if not any(name == _NO_STORE[0] for name, _ in headers):
                headers.append(_NO_STORE)
            if self._context.is_leaving:
                headers = [header for header in headers if header[0] != _CLOSE[0]] + [_CLOSE]
            message["headers"] = headers
            await self._send(message)
            if self.is_head:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        elif not self.is_head:
            await self._send(message)

    async def refuse(self, error: CallRefused, scope: Scope, receive: Receive) -> None:
        """Answer a request that is refused here; one whose body grew too long has no answer yet."""
        self._kind = error.problem.kind.name
        if not self.is_begun:
            await problem_answer(error.problem, error.headers)(scope, receive, self.send)

    def seen(self, scope: Scope) -> GateStatus:
        """Return what log and metrics take; the route is the pattern, so counters are not in it."""
        route = getattr(scope.get("route"), "path", "-")
        return GateStatus(
            self.id, self.method, route, scope["path"], self.caller, self._status, self._seconds,
            self._kind, self.proxy, scope.get(RESULTS, {}),
        )  # fmt: skip
