"""The service as an AWS Lambda function behind a function URL, by Mangum.

The settings are those of LEDGER_CONFIG and `LEDGER_*`, the tokens those of the file LEDGER_TOKENS,
both of the image and read once; the region is LEDGER_REGION, else the one that the function runs
in, and has to be one of the table's. The ledger stays open between invocations; nothing runs in
between, and nothing has to: what a request writes is written before it is answered.

An environment answers one request at a time. So requests share no batches, a token's limits and the
metrics are those of each environment alone, and `/v1/live` shows totals once and ends: clients
connect again after the time that it names.
"""

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ledger.core.errors import SettingsError
from ledger.http.wire.problems import INVALID, MEDIA_TYPE, Problem
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.gc import is_gc_tuned, tune_gc
from ledger.runtime.logs import LogFormat, begin_logging
from ledger.runtime.loops import new_runner
from ledger.runtime.metrics import program_registry
from ledger.runtime.output import needing
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.settings.variables import AWS_VARIABLE, REGION_VARIABLE, TOKENS_VARIABLE

with needing("the Lambda function"):
    from mangum import Mangum
    from starlette.types import Receive, Scope, Send

    from ledger.http.service.access.access import Access, FileAccess
    from ledger.http.service.answers import NOT_APPLIED
    from ledger.http.service.app import instance_app
    from ledger.http.service.options import ServiceOptions

TEXTS = ("text/", "application/json", MEDIA_TYPE)
"""What is handed to Lambda as it is; of anything else the bytes in base 64."""
_OF_PATHS = "!#$%&'()*+,/:;=?@[]"
"""What a path that was sent has as it is: reserved characters, and those of encoded ones."""
_REFUSED: Mapping[str, Any] = {
    "statusCode": int(INVALID.status),
    "headers": {"content-type": MEDIA_TYPE, "cache-control": "no-store"},
    "body": json.dumps(
        Problem(
            INVALID,
            "the event is none of a function URL or an HTTP API (payload format 2.0)",
            NOT_APPLIED,
        ).fields()
    ),
    "isBase64Encoded": False,
}
log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], context: object) -> Mapping[str, Any]:
    """Answer one request of a function URL, or of an HTTP API (payload format 2.0).

    Raises:
        LedgerError: settings or tokens are wrong, or the ledger cannot be opened.
    """
    return _environment().handle(event, context)


@cache
def _environment() -> "Environment":
    if not is_gc_tuned():
        tune_gc()
    begin_logging(LogFormat.JSON)
    settings = Settings.load()
    tokens = os.environ.get(TOKENS_VARIABLE)
    if not tokens:
        raise SettingsError(
            f"{TOKENS_VARIABLE} must name a file of tokens in the image, as `ledger token create`"
            " writes it"
        )
    region = os.environ.get(REGION_VARIABLE) or os.environ.get(AWS_VARIABLE)
    return Environment(settings, region, FileAccess(Path(tokens), SystemClock()))


class Environment:
    """An event loop with an open ledger, and the application over it."""

    def __init__(self, settings: Settings, region: str | None, access: Access) -> None:
        """Open the ledger.

        Raises:
            LedgerError: the region is none of the table's, or the ledger cannot be opened.
        """
        registry = program_registry()
        self._ledger = Ledger.open(settings, region=region, registry=registry)
        self._app, self._shared = instance_app(
            self._ledger,
            registry=registry,
            access=access,
            clock=SystemClock(),
            randomness=system_random(),
            options=ServiceOptions(),
        )
        self._shared.is_brief = True
        self._runner = new_runner()
        self._runner.run(self._ledger.__aenter__())
        asyncio.set_event_loop(self._runner.get_loop())  # or Mangum makes one
        self._mangum = Mangum(self._answer, lifespan="off", text_mime_types=[*TEXTS])

    def handle(self, event: Mapping[str, Any], context: object) -> Mapping[str, Any]:
        """Answer one event; one of another form than AWS sends is a 400."""
        asyncio.set_event_loop(self._runner.get_loop())  # where Mangum runs the request
        try:
            found = self._mangum.infer(event, context)  # type: ignore[arg-type]  # its own types
            _ = found.scope, found.body
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
            log.warning("an event of another form: %r", error)
            return _REFUSED
        return self._mangum(event, context)  # type: ignore[arg-type]  # as above

    def close(self) -> None:
        """Close the ledger; Lambda itself just ends the process."""
        self._runner.run(self._closed())
        self._runner.close()
        asyncio.set_event_loop(None)

    async def _closed(self) -> None:
        await self._shared.fleet.__aexit__()
        await self._ledger.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the path as it was sent, which Mangum leaves out: ids are encoded in it."""
        sent = scope["aws.event"].get("rawPath") or scope["path"]
        scope["raw_path"] = quote(sent, safe=_OF_PATHS, errors="surrogatepass").encode("ascii")
        await self._app(scope, receive, send)
