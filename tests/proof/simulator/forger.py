"""Worlds whose nets are signed, and a forger who may write what it likes, but has no key.

It puts nets of its own making in place of those of one counter, beside entries that bring
compactors there. No read may give what such a net says, from the first to the last, and no fold may
stand on one: it would be signed. Each process holds two keys, and signs by either, as in the middle
of a change of keys. Which seeds have a forger goes by a remainder, so that other worlds stay what
they were.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import permutations
from random import Random

import anyio

from ledger.core.entry import Item, entry_id, entry_item, net_item
from ledger.core.errors import ContractConflict, DamagedItem, ReadTooSlow, StoreError
from ledger.core.fold import collect
from ledger.core.signatures import SIGNATURE, TAG_BYTES, NetKey, NetKeys
from ledger.core.values import Entry, NetChange
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.wrappers.net_signatures import NetSigningStore
from proof.simulator.clocks import START
from proof.simulator.randomness import stream
from proof.simulator.stranger import OLD_SECONDS
from proof.simulator.supervisor import Supervisor

_OF, _PLACE = 9, 4
FORGED = "forged"
"""The counter whose nets are forged."""
ENTRIES, FORGERIES, READS = 4, 5, 8
SOON_SECONDS = 60.0
"""Within these the counter is read where a net was forged."""
AMOUNT = 10**6
"""What a forged net says; the entries are 1 each."""
_KEYS = tuple(NetKey(name, name.encode() * 16) for name in ("k1", "k2"))


def is_signed(seed: int) -> bool:
    """Return whether the nets of a seed's world are signed, and forged."""
    return seed % _OF == _PLACE


def keys_of(seed: int, process: str) -> NetKeys | None:
    """Return the keys that a process holds, in its order; None where nets are not signed."""
    if not is_signed(seed):
        return None
    order = stream(seed, f"{process} keys").choice([*permutations(_KEYS)])
    return NetKeys(order, required=True)


def signing(store: Store, seed: int, process: str) -> Store:
    """Return a store of a process that holds the keys, where nets are signed."""
    keys = keys_of(seed, process)
    return store if keys is None else NetSigningStore(store, keys)


def with_keys(settings: Settings, seed: int) -> Settings:
    """Return settings that name a key file, where nets are signed; the stores have its keys."""
    return settings.replace(signatures={"keys": "of the stores"}) if is_signed(seed) else settings


class Forger:
    """The forger of one world; `read` reads a total, and gives the region where that was done."""

    def __init__(
        self, supervisor: Supervisor, *, read: Callable[[str, str], Awaitable[tuple[str, Decimal]]]
    ) -> None:
        self._random = stream(supervisor.scenario.seed, "forger")
        self._supervisor, self._world = supervisor, supervisor.world
        self._read = read

    def start(self) -> None:
        """Start what the forger does, if there is one, and reads of its counter."""
        scenario = self._supervisor.scenario
        if not is_signed(scenario.seed):
            return
        self._supervisor.auditor.ignored.add(FORGED)
        for doing, times in ((self._write, ENTRIES), (self._forge, FORGERIES)):
            for _ in range(times):
                self._supervisor.start(doing, self._random.random() * scenario.busy[-1].ends)
        for _ in range(READS):
            region = self._random.choice(scenario.regions)
            self._supervisor.start(self._read_at, self._random.random() * scenario.span, region)

    async def read_all(self) -> None:
        """Read the counter in every region."""
        if is_signed(self._supervisor.scenario.seed):
            for region in self._supervisor.scenario.regions:
                await self._read_at(0.0, region)

    async def _write(self, at: float) -> None:
        """Record a change that is old enough to be merged at once."""
        await anyio.sleep(at)
        made = entry_id(START - timedelta(seconds=OLD_SECONDS), self._random.getrandbits(64))
        self._world.put(self._region(), entry_item(Entry(FORGED, str(made), Decimal(1))))

    async def _forge(self, at: float) -> None:
        await anyio.sleep(at)
        region = self._region()
        items = self._world.replicas[region].table.partitions.get(FORGED, {})
        nets = [items[key] for key in sorted(items) if "merged" in items[key]]
        self._world.put(region, forged_net(self._random, nets[-1] if nets else None))
        self._supervisor.start(self._read_at, self._random.random() * SOON_SECONDS, region)

    def _region(self) -> str:
        regions = [region for region in self._world.replicas if region not in self._world.lost]
        return self._random.choice(regions)

    async def _read_at(self, seconds: float, region: str) -> None:
        await anyio.sleep(seconds)
        try:
            region, total = await self._read(region, FORGED)
        except (StoreError, ReadTooSlow, ContractConflict, DamagedItem):
            return
        if not 0 <= total <= ENTRIES:
            self._supervisor.auditor.fail(
                "forged net", f"{region} gives {total} as the total of {FORGED}"
            )


def forged_net(chance: Random, found: Item | None) -> Item:
    """Return a net of a forger's making, whole and with a right digest, in place of what it found.

    It is unsigned, or has the signature of what was there, or one that was made up.
    """
    net = None if found is None else collect([found]).net
    if net is None:
        until = str(entry_id(START - timedelta(seconds=OLD_SECONDS), 0))
        net = NetChange(Decimal(0), 1, (), "forged", until, "nowhere")
    made = net_item(replace(net, change=net.change + AMOUNT), FORGED)
    tag = chance.randbytes(TAG_BYTES) + chance.choice(_KEYS).name.encode()
    signatures = [None, {"B": tag}, None if found is None else found.get(SIGNATURE)]
    signature = chance.choice(signatures)
    return made if signature is None else {**made, SIGNATURE: signature}
