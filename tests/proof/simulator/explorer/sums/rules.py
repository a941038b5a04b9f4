"""What the production code says, of a small case; and each rule broken."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache

from ledger.core.entry import Item
from ledger.core.fold import collect
from ledger.core.sums import COPY, Sum, SumPlace, to_copy
from ledger.pipeline.core.items import MapItem
from ledger.pipeline.core.plans import plan_reduce
from ledger.settings import Settings
from ledger.store.writes import Action, Delete, Update
from proof.simulator.explorer.broken_rule import BrokenRule

REGIONS = ("us-east-1", "eu-west-1", "ap-south-1")
"""The first one is home."""
LOST = 2
"""The region that is lost, if any is."""
COUNTER = "c"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_SETTINGS = Settings(home=REGIONS[0], regions={name: {} for name in REGIONS})

Shown = Mapping[SumPlace, Sum]


def _planned(region: int, epoch: int, numbers: Iterable[int]) -> tuple[Action, ...]:
    return _plan(region, epoch, tuple(sorted(numbers)))


@cache
def _plan(region: int, epoch: int, numbers: tuple[int, ...]) -> tuple[Action, ...]:
    """Return what a reduce of these map items writes in a region, in this epoch of it."""
    items = [
        MapItem(("~pipeline~lane", str(number)), {COUNTER: Decimal(10**number)})
        for number in numbers
    ]
    name = REGIONS[region]
    terms = replace(_SETTINGS.terms, lost=(name,) * (epoch - 1))
    settings = _SETTINGS.under(terms, home=REGIONS[0])
    return plan_reduce(items, region=name, settings=settings, now=_NOW).actions


def _total(items: Iterable[Item]) -> int:
    return int(collect(items).total())


def _copies(views: Iterable[Shown], copies: Shown, epochs: Mapping[str, int]) -> dict[str, Sum]:
    """Return the copies to put by sort key."""

    def is_over(place: SumPlace) -> bool:
        return place.epoch < epochs[place.region]

    found = to_copy(views, copies, is_over)
    return {f"{place.sort_key}{COPY}": each for place, each in found.items()}


@dataclass(frozen=True, slots=True)
class Case:
    """A small case: the numbers of the map items that wait in each region, and what may happen.

    `again` are those that wait in the lost region once it was added again.
    """

    waiting: tuple[tuple[int, ...], ...]
    is_lost: bool = False
    again: tuple[int, ...] = ()
    planned: Callable[[int, int, Iterable[int]], tuple[Action, ...]] = _planned
    total: Callable[[Iterable[Item]], int] = _total
    copies: Callable[[Iterable[Shown], Shown, Mapping[str, int]], dict[str, Sum]] = _copies
    same_epoch: bool = field(default=False)


CASES = {
    "two-regions": Case(waiting=((0, 1), (2, 3))),
    "three-regions": Case(waiting=((0,), (1,), (2,))),
    "one-region-often": Case(waiting=((0, 1, 2), ())),
    "lost": Case(waiting=((0,), (), (1, 2)), is_lost=True),
    "lost-often": Case(waiting=((), (), (0, 1, 2)), is_lost=True),
    "lost-and-added-again": Case(waiting=((), (), (0, 1)), is_lost=True, again=(2,)),
}


def _one_item(region: int, epoch: int, numbers: Iterable[int]) -> tuple[Action, ...]:
    """Let every region add to the same item."""
    actions = _planned(region, epoch, numbers)
    key = (COUNTER, SumPlace("all", 1).sort_key)
    return tuple(
        replace(action, key=key) if isinstance(action, Update) else action for action in actions
    )


def _unconditional(region: int, epoch: int, numbers: Iterable[int]) -> tuple[Action, ...]:
    """Delete map items whether they are there or not."""
    actions = _planned(region, epoch, numbers)
    return tuple(
        action._replace(condition=None) if isinstance(action, Delete) else action
        for action in actions
    )


def _added_up(items: Iterable[Item]) -> int:
    """Count the sum and its copy."""
    return sum(int(item["value"]["N"]) for item in items)


def _copied_once(
    views: Iterable[Shown], copies: Shown, epochs: Mapping[str, int]
) -> dict[str, Sum]:
    """Copy what was found first, and nothing that arrives later."""
    known = {f"{place.sort_key}{COPY}" for place in copies}
    found = _copies(views, copies, epochs)
    return {key: each for key, each in found.items() if key not in known}


def _in_place(views: Iterable[Shown], copies: Shown, epochs: Mapping[str, int]) -> dict[str, Sum]:
    """Write the lost region's own item again where regions differ."""
    shown = list(views)
    newest = _copies(shown, copies, epochs)
    alike = {
        place for place in shown[0] if all(view.get(place) == shown[0][place] for view in shown)
    }
    keys = {place.sort_key for place in alike}
    again = {key.removesuffix(COPY): each for key, each in newest.items()}
    return {key: each for key, each in again.items() if key not in keys}


MUTANTS = {
    "two-regions-on-one-item": BrokenRule(
        "two regions add to one item", replace(CASES["two-regions"], planned=_one_item)
    ),
    "deletes-without-condition": BrokenRule(
        "map items are deleted whether they are there or not",
        replace(CASES["two-regions"], planned=_unconditional),
    ),
    "item-and-copy-added-up": BrokenRule(
        "an item and its copy are added up", replace(CASES["lost"], total=_added_up)
    ),
    "copied-once": BrokenRule(
        "only the first state found of a lost region's item is copied",
        replace(CASES["lost"], copies=_copied_once),
    ),
    "copied-in-place": BrokenRule(
        "the lost region's own item is written again in place",
        replace(CASES["lost-often"], copies=_in_place),
    ),
    "one-epoch": BrokenRule(
        "a region that is added again keeps its epoch",
        replace(CASES["lost-and-added-again"], same_epoch=True),
    ),
}
