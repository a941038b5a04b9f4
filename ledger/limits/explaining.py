"""What a budget's state says, in lines that people read.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator
from datetime import timedelta

from ledger.core import amounts
from ledger.core.ids import EPOCH
from ledger.limits.state import BudgetState


def explained(state: BudgetState) -> list[str]:
    """Return the lines: limit and spent, each region, grant and transfer, what is stranded."""
    return list(_lines(state))


def _lines(state: BudgetState) -> Iterator[str]:
    text = amounts.to_text
    going = ""
    if state.target < state.limit:
        going = f", going to {text(state.target)}"
    elif state.target > state.limit:
        is_whole = state.counter == state.budget
        until = "what the lost home had is reclaimed"
        until = until if is_whole else "the step that is announced is in force"
        going = f", {text(state.target)} once {until}"
    yield f"budget {state.counter}: limit {text(state.limit)}{going}"
    most = amounts.total_wide((state.charged, state.granted))
    yield (
        f"spent: {text(state.charged)} charged, up to {text(most)} with what open grants may spend"
    )
    yield f"free: {text(state.free)}"
    for region in state.regions:
        lost = ", lost" if region.is_lost else ""
        yield (
            f"{region.region}{lost}: {text(region.free)} free, {text(region.granted)} granted,"
            f" {text(region.in_flight)} on its way here, {text(region.charged)} charged;"
            f" a reclaim would put at most {text(region.at_stake)} at stake"
        )
        if region.owed:
            yield f"{region.region} owes {text(region.owed)}: it was charged more than it had"
    for grant in state.grants:
        times = (EPOCH + timedelta(seconds=at) for at in (grant.since, grant.expires))
        since, expires = (f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in times)
        over = ", over: waits to be closed by its entries" if grant.is_over else ""
        yield (
            f"grant {grant.version} of {grant.region}: {text(grant.amount)}, since {since}, expires"
            f" {expires}{over}"
        )
    for moved in state.in_flight:
        yield f"in flight: {text(moved.amount)} from {moved.giver} to {moved.taker}"
    yield f"stranded: {text(state.stranded)}"
