"""Tokens after a hand-over: which of them another region may have used, without its item here yet.

Markers, and the records of counts, are items of their own, and so are shards that are no longer in
force and keep tokens. No item says how many there are, so nothing shows that all of them have
arrived where a counter was handed over to::

    us-east-1   {put marker t; ADD 5} ── hand over ──> layout, value ──> eu-west-1
                                                  marker t ─────────────────> a little later

Until `ARRIVING_SECONDS` after the hand-over a token without its item here is refused there, unless
it has a time (`new_token`, a UUIDv7, a ULID) of after the hand-over.

Pure: no clock, no randomness, no I/O.
"""

from datetime import UTC, datetime, timedelta

from ledger.core.errors import RegionConflict
from ledger.core.tokens import time_of_key
from ledger.primitives.counters.layout import Layout

ARRIVING_SECONDS = 3600
"""How long after a hand-over markers may be on their way; they are mostly there in a second."""
SKEW_SECONDS = 60
"""How far the clocks of two processes may differ, as `clock_skew` of the settings by default."""


def is_doubtful(layout: Layout, token: str, now: datetime) -> bool:
    """Return whether another region may have used a token whose item does not show here."""
    if not layout.handed or now.timestamp() >= layout.handed + ARRIVING_SECONDS:
        return False
    made = time_of_key(token)
    return made is None or made.timestamp() <= layout.handed + SKEW_SECONDS


def doubt_of(name: str, layout: Layout, token: str) -> RegionConflict:
    """Return the error of a token that may have been used before the hand-over."""
    until = datetime.fromtimestamp(layout.handed, UTC) + timedelta(seconds=ARRIVING_SECONDS)
    return RegionConflict(
        f"counter {name!r} was handed over to {layout.region}: token {token[:60]!r} may have been"
        f" used before, and is refused until {until.isoformat()} unless its marker has arrived;"
        " a token of new_token, made a minute after the hand-over, is taken at once"
    )
