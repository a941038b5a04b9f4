"""Worlds that lose a region for good: home or another, at a drawn moment, with its last writes.

::

    region stops ─── given up ─── removed, in one region after the other ─── operators take over
      its last writes arrive late, or never ────┤   (or even later)

Or the region works on until it is removed: it is given up, and not lost yet. Or it is taken out, by
a change of the contract that it is to show, and removed though not all of it may have arrived.
Which seeds lose one goes by a remainder, so that the worlds of others stay what they were.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from ledger.core.contract import Terms, seconds_to_wait
from proof.simulator.planned import BusyPeriod, Operation, Outage
from proof.simulator.profiles import CLOCKS_OFF, profile_of

_OF, _PLACE = 11, 6
HOME_SHARE = 0.7
WORKS_ON_SHARE = 0.35
LONG_AFTER_SHARE = 0.5
"""The share of losses after which writes still arrive once others have taken over."""
LONG_AFTER_WAITS = 4
AHEAD_SECONDS = (0.0, 4000.0)
"""How far the stamps of the lost region are ahead of the others'."""
NEVER_SHARES = (0.2, 0.5, 0.9)
LATE_SECONDS = (10.0, 300.0, 4000.0)
SLOW_SECONDS = (0.0, 200.0, 200.0)
SLOW_AHEAD_SECONDS = 1000.0
"""So long before it stops its writes take up to that long to arrive, where its stamps are ahead."""
GIVEN_UP_SECONDS = 300.0
REMOVED_SECONDS = 400.0
WORKS_ON_SECONDS = (1800.0, 3000.0)
APART_SECONDS = 60.0
"""How much later one region may list the lost one no more than another."""
DELETING_SECONDS = 100.0
"""How long before its removal a replica is described as being deleted."""
TWO_OPERATORS_SHARE = 0.4
CUT_SHARE = 0.35
FIRST_PERIOD, PERIODS_MAX = 2, 5
"""The busy periods in which a region is lost: once there are nets, and before the world is old."""
PERIODS_AFTER = 2
TAKEN_OUT_SHARE = 0.5
"""The share of losses of a region that is not the home in which it is taken out."""
ABOUT_SHARE = 0.4
AFTER_SHARE = 0.3
ABOUT_SECONDS = 200.0
TAKING_SECONDS = 400.0
"""About how long after the change of the contract collections are taken over."""
AFTER_SECONDS = 200.0


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of one region; moments and durations in seconds.

    `homes` are what each operator names as home: the same as before, unless that is lost. From its
    moment in `removed` on a remaining region no longer lists it. Nothing of it arrives after
    `arrives_until`; of what was on its way when it stopped a share of `never_share` never arrives,
    item by item and region by region, the rest up to `late_seconds` later. In the last
    `slow_seconds` its writes take as long to arrive; `cut_links` deliver nothing any more.
    One that `is_taken_out` works until it is removed; then there is no table in it.
    """

    region: str
    homes: tuple[str, ...]
    stops_at: float
    given_up_at: float
    removed: Mapping[str, float]
    arrives_until: float
    never_share: float
    late_seconds: float
    ahead_seconds: float = 0.0
    slow_seconds: float = 0.0
    cut_links: tuple[tuple[str, str], ...] = ()
    is_taken_out: bool = False

    @property
    def remaining(self) -> tuple[str, ...]:
        """The regions that remain."""
        return tuple(self.removed)

    def is_slow(self, source: str, now: float) -> bool:
        """Return whether what a region writes now takes long to arrive."""
        return source == self.region and now >= self.stops_at - self.slow_seconds

    def last_arrival(self, link: tuple[str, str]) -> float:
        """Return until when anything arrives over a link of the lost region."""
        return self.arrives_until if link[0] == self.region else self.removed[link[0]]

    def described(self, region: str, now: float) -> dict[str, str]:
        """Return the states of the replicas beside `region`, as that describes them."""
        states = dict.fromkeys(self.remaining, "ACTIVE") | {self.region: "ACTIVE"}
        removed = self.removed.get(region, float("inf"))
        if now >= removed:
            del states[self.region]
        elif now >= removed - DELETING_SECONDS:
            states[self.region] = "DELETING"
        return {name: state for name, state in states.items() if name != region}


def is_lossy(seed: int) -> bool:
    """Return whether the world of a seed loses a region for good."""
    return seed % _OF == _PLACE and profile_of(seed) is not CLOCKS_OFF


def draw_loss(chance: Random, regions: Sequence[str], at: float, terms: Terms) -> Loss:
    """Draw the loss of a region that is given up about a moment."""
    home = regions[0]
    lost = home if chance.random() < HOME_SHARE else chance.choice(regions[1:])
    remaining = [region for region in regions if region != lost]
    works_on = chance.random() < WORKS_ON_SHARE
    given_up_at = at if works_on else at + chance.random() * GIVEN_UP_SECONDS
    seconds = chance.uniform(*WORKS_ON_SECONDS) if works_on else chance.random() * REMOVED_SECONDS
    removed = {
        region: given_up_at + seconds + chance.random() * APART_SECONDS for region in remaining
    }
    last = max(removed.values())
    arrives_until, ahead = last, chance.choice(AHEAD_SECONDS)
    is_long_after = chance.random() < LONG_AFTER_SHARE
    is_slow_ahead = is_long_after and ahead > 0
    if is_long_after:
        arrives_until = last + LONG_AFTER_WAITS * seconds_to_wait(terms, terms)
    operators = 2 if chance.random() < TWO_OPERATORS_SHARE else 1
    homes = [chance.choice(remaining) if lost == home else home for _ in range(operators)]
    either = [(lost, other) for other in remaining] + [(other, lost) for other in remaining]
    return Loss(
        region=lost,
        homes=tuple(homes),
        stops_at=min(removed.values()) if works_on else at,
        given_up_at=given_up_at,
        removed=removed,
        arrives_until=arrives_until,
        never_share=chance.choice(NEVER_SHARES[:1] if is_long_after else NEVER_SHARES),
        late_seconds=chance.choice(LATE_SECONDS[-1:] if is_long_after else LATE_SECONDS),
        slow_seconds=SLOW_AHEAD_SECONDS if is_slow_ahead else chance.choice(SLOW_SECONDS),
        ahead_seconds=ahead,
        cut_links=tuple(link for link in either if chance.random() < CUT_SHARE),
    )


def taken_out(chance: Random, loss: Loss, homes: Sequence[str]) -> Loss:
    """Return a loss of a region that is never the home as one that is taken out, or as it is."""
    if loss.region in homes or chance.random() >= TAKEN_OUT_SHARE:
        return loss
    removed = {
        region: at + chance.uniform(*WORKS_ON_SECONDS) for region, at in loss.removed.items()
    }
    later = max(removed.values()) - max(loss.removed.values())
    return replace(
        loss,
        removed=removed,
        stops_at=min(removed.values()),
        arrives_until=loss.arrives_until + later,
        is_taken_out=True,
    )


def in_force_at(loss: Loss, terms: Terms) -> float:
    """Return about when the contract without the lost region is in force."""
    return max(loss.removed.values()) + seconds_to_wait(terms, terms) + AFTER_SECONDS


def draw_moment(chance: Random, busy: Sequence[BusyPeriod]) -> float:
    """Draw when a region is given up: while there is work."""
    period = busy[chance.randrange(FIRST_PERIOD, min(len(busy), PERIODS_MAX))]
    return chance.uniform(period.begins, period.ends)


def busy_with(
    chance: Random, busy: Sequence[BusyPeriod], loss: Loss, terms: Terms
) -> tuple[BusyPeriod, ...]:
    """Return the busy periods up to a loss, one more, and some once others have taken over.

    The one more is when others would have taken over at the earliest if they did not wait for the
    removal.
    """
    at, in_force = loss.given_up_at, in_force_at(loss, terms)
    found = [period for period in busy if period.begins < at]
    soonest = at + seconds_to_wait(terms, terms) + AFTER_SECONDS
    for earliest in (min(soonest, in_force), *[in_force] * PERIODS_AFTER):
        begins = max(earliest, found[-1].ends) + chance.uniform(0.0, 300.0)
        found.append(BusyPeriod(begins, begins + chance.uniform(150.0, 350.0)))
    return tuple(found)


def operations_about(
    chance: Random, operations: Iterable[Operation], loss: Loss, span: float
) -> tuple[Operation, ...]:
    """Move many operations to shortly before a loss, most of them there, and some after it."""
    moved = [_about(chance, operation, loss, span) for operation in operations]
    return tuple(sorted(moved, key=lambda operation: operation.at))


def _about(chance: Random, operation: Operation, loss: Loss, span: float) -> Operation:
    region, at = operation.region, operation.at
    if chance.random() < ABOUT_SHARE:
        before = chance.expovariate(1 / ABOUT_SECONDS)
        at = max(0.0, min(loss.stops_at, loss.given_up_at) - before)
        region = chance.choice((loss.region, loss.region, region))
    elif chance.random() < AFTER_SHARE:
        at = chance.uniform(loss.stops_at, span)
    return replace(operation, at=at, region=region)


def outages_with(
    chance: Random,
    outages: Iterable[Outage],
    loss: Loss,
    at: float,
    after: tuple[float, float],
) -> tuple[Outage, ...]:
    """Return outages with those of the lost region's links, and some while others take over."""
    begins, ends = after
    found = [outage for outage in outages if outage.begins < ends]
    found += [Outage(at, 2 * ends, *link) for link in loss.cut_links]
    for source in loss.remaining:
        for target in loss.remaining:
            if source != target and chance.random() < AFTER_SHARE:
                moment = begins + chance.random() * TAKING_SECONDS
                found.append(Outage(moment, moment + chance.uniform(60.0, 600.0), source, target))
    return tuple(found)
