"""Rolling limits: what was charged comes back once it has left the window.

A limit of the last 24 hours is kept by buckets: an item says what it charged in each 24th of the
window (`buckets`), and what of that it has given back (`returned`). Each region does so for what it
charged itself; no other has to know.

    charged ──> bucket of the time at which it was written ── a window and `margin` after
        the bucket's end ──> returned: available again

So an amount comes back after the window, and up to a 24th of it and the margin later. Any span as
long as the window, by the ids of its entries, has no more than the limit: when the last of them was
granted the others were not returned yet. For an id is at most `retry_horizon` older than its grant,
by a clock that may be behind by `clock_skew`; and the id of one with a key is at most `clock_skew`
ahead of a clock that may be ahead by as much. A bucket and its return go by the time of the item's
region: a bucket by the most that it may be, a return by the least. One skew is spare, for what a
measured offset leaves open.

An item is looked at as of a time (`roll_forward`), and what that changes is written with whatever
is written next: nothing sweeps. What a write charges is dated by it (`dated`), or else by the next
look. That is later, so it errs to the safe side.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import replace
from decimal import Decimal

from ledger.budgets.rights import Rights
from ledger.core import amounts
from ledger.core.budget_rules import BUCKETS
from ledger.core.clock_offset import RegionTime
from ledger.core.ids import parse

LASTING = 10**15
"""The bucket of what never comes back: what a lost holder had passed on, and did not have."""
_ZERO = Decimal(0)


def returned_by(rights: Rights, bucket: int, margin: float) -> float:
    """Return when a bucket comes back, in seconds since 1970."""
    return (bucket + 1 + BUCKETS) * rights.bucket + margin


def has_left(rights: Rights, entry: str, now: float) -> bool:
    """Return whether an entry may be older than the window, by its id.

    As long as it is not, what it was charged has not come back. An id in another form may be.
    """
    made = parse(entry)
    return bool(rights.bucket) and (
        made is None or made.at.timestamp() + BUCKETS * rights.bucket <= now
    )


def has_returned(rights: Rights, entry: str, now: float, *, margin: float) -> bool:
    """Return whether what an entry was charged has come back by now, by its id.

    One whose id is in another form is taken not to have.
    """
    made = parse(entry)
    return (
        bool(rights.bucket)
        and made is not None
        and returned_by(rights, int(made.at.timestamp() // rights.bucket), margin) <= now
    )


def lasting(rights: Rights) -> Decimal:
    """Return what an item was charged that never comes back, and that was not spent there."""
    return rights.buckets.get(LASTING, _ZERO)


def dated(rights: Rights, now: float) -> Rights:
    """Return an item in which all that was charged is in a bucket, what is new in that of now.

    `now` is the latest that it may be.

    What was charged too much and is taken back lowers the oldest buckets, so that it does not come
    back twice; that of what lasts it does not. The version stays.
    """
    if not rights.bucket:
        return rights
    known = amounts.total_wide((rights.returned, *rights.buckets.values()))
    new = amounts.total_wide((rights.charged, known.copy_negate()))
    if not new:
        return rights
    buckets = dict(rights.buckets)
    if new > 0:
        at = int(now // rights.bucket)
        buckets[at] = amounts.total((buckets.get(at, _ZERO), new))
        return replace(rights, buckets=buckets)
    less = new.copy_negate()
    for at in sorted(buckets.keys() - {LASTING}):
        taken = min(less, buckets[at])
        buckets[at] = amounts.total((buckets[at], taken.copy_negate()))
        less = amounts.total_wide((less, taken.copy_negate()))
    kept = {at: amount for at, amount in buckets.items() if amount}
    returned = amounts.total((rights.returned, less.copy_negate()))
    return replace(rights, buckets=kept, returned=returned)


def roll_forward(rights: Rights, time: RegionTime, *, margin: float) -> Rights:
    """Return an item as of a time: what has left the window by then for sure is returned.

    The version stays: it is as it was read, and what differs is written with the next change.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits.
    """
    if not rights.bucket:
        return rights
    item = dated(rights, time.most)
    due = [at for at in item.buckets if returned_by(item, at, margin) <= time.least]
    if not due:
        return item
    returned = amounts.total((item.returned, *(item.buckets[at] for at in due)))
    left = {at: amount for at, amount in item.buckets.items() if at not in due}
    return replace(item, buckets=left, returned=returned)
