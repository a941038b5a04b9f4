"""Bodies of requests: read if they are said to be JSON, and checked."""

import re

import anyio.lowlevel
from fastapi import Request
from pydantic import TypeAdapter

from ledger.http.service.access.tokens import Scope
from ledger.http.service.answers import CallRefused
from ledger.http.service.context import allow
from ledger.http.service.json_bodies import BodyModel, read_body
from ledger.http.wire.problems import NOT_ACCEPTABLE_BODY

JSON = "application/json"
SHORT_BYTES = 256
"""A body of no more is checked at once, in 50 microseconds at most: in each round of the event loop
only ten bodies come to their end (`ledger.http.service.turns`)."""
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]*)', re.ASCII | re.IGNORECASE)


async def let_others_go_on() -> None:
    """End this turn of the event loop, between parts of a request that may take long each."""
    await anyio.lowlevel.checkpoint()


async def read_json_body(request: Request, kind: TypeAdapter[BodyModel], scope: Scope) -> BodyModel:
    """Return a request's body, checked in its turn, for a caller with that scope.

    One that is not said to be JSON, or compressed, is refused.

    Raises:
        InvalidInput: it breaks a rule.
        Refused: of no caller with that scope, or of another form.
    """
    context = allow(request, scope)
    headers = request.headers
    said = headers.get("content-type", "")
    media = said.partition(";")[0].strip().lower()
    if any(charset.lower() != "utf-8" for charset in _CHARSET.findall(said)):
        raise CallRefused(NOT_ACCEPTABLE_BODY, f"the body must be in UTF-8, got {said!r:.100}")
    packing = headers.get("content-encoding", "identity")
    if packing.lower() != "identity":
        raise CallRefused(
            NOT_ACCEPTABLE_BODY, f"the body must come as it is, not as {packing!r:.100}"
        )
    if media != JSON:
        raise CallRefused(
            NOT_ACCEPTABLE_BODY, f"the body must be {JSON}, got {media or 'no type'!r:.100}"
        )
    body = await request.body()
    if len(body) <= SHORT_BYTES:
        return read_body(kind, body)
    # Many that are held back but for a byte may come at once: others go on between each two.
    async with context.checking:
        await let_others_go_on()
        read = read_body(kind, body)
    await let_others_go_on()
    return read
