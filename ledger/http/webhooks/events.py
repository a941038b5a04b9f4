"""Events of webhooks: their bodies, ids that are the same at each delivery, and waits between.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

import orjson

from ledger.core import amounts
from ledger.core.values import Entry
from ledger.core.watches import Crossing
from ledger.http.wire.schemas import EntryModel

TRIES_MAX = 10
"""Tries of one event, some nine minutes; then it is a dead letter."""
WAIT_SECONDS_MIN = 1.0
WAIT_SECONDS_MAX = 300.0


class Ended(StrEnum):
    """How sending an event ended."""

    DELIVERED = "delivered"
    GONE = "gone"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One event: what names it for good, and the body that is posted."""

    id: str
    body: bytes


def of_entry(hook: str, entry: Entry) -> HookEvent:
    """Return the event of an entry.

    One whose key was used for two changes comes twice; each change is an event of its own, and so
    is each transfer, whose change is 0.
    """
    moved = [part for leg in entry.legs for part in (*leg[:2], amounts.to_text(leg.amount))]
    id_ = _id(hook, entry.counter, entry.id, amounts.to_text(entry.change), *moved)
    return HookEvent(
        id_, orjson.dumps({"type": "entry.recorded", "data": EntryModel.fields_of(entry)})
    )


def of_crossing(hook: str, crossing: Crossing) -> HookEvent:
    """Return the event of a crossing."""
    data = {
        "counter": crossing.counter,
        "number": crossing.number,
        "side": crossing.side,
        "bound": amounts.to_text(crossing.bound),
        "total": amounts.to_text(crossing.value),
        "at": crossing.at.isoformat() if crossing.at else None,
    }
    id_ = _id(hook, crossing.counter, str(crossing.number))
    return HookEvent(id_, orjson.dumps({"type": "total.crossed", "data": data}))


def of_test(hook: str, now: str) -> HookEvent:
    """Return an event that says nothing but that it can be sent."""
    return HookEvent(_id(hook, "test", now), orjson.dumps({"type": "test", "data": {"at": now}}))


def _id(*parts: str) -> str:
    digest = sha256("\x00".join(parts).encode()).hexdigest()
    return f"msg_{digest[:32]}"


def wait_after(tries: int, share: float) -> float:
    """Return for how many seconds to wait after so many tries; `share`, 0 to 1, is drawn.

    Doubled each time, half of it by chance, so that senders who failed together do not return so.
    """
    longest = min(WAIT_SECONDS_MAX, WAIT_SECONDS_MIN * 2.0 ** (tries - 1))
    return longest * (0.5 + share / 2)
