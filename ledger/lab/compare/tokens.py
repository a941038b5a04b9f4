"""The same token again, in another process: at once, later, after others, in another region."""

from ledger.core.errors import RetryHorizonPassed
from ledger.lab.compare.figures import (
    AFTER_MANY,
    AFTER_ONE,
    DAYS_LATER,
    ELSEWHERE,
    MANY,
    MINUTES_LATER,
    Repeat,
)
from ledger.lab.compare.model import Model
from ledger.lab.compare.options import CompareOptions
from ledger.lab.compare.participants import Participants, share

MINUTE_SECONDS, DAY_SECONDS = 60.0, 86_400.0
_WAITS = {MINUTES_LATER: 11 * MINUTE_SECONDS, DAYS_LATER: 8 * DAY_SECONDS}
_OTHERS = {AFTER_ONE: 1, AFTER_MANY: MANY}


async def repeat(model: Model, method: str, moment: str, options: CompareOptions) -> Repeat:
    """Make a change twice under the same token, and return how often it counts."""
    name = f"repeat-{moment.replace(' ', '-')}"
    participants = Participants(model, method, name, options.seed)
    first = participants.client("first")
    token = first.token()
    await first.add(1, token)
    others = _OTHERS.get(moment, 0)
    if others:
        await share([participants.client("other")], others)
    if moment in _WAITS:
        await model.clock.sleep(_WAITS[moment])
        model.expire()
    where = participants.home
    if moment == ELSEWHERE:
        await model.heal()
        where = list(model.stores)[1]
    refused = False
    try:
        await participants.client("again", where).add(1, token)
    except RetryHorizonPassed:
        refused = True
    await model.heal()
    return Repeat(await participants.value() - others, refused)
