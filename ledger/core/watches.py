"""Watches: a bound on the totals of some counters, and the state machine of its crossings.

A counter that is watched is in one of three phases, kept in one item at home::

            past the bound                delivered
    ARMED ──────────────────> CROSSED ──────────────────> DELIVERED
      ^                        │    ^                          │
      │                        └────┘ again, by another        │
      └────────────────────────────────────────────────────────┘
                       back past `rearm`

Every arrow is one conditional write: it finds the item with the stamp that was read, or changes
nothing. The first arrow numbers the crossing, so it is decided once, however many processes see the
total. It is delivered by the process that decided it; if that one dies first, the item stays
CROSSED, and the next process that looks claims it and delivers the same number.

The item: pk `~watch~` + watch, sk counter; `phase`, `number`, `value`, `at`, `claimed`, `stamp`.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from fnmatch import fnmatchcase
from typing import Literal

from ledger.core import amounts, keys
from ledger.core.entry import AttributeValue, Item, Key, damaged, number_of
from ledger.core.errors import InvalidInput
from ledger.core.visible import is_visible

NAME_BYTES_MAX = 255
_WILD = frozenset("*?[")
Side = Literal["below", "above"]


@dataclass(frozen=True, slots=True)
class Watch:
    """A bound on the total of every counter that matches the pattern `counters`.

    A total is past the bound when it is less (`below`) or more (`above`) than it. It is back when
    it is at `rearm` or past it in the other direction.
    """

    name: str
    counters: str
    side: Side
    bound: Decimal
    rearm: Decimal

    @staticmethod
    def of(
        name: str | None,
        counters: str,
        *,
        below: int | Decimal | None = None,
        above: int | Decimal | None = None,
        rearm: int | Decimal | None = None,
    ) -> "Watch":
        """Return the watch of one bound, armed again at the bound itself unless `rearm` is given.

        Without a name it is named by its pattern and its bound.

        Raises:
            InvalidInput: a name or a pattern breaks a rule, not exactly one bound is given, or
                `rearm` lies past the bound.
            InvalidAmount, AmountOverflow: a bound is not an exact amount.
        """
        given = below if above is None else above
        if given is None or (below is not None and above is not None):
            raise InvalidInput("a watch has one bound, either below or above")
        side: Side = "below" if above is None else "above"
        bound = amounts.exact(given)
        back = bound if rearm is None else amounts.exact(rearm)
        if back != bound and (back < bound) == (side == "below"):
            raise InvalidInput(
                f"rearm ({amounts.to_text(back)}) must not be {side} the bound"
                f" ({amounts.to_text(bound)}): a crossing would end before it began"
            )
        called = f"{counters} {side} {amounts.to_text(bound)}" if name is None else name
        for what, text in (("the pattern", counters), ("the name", called)):
            _check_text(f"{what} of a watch", text)
        if counters.startswith(keys.RESERVED):
            raise InvalidInput(
                f"the pattern of a watch must not begin with {keys.RESERVED!r}, as no counter does,"
                f" got {counters!r}"
            )
        return Watch(called, counters, side, bound, back)

    @property
    def counter(self) -> str | None:
        """The only counter that matches; None if the pattern has a wildcard."""
        return None if _WILD & set(self.counters) else self.counters

    def matches(self, counter: str) -> bool:
        """Return whether a counter is watched."""
        return fnmatchcase(counter, self.counters)

    def is_past(self, total: Decimal) -> bool:
        """Return whether a total is past the bound."""
        return total < self.bound if self.side == "below" else total > self.bound

    def is_back(self, total: Decimal) -> bool:
        """Return whether a total ends a crossing."""
        return total >= self.rearm if self.side == "below" else total <= self.rearm


def _check_text(what: str, text: object) -> None:
    is_text = isinstance(text, str) and is_visible(text)
    if not is_text or not 0 < len(str(text).encode()) <= NAME_BYTES_MAX:
        raise InvalidInput(f"{what} must have 1 to {NAME_BYTES_MAX} printable bytes, got {text!r}")


class Phase(StrEnum):
    """Where a watched counter stands."""

    ARMED = "armed"
    CROSSED = "crossed"
    DELIVERED = "delivered"


@dataclass(frozen=True, slots=True)
class WatchState:
    """The state in the item of a watched counter; without an item it is armed and has no stamp.

    `number` counts its crossings. Of the latest, `value` is the total that was past the bound, `at`
    when it was decided, and `claimed` when a process last began to deliver it.
    """

    phase: Phase = Phase.ARMED
    number: int = 0
    value: Decimal = Decimal(0)
    at: datetime | None = None
    claimed: datetime | None = None
    stamp: str = ""

    def crossed(self, value: Decimal, *, at: datetime, stamp: str) -> "WatchState":
        """Return the state of the next crossing, claimed by the process that decides it."""
        return WatchState(Phase.CROSSED, self.number + 1, value, at, at, stamp)

    def claimed_again(self, *, at: datetime, stamp: str) -> "WatchState":
        """Return the state of a crossing that another process delivers."""
        return replace(self, claimed=at, stamp=stamp)

    def entered(self, phase: Phase, *, stamp: str) -> "WatchState":
        """Return the state of a crossing that was delivered, or is over."""
        return replace(self, phase=phase, stamp=stamp)


@dataclass(frozen=True, slots=True)
class Crossing:
    """A total went past the bound of a watch.

    `id` is the same at each delivery; `repeated` means that an earlier delivery was not confirmed.
    `value` is the total as the home region showed it, `at` when it was decided.
    """

    watch: str
    counter: str
    number: int
    side: Side
    bound: Decimal
    value: Decimal
    at: datetime | None
    repeated: bool = False

    @property
    def id(self) -> str:
        """The permanent id of this crossing, for receivers that act once."""
        return f"{self.watch}#{self.number}#{self.counter}"

    @property
    def sentence(self) -> str:
        """The crossing in one line."""
        return (
            f"watch {self.watch!r}: {self.counter!r} is {amounts.to_text(self.value)},"
            f" {self.side} {amounts.to_text(self.bound)} (crossing {self.number})"
        )


class Step(Enum):
    """The next action for a watched counter."""

    NOTHING = "nothing"
    CROSS = "cross"
    DELIVER = "deliver"
    REARM = "rearm"


def decide(
    watch: Watch, state: WatchState, total: Decimal, *, now: datetime, repeat_after: timedelta
) -> Step:
    """Return the action for a total that was read after the state was.

    A crossing whose delivery was begun `repeat_after` ago and not confirmed is delivered again.
    """
    match state.phase:
        case Phase.ARMED if watch.is_past(total):
            return Step.CROSS
        case Phase.CROSSED if state.claimed is None or abs(now - state.claimed) >= repeat_after:
            return Step.DELIVER
        case Phase.DELIVERED if watch.is_back(total):
            return Step.REARM
    return Step.NOTHING


def crossing_of(
    watch: Watch, counter: str, state: WatchState, *, repeated: bool = False
) -> Crossing:
    """Return the latest crossing of a state, as it is delivered."""
    return Crossing(
        watch=watch.name,
        counter=counter,
        number=state.number,
        side=watch.side,
        bound=watch.bound,
        value=state.value,
        at=state.at,
        repeated=repeated,
    )


def watch_partition(name: str) -> str:
    """Return the partition key of a watch: that of the states of all its counters."""
    return f"{keys.WATCH_PREFIX}{name}"


def state_key(name: str, counter: str) -> Key:
    """Return the key of the state of a watched counter."""
    return watch_partition(name), counter


def state_item(key: Key, state: WatchState) -> dict[str, AttributeValue]:
    """Return the item of a state."""
    times = {"at": state.at, "claimed": state.claimed}
    return {
        "pk": {"S": key[0]},
        "sk": {"S": key[1]},
        "phase": {"S": state.phase.value},
        "number": {"N": str(state.number)},
        "value": {"N": amounts.to_text(state.value)},
        "stamp": {"S": state.stamp},
        **{name: {"S": time.isoformat()} for name, time in times.items() if time is not None},
    }


def state_of(item: Item | None) -> WatchState:
    """Return the state in an item; the initial state without one.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    if item is None:
        return WatchState()
    try:
        return WatchState(
            phase=Phase(item["phase"]["S"]),
            number=int(number_of(item, "number")),
            value=number_of(item, "value"),
            at=_time(item, "at"),
            claimed=_time(item, "claimed"),
            stamp=item["stamp"]["S"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(item, f"not a state of a watch: {error}") from None


def _time(item: Item, name: str) -> datetime | None:
    return datetime.fromisoformat(item[name]["S"]) if name in item else None
