"""Messages of the demo from a seed: versions of trades; duplicate, delayed, malformed ones.

What is kept is bounded: the newest version of each trade, and the last `WINDOW` messages, which
are those that come twice and those that are delayed.
"""

import heapq
from array import array
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from ledger.lab.demos.pipeline.options import DESKS, PLACES, RISKS, PipelineDemoOptions

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


class Traffic:
    """The messages of one run.

    `now` gives the timestamp that a message carries.
    """

    def __init__(self, options: PipelineDemoOptions, draw: Random) -> None:
        self.now = ""
        self._options = options
        self._draw = draw
        self._versions = array("L", bytes(array("L").itemsize * options.trade_count))
        self._leaves = array("H", bytes(array("H").itemsize * options.trade_count))
        self._recent: deque[Message] = deque(maxlen=WINDOW)
        self._delayed: list[tuple[int, int, Message]] = []

    def messages(self) -> Iterator[Message]:
        """Yield all messages, each made when it is asked for."""
        options, draw = self._options, self._draw
        sent = made = 0
        while sent < options.messages:
            is_last = sent + len(self._delayed) >= options.messages
            if self._delayed and (is_last or self._delayed[0][0] <= sent):
                message = heapq.heappop(self._delayed)[2]
            elif self._recent and draw.random() < options.duplicate:
                message = draw.choice(self._recent)
            else:
                message, made = self._made(), made + 1
                if message.version and draw.random() < options.delayed:
                    heapq.heappush(self._delayed, (sent + draw.randrange(WINDOW), made, message))
                    continue
            self._recent.append(message)
            sent += 1
            yield message

    def _made(self) -> Message:
        """Make the next version of some trade, or a malformed message."""
        draw = self._draw
        if self._recent and draw.random() < RECENT_SHARE:
            trade = draw.choice(self._recent).trade
        else:
            trade = draw.randrange(len(self._versions))
        name, lane = self._name(trade), self._lane(trade)
        if draw.random() < self._options.malformed:
            line = draw.choice(_MALFORMED).format(name, self.now)
            return Message(lane, trade, 0, 0, 0, f"{line}\n".encode())
        version = self._versions[trade] = self._versions[trade] + 1
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

    def _name(self, trade: int) -> str:
        """Return a trade's id; its first digit is the number of its home."""
        return f"{trade % self._options.regions}-{trade:08d}"

    def _lane(self, trade: int) -> int:
        """Return the lane of a message: one of the trade's home, or of another region."""
        regions, lanes = self._options.regions, self._options.lanes
        place = trade % regions
        if regions > 1 and self._draw.random() < self._options.crossing:
            place = (place + self._draw.randrange(1, regions)) % regions
        return place * lanes + trade // regions % lanes


def in_units(cents: int) -> str:
    """Return an amount in cents as a decimal number."""
    whole, part = divmod(abs(cents), 100)
    return f"{'-' * (cents < 0)}{whole}.{part:02d}"
