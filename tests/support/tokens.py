"""Tokens of a service under test."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from support.ledgers import seeded

from ledger.http.service.access.token_file import create_token
from ledger.http.service.access.tokens import Scope, checked_grant
from ledger.testing import MemoryGlobalTable


def token_header(
    path: Path,
    table: MemoryGlobalTable,
    *scopes: Scope,
    prefixes: Sequence[str] = (),
    name: str = "shop",
    rate: float | None = None,
    at_once: int | None = None,
) -> dict[str, str]:
    """Return the header of a new token, valid for a day."""
    grant = checked_grant(name, scopes, prefixes, rate=rate, at_once=at_once)
    now = table.clock.now()
    token = create_token(
        path, grant, now=now, randomness=seeded(len(name)), expires=now + timedelta(days=1)
    )
    return {"Authorization": f"Bearer {token}"}
