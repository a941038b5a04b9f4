"""A stranger writes an item that cannot be counted into a collection of its own.

Reads of that collection must fail wherever the item is, and a pass must go on with all others. An
old entry beside it makes the collection due. Which seeds have one goes by a remainder, so that the
worlds of others stay what they were.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from random import Random

import anyio

from ledger.core.entry import Item, Key, entry_id, entry_item, net_item
from ledger.core.errors import ContractConflict, DamagedItem, ReadTooSlow, StoreError
from ledger.core.values import Entry, NetChange
from proof.simulator.clocks import START
from proof.simulator.randomness import stream
from proof.simulator.supervisor import Supervisor

_OF, _PLACE = 7, 6
STRANGE = "stranger"
"""The counter that only strangers write."""
READS = 4
OLD_SECONDS = 10_000.0


def is_strange(seed: int) -> bool:
    """Return whether a stranger writes in the world of a seed."""
    return seed % _OF == _PLACE


class Stranger:
    """The stranger of one world; `read` reads a counter in a region, or in one that is not lost."""

    def __init__(
        self, supervisor: Supervisor, *, read: Callable[[str, str], Awaitable[tuple[str, Decimal]]]
    ) -> None:
        self._supervisor = supervisor
        self._world = supervisor.world
        self._auditor = supervisor.auditor
        self._read = read
        self._random = stream(supervisor.scenario.seed, "stranger")
        self._since: dict[str, float] = {}
        self._bad: Key | None = None

    def start(self) -> None:
        """Start what the stranger does, if there is one."""
        scenario = self._supervisor.scenario
        if not is_strange(scenario.seed):
            return
        self._auditor.ignored.add(STRANGE)
        self._world.observers.append(self)
        self._supervisor.start(self._write, self._random.random() * scenario.busy[-1].begins)
        for _ in range(READS):
            region = self._random.choice(scenario.regions)
            self._supervisor.start(self._read_at, self._random.random() * scenario.span, region)

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Remember since when a region has the bad item; a lost region's may be superseded."""
        if key != self._bad:
            return
        if item is not None:
            self._since.setdefault(region, self._world.time())
        elif self._world.lost:
            self._since.pop(region, None)

    def changed(self, region: str, partition: str) -> None:
        """Ignore the change: nothing else is written there."""

    async def read_all(self) -> None:
        """Read the collection in every region."""
        for region in self._supervisor.scenario.regions:
            await self._read_at(0.0, region)

    async def _write(self, at: float) -> None:
        await anyio.sleep(at)
        regions = [region for region in self._world.replicas if region not in self._world.lost]
        region = self._random.choice(regions)
        old = entry_id(START - timedelta(seconds=OLD_SECONDS), self._random.getrandbits(64))
        self._world.put(region, entry_item(Entry(STRANGE, str(old), Decimal(1))))
        bad = bad_item(self._random)
        self._bad = (bad["pk"]["S"], bad["sk"]["S"])
        self._world.put(region, bad)

    async def _read_at(self, seconds: float, region: str) -> None:
        await anyio.sleep(seconds)
        began = self._world.time()
        try:
            region, _ = await self._read(region, STRANGE)
        except (StoreError, ReadTooSlow, ContractConflict, DamagedItem):
            return
        if self._since.get(region, began) < began - self._world.staleness:
            self._auditor.fail("bad item", f"{region} gives a total of {STRANGE}")


def bad_item(chance: Random) -> Item:
    """Draw an item that cannot be counted: no amount, or a net that lost some of its bytes."""
    entry = str(entry_id(START - timedelta(seconds=OLD_SECONDS), chance.getrandbits(64)))
    net = net_item(
        NetChange(
            change=Decimal(2), count=2, merged=(), version="strange", until=entry, home="nowhere"
        ),
        STRANGE,
    )
    key = {"pk": {"S": STRANGE}}
    return chance.choice(
        (
            {**key, "sk": {"S": "zzz"}, "change": {"S": "oops"}},
            {**key, "sk": {"S": entry}, "change": {"S": "oops"}},
            {name: value for name, value in net.items() if name != "digest"},
            {**net, "merged": {"B": b"\0" * 15}},
            {**net, "change": {"N": "3"}},
        )
    )
