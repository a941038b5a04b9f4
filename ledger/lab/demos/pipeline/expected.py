"""What the messages of the demo add up to, computed independently of the pipeline's code."""

from array import array
from collections.abc import Mapping
from decimal import Decimal

from ledger.lab.demos.pipeline.options import PipelineDemoOptions
from ledger.lab.demos.pipeline.traffic import LEAVES, Message, in_units


class ExpectedTotals:
    """The newest version of each trade that was sent: whole cents, a few bytes a trade."""

    def __init__(self, options: PipelineDemoOptions) -> None:
        self.malformed = 0
        self._versions = array("L", bytes(array("L").itemsize * options.trade_count))
        self._cents = array("q", bytes(array("q").itemsize * options.trade_count))
        self._leaves = array("H", bytes(array("H").itemsize * options.trade_count))
        self._sums = [0] * len(LEAVES)

    def add(self, message: Message) -> None:
        """Add a message that was sent."""
        trade, version = message.trade, message.version
        if not version:
            self.malformed += 1
        elif version > self._versions[trade]:
            self._sums[self._leaves[trade]] -= self._cents[trade]
            self._sums[message.leaf] += message.cents
            self._versions[trade] = version
            self._cents[trade] = message.cents
            self._leaves[trade] = message.leaf

    def totals(self) -> Mapping[str, Decimal]:
        """Return the total of each category once all that was sent is counted."""
        found: dict[str, int] = {}
        for (risk, place, desk), cents in zip(LEAVES, self._sums, strict=True):
            for name in (f"risk/{risk}", f"risk/{risk}/{place}", f"risk/{risk}/{place}/{desk}"):
                found[name] = found.get(name, 0) + cents
        return {name: Decimal(in_units(cents)) for name, cents in sorted(found.items())}
