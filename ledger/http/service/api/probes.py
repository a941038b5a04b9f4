"""Probes, metrics, and the page of each problem."""

from collections.abc import Callable

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse, Response

from ledger.http.service.answers import CallRefused, answer
from ledger.http.service.compression import StaticFile, file_answer
from ledger.http.service.context import allow, context_of
from ledger.http.service.openapi import probe, text
from ledger.http.service.wait import page_turn
from ledger.http.wire.problems import KINDS, NOT_FOUND
from ledger.runtime.threads import ThreadedCall

PUBLIC = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""What is answered without a token: nothing of the table is in it."""
PUBLIC_PREFIXES = ("/problems/",)
DOCUMENT_SECONDS_MAX = 60.0
"""How long the OpenAPI document may take to be made: a second of a processor."""

router = APIRouter(tags=["operating"])


def is_public(path: str) -> bool:
    """Return whether a path is answered without a token."""
    return path in PUBLIC or path.startswith(PUBLIC_PREFIXES)


@router.get("/healthz", openapi_extra=probe("Health"))
async def healthz(request: Request) -> Response:
    """Return whether the event loop goes on: an answer says it does."""
    return answer({"status": "ok", "region": context_of(request).region})


@router.get("/readyz", openapi_extra=probe("Health"))
async def readyz(request: Request) -> Response:
    """Return whether this instance takes requests: 503 while it shuts down, or cannot read."""
    context = context_of(request)
    await context.check_ready()
    return answer({"status": "ok", "region": context.region})


@router.get(
    "/problems/{name}",
    response_class=PlainTextResponse,
    openapi_extra=text("What the problem means", public=True),
)
async def problem(name: str) -> Response:
    """Return what a problem means, and what to do."""
    kind = KINDS.get(name)
    if kind is None:
        raise CallRefused(NOT_FOUND, f"there is no problem {name!r:.100}")
    status = f"{kind.status.value} {kind.status.phrase}"
    return PlainTextResponse(f"{kind.title}\n\nHTTP status {status}\n\n{kind.advice}\n")


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    openapi_extra=text("Metrics in Prometheus' text form"),
)
async def show(request: Request) -> Response:
    """Return the metrics of this instance, in Prometheus' text form."""
    registry = allow(request, "admin").registry
    await page_turn(request)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class OpenApiDocument:
    """The OpenAPI document, which is made once, when it is first asked for."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._making = ThreadedCall(
            lambda: StaticFile.of(make(), "application/json"),
            what="the OpenAPI document",
            seconds_max=DOCUMENT_SECONDS_MAX,
        )
        self._made: StaticFile | None = None

    async def file(self) -> StaticFile:
        """Return the document."""
        if self._made is None:
            self._made = await self._making.result()
        return self._made


@router.get("/openapi.json", include_in_schema=False)
async def openapi_document(request: Request) -> Response:
    """Return the document."""
    document: OpenApiDocument = request.app.state.document
    return file_answer(request, await document.file())
