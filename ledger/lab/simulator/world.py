"""The regions of a global table: a replica each, and everything in flight between them.

A write is applied in its region under a stamp and sent to every other region over one link per
ordered pair, each item on its own: transactions too replicate item by item. Each item has its own
delay, so they arrive in any order; a paused link holds items back until it is healed. An arriving
item is applied only if its stamp is newer (last writer wins, whole items); deletes leave their
stamp behind as a tombstone. Conditions are evaluated on the local replica alone.

Sources: AWS, "How DynamoDB global tables work" (MREC): replication per item, asynchronous, last
writer wins; transactions are atomic in their own region only.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from ledger.core.entry import Item, Key
from ledger.runtime.clock import Clock
from ledger.store.memory import MemoryStore, Table
from ledger.store.port import Action, Applied, Check, Outcome

Link = tuple[str, str]
Stamp = tuple[float, str]
TRACE_LINES_MAX = 20_000
_TICK_SECONDS = 1e-6
_NO_STAMP: Stamp = (-1.0, "")


@dataclass(frozen=True, slots=True)
class Lag:
    """How long an item takes from one region to another.

    Usually up to `usual_seconds`; a share of `late_share` takes up to `late_seconds`.
    """

    usual_seconds: float = 1.0
    late_share: float = 0.1
    late_seconds: float = 60.0

    def draw(self, randomness: Random) -> float:
        """Draw the delay of one item on one link."""
        late = randomness.random() < self.late_share
        return randomness.random() * (self.late_seconds if late else self.usual_seconds)


SHORT_LAG = Lag(usual_seconds=0.5, late_share=0.0)


class Observer(Protocol):
    """Is notified of everything that happens to items; the auditor is one."""

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Handle a write that reached a region, whether or not a newer one was there already."""

    def changed(self, region: str, partition: str) -> None:
        """Handle a changed collection, after every item of the same transaction."""


class World:
    """All regions; no fault happens once `is_healed`, and every task unwinds once `is_over`.

    An eventually consistent read may be up to `staleness` seconds old. Transaction tokens are
    remembered for ten minutes of `clock`; without a clock, for good. `in_flight` counts the items
    sent to another region that have not arrived.
    """

    def __init__(
        self,
        regions: Sequence[str],
        *,
        loop: asyncio.AbstractEventLoop,
        randomness: Random,
        lag: Lag = SHORT_LAG,
        staleness: float = 0.0,
        server_skew_seconds: float = 0.0,
        page_items_max: int = 1000,
        is_traced: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.loop = loop
        self.random = randomness
        self.lag = lag
        self.staleness = staleness
        self.is_healed = False
        self.is_over = False
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self.observers: list[Observer] = []
        self.at_end: list[Callable[[], None]] = []
        self.down: set[str] = set()
        self.in_flight = 0
        self.replicas = {name: Replica(name, self, page_items_max, clock=clock) for name in regions}
        self._is_traced = is_traced
        self._server_off = {
            name: randomness.uniform(-server_skew_seconds, server_skew_seconds) for name in regions
        }
        self._stamps: dict[str, dict[Key, Stamp]] = {name: {} for name in regions}
        self._paused: dict[Link, list[Callable[[], None]]] = {}
        self._past: dict[str, dict[str, deque[tuple[float, str, Item | None]]]] = {
            name: {} for name in regions
        }

    def note(self, line: Callable[[], str]) -> None:
        """Add a line to the trace, if the run is traced."""
        if self._is_traced:
            self.trace.append(f"{self.loop.time():10.3f}  {line()}")

    def end_trace(self) -> None:
        """Stop tracing: the last line is the one that matters."""
        self._is_traced = False

    def pause(self, source: str, target: str) -> None:
        """Hold back everything that `source` sends to `target`."""
        self.note(lambda: f"link {source} -> {target} pauses")
        self._paused.setdefault((source, target), [])

    def heal(self, source: str, target: str) -> None:
        """Deliver everything held back on a link, soon and in any order."""
        held = self._paused.pop((source, target), None)
        if held is None:
            return
        self.note(lambda: f"link {source} -> {target} heals, {len(held)} items held back")
        for arrive in held:
            self.loop.call_later(self.lag.draw(self.random), arrive)

    def heal_all(self) -> None:
        """End every fault: links heal, regions return, delays are short."""
        self.note(lambda: "everything heals")
        self.is_healed = True
        self.lag = SHORT_LAG
        self.down.clear()
        for link in list(self._paused):
            self.heal(*link)

    def end(self) -> None:
        """End the run: every waiting task unwinds."""
        self.is_over = True
        for wake in self.at_end:
            wake()

    def written(self, region: str, changes: Sequence[tuple[Key, Item | None, Item | None]]) -> None:
        """Stamp, report and replicate what one request applied (key, before, after)."""
        for key, before, item in changes:
            self._written(region, key, before, item)
        for partition in dict.fromkeys(key[0] for key, _, _ in changes):
            self._changed(region, partition)

    def _written(self, region: str, key: Key, before: Item | None, item: Item | None) -> None:
        now = self.loop.time() + self._server_off[region]
        last = self._stamps[region].get(key, _NO_STAMP)
        stamp = (max(now, last[0] + _TICK_SECONDS), region)
        self._stamps[region][key] = stamp
        self._remember(region, key, before)
        self.note(lambda: f"{region} {described(key, item)}")
        self._notify(region, key, item)
        for target in self.replicas:
            if target != region:
                self._send((region, target), key, item, stamp)

    def table_at(self, region: str, partition: str, moment: Callable[[], float]) -> Table:
        """Return a partition as it was in the past; each item's moment is drawn by `moment`."""
        table = Table()
        items = dict(self.replicas[region].table.partitions.get(partition, {}))
        moments: dict[str, float] = {}
        for at, sort_key, before in reversed(self._past[region].get(partition, ())):
            if sort_key not in moments:
                moments[sort_key] = moment()
            if at <= moments[sort_key]:
                continue
            if before is None:
                items.pop(sort_key, None)
            else:
                items[sort_key] = before
        table.partitions[partition] = items
        return table

    def _send(self, link: Link, key: Key, item: Item | None, stamp: Stamp) -> None:
        self.in_flight += 1

        def arrive() -> None:
            held = self._paused.get(link)
            if held is not None:
                held.append(arrive)
            else:
                self._arrive(link, key, item, stamp)

        self.loop.call_later(self.lag.draw(self.random), arrive)

    def _arrive(self, link: Link, key: Key, item: Item | None, stamp: Stamp) -> None:
        self.in_flight -= 1
        self.steps += 1
        region = link[1]
        applied = stamp > self._stamps[region].get(key, _NO_STAMP)
        if applied:
            self._stamps[region][key] = stamp
            table = self.replicas[region].table
            self._remember(region, key, table.get(key))
            table.set(key, item)
        self.note(
            lambda: f"{region} <- {link[0]} {described(key, item)}{'' if applied else ' (older)'}"
        )
        self._notify(region, key, item)
        if applied:
            self._changed(region, key[0])

    def _remember(self, region: str, key: Key, before: Item | None) -> None:
        """Keep the previous item for as long as a stale read may return it."""
        if self.staleness <= 0:
            return
        past = self._past[region].setdefault(key[0], deque())
        now = self.loop.time()
        while past and past[0][0] < now - self.staleness:
            past.popleft()
        past.append((now, key[1], before))

    def _notify(self, region: str, key: Key, item: Item | None) -> None:
        for observer in self.observers:
            observer.arrived(region, key, item)

    def _changed(self, region: str, partition: str) -> None:
        for observer in self.observers:
            observer.changed(region, partition)


class Replica(MemoryStore):
    """One region's table: what is applied here is replicated to the others."""

    def __init__(
        self, region: str, world: World, page_items_max: int, *, clock: Clock | None = None
    ) -> None:
        super().__init__(region, page_items_max=page_items_max, clock=clock)
        self._world = world

    def _apply(self, actions: Sequence[Action]) -> Outcome:
        before = [self.table.get(action.key) for action in actions]
        outcome = super()._apply(actions)
        if isinstance(outcome, Applied):
            written = [
                (action.key, old, self.table.get(action.key))
                for action, old in zip(actions, before, strict=True)
                if not isinstance(action, Check)
            ]
            # Deleting an absent item changes nothing, and nothing is replicated.
            self._world.written(self.region, [one for one in written if one[1] or one[2]])
        return outcome


def described(key: Key, item: Item | None) -> str:
    """Return one line on an item, for a trace."""
    where = f"{key[0]} {key[1]}"
    if item is None:
        return f"delete {where}"
    shown = ("change", "version", "owner", "epoch", "home")
    parts = [f"put {where}"]
    parts += [f"{name}={next(iter(item[name].values()))}"[:60] for name in shown if name in item]
    if "merged" in item:
        parts.append(f"merged={len(item['merged']['B']) // 16}")
    return " ".join(parts)
