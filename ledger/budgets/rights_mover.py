"""Moving rights between regions: what one shows as sent is taken up, its own surplus is sent.

All of a holder in one write, through its own region, on condition of the version read. By whom is
of no matter, nor how often: views only decide where rights lie (`balance`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ledger.budgets.balance import quantum_of, transfers
from ledger.budgets.grant_closing import RegionViews
from ledger.budgets.rights import Holder, Rights, write_of
from ledger.budgets.rights_plan import TooFewRights, send, take_up
from ledger.core import amounts
from ledger.store.writes import Applied


@dataclass(frozen=True, slots=True)
class RightsMoved:
    """What a holder took up, by giver, and what it sent, by taker."""

    taken: Mapping[Holder, Decimal] = field(default_factory=dict)
    sent: Mapping[Holder, Decimal] = field(default_factory=dict)


async def move_rights(
    regions: RegionViews,
    counter: str,
    rights: Rights,
    shown: Mapping[Holder, Rights],
    *,
    before: Rights | None = None,
) -> RightsMoved:
    """Take up what was sent to a holder, and send its surplus; what was not written is not moved.

    `rights` is its item as its region has it now, or what it begins with: then `before` is the one
    of version 0. `shown` is what that region shows of all of the budget. Nothing is taken up from
    a holder that is over, and nothing sent to or from a region that leaves or is not among the
    `regions` that can be read.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits.
        StoreError: the region failed.
    """
    after, moved = planned(regions, rights, shown)
    if not (moved.taken or moved.sent):
        return RightsMoved()
    outcome = await regions.stores[rights.holder.region].write(
        write_of(before or rights, after, counter)
    )
    return moved if isinstance(outcome, Applied) else RightsMoved()


def planned(
    regions: RegionViews, rights: Rights, shown: Mapping[Holder, Rights]
) -> tuple[Rights, RightsMoved]:
    """Return the item that `move_rights` writes, and what it moves.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits.
    """
    me, terms = rights.holder, regions.terms
    after = rights
    taken: dict[Holder, Decimal] = {}
    for giver in sorted(shown):
        if giver == me or terms.is_over(giver.region, giver.epoch):
            continue
        following = take_up(after, shown[giver])
        if following is not None:
            known = after.taken.get(giver, Decimal(0)).copy_negate()
            taken[giver] = amounts.total_wide((following.taken[giver], known))
            after = replace(following, version=rights.version)
    live = {
        holder: item
        for holder, item in shown.items()
        if regions.keeps(holder) and holder.region in terms.written and holder not in after.cut
    }
    sent: dict[Holder, Decimal] = {}
    if me in live:
        live[me] = after
        for to, amount in transfers(me, live, quantum=quantum_of(live.values())).items():
            given = send(after, to, amount)
            if not isinstance(given, TooFewRights):
                sent[to] = amount
                after = replace(given, version=rights.version)
    return replace(after, version=rights.version + 1), RightsMoved(taken, sent)
