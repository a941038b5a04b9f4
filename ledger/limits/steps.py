"""Steps of a limit at their place: of now, or announced for windows that begin later.

A step that is announced is shown by every region, waited for, and confirmed; each visit does what
is due (`ledger.limits.windows` says what follows from what, and why).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from ledger.core.clock_offset import RegionTime
from ledger.core.errors import StoreError
from ledger.core.ids import EPOCH
from ledger.limits import windows
from ledger.limits.calendar import previous_of, whole_seconds, window_of
from ledger.limits.place import Place
from ledger.limits.rights import account_in
from ledger.limits.shares import weighed
from ledger.limits.windows import Limit, LimitStep

CONFIRM_SECONDS = 600
"""How much time there is, at least, to confirm an announced step beside its wait."""
POSTPONED_SECONDS = (4 * 3_600, 16 * 3_600, 64 * 3_600, 256 * 3_600)
"""How much there is once that was too little, the last for good.

It takes two visits, the wait apart: one finds that all regions show the step, the next confirms it.
In 4 hours a scheduled compactor's hourly searches come by three times. Who comes once a day, and
has no compactor, does so in 64.
"""


def step_to(
    place: Place, limit: Limit, target: Decimal, weights: Mapping[str, int] | None
) -> LimitStep:
    """Return the step of another amount: of now, or of windows that begin later.

    Raises:
        InvalidInput: the weights are not of the table's regions, or not whole numbers from 0 on.
    """
    terms = place.access.settings.current.terms
    since = None if place.window.is_whole else _since(place, limit, seconds=CONFIRM_SECONDS)
    if weights is not None:
        step = LimitStep.of(target, weighed(terms, weights), since=since)
    else:
        accounts = [account_in(region, terms) for region in terms.written]
        step = limit.newest.like(target, accounts, since=since)
    # Without windows nothing is shared by it: it names all that may have had a part of it.
    return step.naming(limit.newest.shares) if place.window.is_whole else step


def with_step(place: Place, limit: Limit, step: LimitStep) -> Limit:
    """Return the limit with a step in force, or announced."""
    if place.window.is_whole:
        return replace(limit, revision=limit.revision + 1, steps=(step,))
    return windows.announce(limit, step, now=place.time.latest, wait=place.wait)


async def due_of(place: Place, limit: Limit) -> Limit | None:
    """Return the limit once what is due for an announced step is done; None if nothing is due."""
    step, time = limit.announced, place.time
    if step is None or step.since is None:
        return None
    if time.earliest >= step.since:
        seconds = POSTPONED_SECONDS[min(limit.postponed, len(POSTPONED_SECONDS) - 1)]
        since = _since(place, limit, seconds=seconds)
        return windows.postpone(limit, since, now=time.latest, wait=place.wait)
    if limit.shown is not None:
        oldest = _oldest(place, time)
        return windows.confirm(
            limit, now=time.earliest, looked=limit.shown, wait=place.wait, oldest=oldest
        )
    try:
        shown = [
            (await items.read(place.budget)).limit
            for items in (await place.access.items_everywhere()).values()
        ]
    except StoreError:
        return None  # that region has yet to show it
    is_shown = all(other is not None and other.revision >= limit.revision for other in shown)
    return windows.note_shown(limit, place.time.latest) if is_shown else None


def _oldest(place: Place, time: RegionTime) -> int:
    """Return when the oldest window begins of which any process may still make an item."""
    behind = time.least - place.terms.longest("clock_skew")
    runs = window_of(place.budget, place.rule, EPOCH + timedelta(seconds=behind))
    return previous_of(runs, place.rule).begins


def _since(place: Place, limit: Limit, *, seconds: int) -> int:
    """Return when the first window begins that a step announced now can decide.

    Not before the newest in force does. There is to be so much time beside the wait. What takes
    the place of another that is announced begins with that, if there is.
    """
    at = EPOCH + timedelta(seconds=place.time.latest + place.wait + seconds)
    at = max(at, EPOCH + timedelta(seconds=limit.begins - 1))
    announced = None if limit.announced is None else limit.announced.since
    if announced is not None and announced > whole_seconds(at):
        return announced
    ends = window_of(place.budget, place.rule, at).ends
    assert ends is not None  # noqa: S101 (it has windows)
    return ends
