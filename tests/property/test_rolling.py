"""Rolling limits: over any span as long as the window no more than the limit is ever granted.

Two regions spend, hold, settle, close and send by the production's plan. Each id is of a clock that
may be wrong by the contract's skew, older than its grant by up to the retry horizon, or ahead by
the skew; each step knows the region's time within bounds. After every step the entries themselves
are counted, in every span that ends with one of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import pytest

from ledger.budgets import rights_plan, rolling_limits
from ledger.budgets.rights import Holder, Rights
from ledger.core.budget_rules import BUCKETS
from ledger.core.clock_offset import RegionTime

LIMIT = 10
BUCKET, HORIZON, SKEW = 60, 40.0, 10.0
NEEDED = HORIZON + 3 * SKEW
MARGIN = NEEDED + SKEW
WINDOW = BUCKETS * BUCKET
STEPS = 90
SEEDS = 150
RETURNS = 0.2
"""How often the next thing is done about when a bucket comes back."""
HERE, THERE = Holder("us-east-1"), Holder("eu-west-1")

Rolled = Callable[..., Rights]
SAFE: Rolled = partial(rolling_limits.roll_forward, margin=MARGIN)
Dated = Callable[[Rights, float], Rights]


@dataclass
class Entry:
    """A spend as it was applied: the time in its id, its amount, and the grant that it names."""

    at: float
    amount: int
    holder: Holder
    version: int


@dataclass
class World:
    """Both regions' items, and every entry; `rolled` and `dated` may be unsafe variants."""

    random: Random
    rolled: Rolled = field(default=SAFE)
    dated: Dated = rolling_limits.dated
    keeps_window: bool = True
    time: float = 1_000_000.0
    items: dict[Holder, Rights] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the items: all rights lie in the first region."""
        for holder, minted in ((HERE, LIMIT), (THERE, 0)):
            self.items[holder] = rights_plan.create(holder, Decimal(minted), bucket=BUCKET)

    def clock(self) -> float:
        """Return what some process takes for the time."""
        return self.time + self.random.choice((-SKEW, SKEW))

    def known(self) -> RegionTime:
        """Return what some process knows of the time of an item's region."""
        before, after = (self.random.choice((0, 1, 2 * SKEW)) for _ in range(2))
        return RegionTime(self.time - before, self.time + after)

    def step(self) -> None:
        """Do one thing, by an item as of now, and write it."""
        holder = self.random.choice((HERE, THERE))
        self.time += self.random.choice((0.0, 1.0, 30.0, 200.0, WINDOW / 3))
        first = min(self.items[holder].buckets, default=0)
        if first and self.random.random() < RETURNS:
            due = rolling_limits.returned_by(self.items[holder], first, MARGIN)
            self.time = max(self.time, due + self.random.choice((-MARGIN, -BUCKET, -SKEW, SKEW)))
        item = self.rolled(self.items[holder], self.known())
        acts = (self.spend, self.close, self.settle, self.send)
        [act] = self.random.choices(acts, weights=(6, 5, 1.5, 1))
        done = act(item)
        if isinstance(done, Rights) and done.version > item.version:
            self.items[holder] = self.dated(done, self.known().most)

    def spend(self, item: Rights) -> Any:
        """Take a grant and spend all of it, under a key that may be old."""
        amount = self.random.randint(1, 6)
        since = int(self.time)
        done = rights_plan.take(item, Decimal(amount), since=since, expires=since + 60, token="t")
        if isinstance(done, Rights):
            at = self.clock() - self.random.choice((0, HORIZON, -SKEW))
            self.entries.append(Entry(at, amount, item.holder, done.version))
        return done

    def close(self, item: Rights) -> Any:
        """Close the oldest grant by its entries."""
        version = min(item.grants, default=None)
        if version is None:
            return None
        spent = sum(entry.amount for entry in self._under(item.holder, version))
        return rights_plan.reclaim(item, version, Decimal(spent))

    def settle(self, item: Rights) -> Any:
        """Settle some entry, as a hold, for less; its grant is closed or not."""
        held = [one for one in self.entries if one.holder == item.holder and one.amount > 0]
        if not held:
            return None
        entry = self.random.choice(held)
        has_left = self.keeps_window and entry.at + WINDOW <= self.known().most
        less = self.random.choice((1, entry.amount))
        done = rights_plan.adjust(item, entry.version, Decimal(-less), has_left=has_left)
        entry.amount -= less if isinstance(done, Rights) else 0
        return done

    def send(self, item: Rights) -> Any:
        """Send what is available to the other region, which takes it up at once."""
        other = THERE if item.holder == HERE else HERE
        if item.available <= 0:
            return None
        done = rights_plan.send(item, other, item.available)
        assert isinstance(done, Rights)
        taken = rights_plan.take_up(self.rolled(self.items[other], self.known()), done)
        assert taken is not None
        self.items[other] = self.dated(taken, self.known().most)
        return done

    def _under(self, holder: Holder, version: int) -> list[Entry]:
        return [
            entry for entry in self.entries if (entry.holder, entry.version) == (holder, version)
        ]

    def most(self) -> int:
        """Return the most that any span of the window's length came to."""
        return max(
            (
                sum(entry.amount for entry in self.entries if end.at - WINDOW < entry.at <= end.at)
                for end in self.entries
            ),
            default=0,
        )

    def conserved(self) -> bool:
        """Return whether what was charged and granted, ever, is what was applied."""
        charged = sum(item.charged + item.granted for item in self.items.values())
        return charged == sum(entry.amount for entry in self.entries)


def run(seed: int, **variant: Any) -> World:
    """Run a world until a span comes to more than the limit, or to its end."""
    world = World(Random(seed), **variant)  # noqa: S311 (a simulation)
    for _ in range(STEPS):
        world.step()
        assert world.conserved(), seed
        if world.most() > LIMIT:
            break
    return world


def test_no_span_comes_to_more_than_the_limit() -> None:
    """Whatever clocks, ids and settlements are; and what was spent does come back."""
    worlds = [run(seed) for seed in range(SEEDS)]
    assert max(world.most() for world in worlds) == LIMIT
    granted = sum(entry.amount for world in worlds for entry in world.entries)
    assert granted > 1.5 * LIMIT * len(worlds), "what has left the window is granted again"


def by_grant(item: Rights, now: float) -> Rights:
    """Date what is charged by when the oldest grant that is open began."""
    begins = min((grant.since for grant in item.grants.values()), default=now - 3 * BUCKET)
    return rolling_limits.dated(item, min(now, begins) - 60)


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param({"dated": by_grant}, id="dated-by-the-grant"),
        pytest.param({"keeps_window": False}, id="given-back-twice"),
    ],
)
def test_each_rule_is_needed(variant: dict[str, Any]) -> None:
    """Without it some span comes to more than the limit."""
    assert any(run(seed, **variant).most() > LIMIT for seed in range(2 * SEEDS))


@pytest.mark.parametrize(("margin", "most"), [(NEEDED, LIMIT), (NEEDED - 2, 2 * LIMIT)])
def test_the_margin_is_as_long_as_it_has_to_be(margin: float, most: int) -> None:
    """Each clock at its worst, and a key as old as may be: two seconds less, and it is over.

    The margin has one skew more, for what the offset of a clock was not measured to.
    """
    bucket = 20_000
    spent_at = (bucket + 1) * BUCKET - 1.0
    item = replace(rights_plan.create(HERE, Decimal(LIMIT), bucket=BUCKET), charged=Decimal(LIMIT))
    item = rolling_limits.dated(item, spent_at)
    assert item.buckets.keys() == {bucket}
    first = Entry(spent_at + 2 * SKEW, LIMIT, HERE, 2)
    again_at = rolling_limits.returned_by(item, bucket, margin)
    item = rolling_limits.roll_forward(item, RegionTime(again_at, again_at), margin=margin)
    assert item.available == LIMIT
    second = Entry(again_at - SKEW - HORIZON, LIMIT, HERE, 3)
    assert World(Random(0), entries=[first, second]).most() == most  # noqa: S311
