"""What is above a limit is retired at home; what is free elsewhere is sent there.

What a region owes, since it was charged more than it had, is paid, too: beside a debt others can
spend as much more than the limit.
"""

from collections.abc import Collection, Mapping
from decimal import Decimal
from functools import partial

from ledger.core import amounts
from ledger.core.errors import StoreError
from ledger.limits import plan
from ledger.limits.halves import not_in_limit
from ledger.limits.items import ControlItems
from ledger.limits.place import CHANGE_SECONDS, Place
from ledger.limits.rights import Account, Rights, write_of
from ledger.limits.shares import created, target_in
from ledger.limits.windows import Limit
from ledger.store.writes import Put

_ZERO = Decimal(0)


async def go_down(place: Place) -> None:
    """Retire, at home, as much as is free anywhere of what is above the limit, and pay debts.

    Raises:
        BudgetMissing, OutcomeUnknown, StoreError: it may be repeated.
    """
    await _retire(place)
    await _send_home(place)
    await _retire(place)


def lowered_to(place: Place, limit: Limit, items: Collection[Rights]) -> Decimal | None:
    """Return down to what rights are retired now; None if it is not lowered.

    With each raise that these items show and the limit does not know, of a lost home or restored:
    it would be taken for what is above.
    """
    target = target_in(limit, place.window)
    unknown = not_in_limit(limit, items).values()
    return None if target is None else amounts.total_wide((target, *unknown))


async def is_free_above(place: Place) -> bool:
    """Return whether any region that is not gone has something free of what is to be retired.

    Raises:
        BudgetMissing, BudgetUndecided, StoreError: it may be repeated.
    """
    items = await place.everywhere()
    limit = (await place.limits())[0]
    made = place.all_made(limit, items)
    is_free = any(item.available > 0 for account, item in made.items() if place.keeps(account))
    return is_free and _above(place, limit, made) > 0


def _above(place: Place, limit: Limit, items: Mapping[Account, Rights]) -> Decimal:
    """Return how much of these items is to be retired."""
    target = lowered_to(place, limit, items.values())
    return _ZERO if target is None else plan.above(target, tuple(items.values()))


def lowered_by(place: Place, limit: Limit, items: Mapping[Account, Rights]) -> list[plan.Step]:
    """Return the step that retires at home what is above the limit, if that is lowered.

    `items` are those of all accounts, as they are, or will be made.
    """
    target = lowered_to(place, limit, items.values())
    others = place.others(items)
    return [] if target is None else [partial(plan.lower_limit, target=target, others=others)]


async def _retire(place: Place) -> None:
    """Take up at home what was sent there, retire what is above the limit, and pay debts.

    The limit is read after home's item: a raise, which writes both, is either in that limit, or
    has changed the version of the item, and this write is refused.
    """

    async def planned() -> list[Put]:
        items = await place.everywhere()
        limit = (await place.limits())[0]
        before, made = items[place.me], place.all_made(limit, items)
        others = place.others(made)
        steps: list[plan.Step] = [
            partial(created, window=place.window, limit=limit),
            *(partial(plan.take_up, giver=giver) for giver in others),
            *lowered_by(place, limit, made),
            *(partial(plan.pay, to=one, debt=debt) for one, debt in place.debts(made).items()),
        ]
        after = plan.in_one_write(before, steps)
        if not isinstance(after, Rights) or after.version == before.version:
            return []
        return [write_of(before, after, place.window.counter)]

    await place.write(planned)


async def _send_home(place: Place) -> None:
    """Let other regions send home what they have free of what is above the limit, or owed."""
    limit = (await place.limits())[0]
    made = place.all_made(limit, await place.everywhere())
    owed = place.debts(made).values()
    above = amounts.total_wide((_above(place, limit, made), *owed))
    for account, region in sorted((await place.accounts()).items()):
        if account == place.me or above <= 0 or made[account].available <= 0:
            continue
        try:
            sent = await _sent_home(place, limit, account, region, above)
        except StoreError:
            continue  # by the next call
        above = amounts.total_wide((above, sent.copy_negate()))


async def _sent_home(
    place: Place, limit: Limit, giver: Account, region: ControlItems, most: Decimal
) -> Decimal:
    """Let one region send at most so much home; return how much it did."""
    sent = _ZERO

    def planned(rights: Rights) -> Rights:
        nonlocal sent
        sent = min(most, place.made(limit, rights).available)
        if sent <= 0:
            sent = _ZERO
            return rights
        steps: list[plan.Step] = [
            partial(created, window=place.window, limit=limit),
            partial(plan.send, to=place.me, amount=sent),
        ]
        done = plan.in_one_write(rights, steps)
        assert isinstance(done, Rights)  # noqa: S101 (there is as much)
        return done

    with place.access.signed():
        await region.change(place.window.counter, giver, planned, seconds=CHANGE_SECONDS)
    return sent
