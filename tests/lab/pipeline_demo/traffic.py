"""Messages of the demo from a seed, and their sums, computed without the pipeline's code."""

import heapq
from array import array
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import NamedTuple

from lab.pipeline_demo.options import DESKS, PLACES, RISKS, PipelineDemoOptions

WINDOW = 2_000
"""Messages that one can be delayed by, and among which the duplicates are chosen."""
RECENT_SHARE = 0.5
"""Of the messages that are of a trade seen among the last `WINDOW`: corrections come soon."""
MOVED_SHARE = 0.02
"""Of the corrections that bring the trade to another place."""
CENTS_MAX = 10**9
LEAVES = tuple((risk, place, desk) for risk in RISKS for place in PLACES for desk in DESKS)
_MALFORMED = (
    '{{"TradeID":"{0}","Version":1,"Timestamp":"{1}"}}',
    '{{"TradeID":"{0}","Version":1,"Value":"much","Timestamp":"{1}","Hierarchy":{{}}}}',
    '{{"TradeID":"{0}","Version":1.5,"Value":1,"Timestamp":"{1}","Hierarchy":{{}}}}',
    '{{"TradeID":"{0}","Version":1,"Value":1,"Time',
)


class Message(NamedTuple):
    """One message: the lane that it comes through, and what it says; version 0 is malformed."""

    lane: int
    trade: int
    version: int
    cents: int
    leaf: int
    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of the messages; `crossing` ones come through another region than their home."""

    duplicate: float = 0.05
    delayed: float = 0.05
    crossing: float = 0.1
    malformed: float = 0.001


USUAL = Shares()


class Traffic:
    """The messages of one run, and the totals of those that were sent.

    `now` is the timestamp that the next messages carry, `malformed` how many were malformed. Takes
    18 bytes of memory for each trade, however many messages there are.
    """

    def __init__(
        self, options: PipelineDemoOptions, draw: Random, *, shares: Shares = USUAL
    ) -> None:
        self.now = ""
        self.malformed = 0
        self._options = options
        self._draw = draw
        self._shares = shares
        trades = options.trades
        self._versions = array("I", bytes(4 * trades))
        self._leaves = bytearray(trades)
        self._recent: deque[Message] = deque(maxlen=WINDOW)
        self._delayed: list[tuple[int, int, Message]] = []
        self._counted = array("I", bytes(4 * trades))
        self._cents = array("q", bytes(8 * trades))
        self._counted_leaves = bytearray(trades)
        self._sums = [0] * len(LEAVES)

    def messages(self) -> Iterator[Message]:
        """Yield all messages, each made when it is asked for; it then counts as sent."""
        draw = self._draw
        sent = made = 0
        while sent < self._options.messages:
            is_last = sent + len(self._delayed) >= self._options.messages
            if self._delayed and (is_last or self._delayed[0][0] <= sent):
                message = heapq.heappop(self._delayed)[2]
            elif self._recent and draw.random() < self._shares.duplicate:
                message = draw.choice(self._recent)
            else:
                message, made = self._made(), made + 1
                if message.version and draw.random() < self._shares.delayed:
                    heapq.heappush(self._delayed, (sent + draw.randrange(WINDOW), made, message))
                    continue
            self._recent.append(message)
            self._add(message)
            sent += 1
            yield message

    def expected(self) -> Mapping[str, Decimal]:
        """Return the total of each category once all that was sent is counted."""
        found = Counter[str]()
        for (risk, place, desk), cents in zip(LEAVES, self._sums, strict=True):
            for name in (f"risk/{risk}", f"risk/{risk}/{place}", f"risk/{risk}/{place}/{desk}"):
                found[name] += cents
        return {name: Decimal(in_units(cents)) for name, cents in sorted(found.items())}

    def _add(self, message: Message) -> None:
        """Count a message: the newest version of each trade counts, in whole cents."""
        if not message.version:
            self.malformed += 1
            return
        trade = message.trade
        if message.version > self._counted[trade]:
            self._sums[self._counted_leaves[trade]] -= self._cents[trade]
            self._sums[message.leaf] += message.cents
            self._counted[trade], self._cents[trade] = message.version, message.cents
            self._counted_leaves[trade] = message.leaf

    def _made(self) -> Message:
        """Make the next version of some trade, or a malformed message."""
        draw = self._draw
        if self._recent and draw.random() < RECENT_SHARE:
            trade = draw.choice(self._recent).trade
        else:
            trade = draw.randrange(self._options.trades)
        name, lane = f"{trade % self._options.regions}-{trade:08d}", self._lane(trade)
        if draw.random() < self._shares.malformed:
            line = draw.choice(_MALFORMED).format(name, self.now)
            return Message(lane, trade, 0, 0, 0, f"{line}\n".encode())
        self._versions[trade] += 1
        version = self._versions[trade]
        if version == 1 or draw.random() < MOVED_SHARE:
            self._leaves[trade] = draw.randrange(len(LEAVES))
        leaf, cents = self._leaves[trade], draw.randrange(-CENTS_MAX, CENTS_MAX)
        risk, place, desk = LEAVES[leaf]
        line = (
            f'{{"TradeID":"{name}","Version":{version},"Value":{in_units(cents)}'
            f',"Timestamp":"{self.now}","Hierarchy":{{"RiskType":"{risk}","Region":"{place}"'
            f',"Desk":"{desk}"}}}}\n'
        )
        return Message(lane, trade, version, cents, leaf, line.encode())

    def _lane(self, trade: int) -> int:
        """Return the lane of a message: one of the trade's home, or of another region."""
        regions, lanes = self._options.regions, self._options.lanes
        place = trade % regions
        if regions > 1 and self._draw.random() < self._shares.crossing:
            place = (place + self._draw.randrange(1, regions)) % regions
        return place * lanes + trade // regions % lanes


def in_units(cents: int) -> str:
    """Return an amount in cents as a decimal number."""
    whole, part = divmod(abs(cents), 100)
    return f"{'-' * (cents < 0)}{whole}.{part:02d}"
