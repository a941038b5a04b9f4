"""The replicas of a global table: last writer wins, item by item, deletes with tombstones.

A write is applied in its region under a stamp and sent to every other region over one link per
ordered pair, each item on its own: transactions too replicate item by item. An arriving item is
applied only if its stamp is newer (last writer wins, whole items); deletes leave their stamp behind
as a tombstone. Conditions are evaluated on the local replica alone. When an item arrives is decided
by the subclasses: `manual.ManualWorld` delivers on call, the simulator's draws delays.

Sources: AWS, "How DynamoDB global tables work" (MREC): replication per item, asynchronous, last
writer wins; transactions are atomic in their own region only.

Replicas without delays or faults of their own: the caller delivers what has been written.

For tests that choose the order of events themselves. Links can be paused; what is delivered, and in
which order, is up to the caller or drawn at random.

The way from a program to a region's endpoint, which a test can cut.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import NamedTuple, Protocol

from ledger.core.entry import Item, Key
from ledger.core.errors import Unreachable
from ledger.core.fold import Collection, collect
from ledger.reads.feed.memory import MemoryStream
from ledger.runtime.clock import Clock
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.reads import Page, Query
from ledger.store.wrappers.forwarder import Answer, ForwardingStore, Operation
from ledger.store.writes import Action, Applied, Check, InTable, Outcome

Link = tuple[str, str]
Stamp = tuple[float, str]
Written = tuple[Key, Item | None, Item | None]
"""A key, the item before, and the item now."""
_NO_STAMP: Stamp = (-1.0, "")


class Observer(Protocol):
    """Is notified of everything that happens to items; the auditor is one."""

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Handle a write that reached a region, whether or not a newer one was there already."""

    def changed(self, region: str, partition: str) -> None:
        """Handle a changed collection, after every item of the same transaction."""


class Transit(NamedTuple):
    """An item in flight; `item` is None for a delete."""

    link: Link
    key: Key
    item: Item | None
    stamp: Stamp


class Replicas(ABC):
    """The replicas of one table; `in_flight` counts items that have not arrived yet.

    Once a world `is_over` its tasks unwind, and an observer judges nothing any more.
    """

    def __init__(
        self, regions: Sequence[str], *, page_items_max: int = 1000, clock: Clock | None = None
    ) -> None:
        self.steps: int = 0
        self.in_flight: int = 0
        self.is_over: bool = False
        self.observers: list[Observer] = []
        self.replicas: dict[str, Replica] = {
            name: self._replica(name, page_items_max=page_items_max, clock=clock)
            for name in regions
        }
        self._stamps: dict[str, dict[Key, Stamp]] = {name: {} for name in regions}

    def _replica(self, region: str, *, page_items_max: int, clock: Clock | None) -> "Replica":
        return Replica(region, self, page_items_max=page_items_max, clock=clock)

    @abstractmethod
    def time(self) -> float:
        """Return the seconds since the beginning of this world."""

    def note(self, line: Callable[[], str]) -> None:  # noqa: B027 (a world may have no trace)
        """Add a line to the trace, if there is one."""

    def end_trace(self) -> None:  # noqa: B027 (as `note`)
        """Stop tracing: the last line is the one that matters."""

    def put(self, region: str, item: Item) -> None:
        """Write an item in a region unconditionally, as another tool would, and replicate it."""
        self.set(region, (item["pk"]["S"], item["sk"]["S"]), item)

    def set(self, region: str, key: Key, item: Item | None) -> None:
        """Write or delete an item in a region unconditionally, and replicate that."""
        table = self.replicas[region].table
        before = table.get(key)
        table.set(key, item)
        self.written(region, [(key, before, item)])

    def stamp_of(self, region: str, key: Key) -> Stamp:
        """Return the stamp of what a region shows of an item, also of its absence."""
        return self._stamps[region].get(key, _NO_STAMP)

    def collection(self, region: str, partition: str) -> Collection:
        """Return a collection as one region shows it at this moment."""
        return collect(self.replicas[region].table.partitions.get(partition, {}).values())

    def written(self, region: str, changes: Sequence[Written]) -> None:
        """Stamp, report and replicate what one request applied."""
        for key, before, item in changes:
            self._written(region, key, before, item)
        for partition in dict.fromkeys(key[0] for key, _, _ in changes):
            self._changed(region, partition)

    def _written(self, region: str, key: Key, before: Item | None, item: Item | None) -> None:
        stamp = self._stamp(region, self._stamps[region].get(key, _NO_STAMP))
        self._stamps[region][key] = stamp
        self._remember(region, key, before)
        self._applied(region, key, before, item)
        self.note(lambda: f"{region} {described(key, item)}")
        self._notify(region, key, item)
        for target in self.replicas:
            if target != region:
                self.in_flight += 1
                self._send(Transit((region, target), key, item, stamp))

    @abstractmethod
    def _stamp(self, region: str, last: Stamp) -> Stamp:
        """Return the stamp of a write in a region, newer than the item's last one there."""

    @abstractmethod
    def _send(self, transit: Transit) -> None:
        """Schedule the arrival of an item."""

    def _remember(  # noqa: B027 (without stale reads there is nothing to keep)
        self, region: str, key: Key, before: Item | None
    ) -> None:
        """Store what a write replaces, if reads may be stale."""

    def _applied(  # noqa: B027 (not every world has streams)
        self, region: str, key: Key, before: Item | None, item: Item | None
    ) -> None:
        """Record what a region applied, in its order, if its stream is kept."""

    def _arrive(self, transit: Transit) -> None:
        link, key, item, stamp = transit
        self.in_flight -= 1
        self.steps += 1
        region = link[1]
        applied = stamp > self._stamps[region].get(key, _NO_STAMP)
        if applied:
            self._stamps[region][key] = stamp
            table = self.replicas[region].table
            before = table.get(key)
            self._remember(region, key, before)
            table.set(key, item)
            self._applied(region, key, before, item)
        self.note(
            lambda: f"{region} <- {link[0]} {described(key, item)}{'' if applied else ' (older)'}"
        )
        self._notify(region, key, item)
        if applied:
            self._changed(region, key[0])

    def _never_arrive(self, transit: Transit) -> None:
        """Forget an item on its way to, or from, a region that is lost."""
        self.in_flight -= 1
        self.note(lambda: f"{' -> '.join(transit.link)} loses {described(*transit[1:3])}")

    def _notify(self, region: str, key: Key, item: Item | None) -> None:
        for observer in self.observers:
            observer.arrived(region, key, item)

    def _changed(self, region: str, partition: str) -> None:
        for observer in self.observers:
            observer.changed(region, partition)


class Replica(MemoryStore):
    """One region's table: what is applied here is replicated to the others.

    What is in further tables of the region stays in it.
    """

    def __init__(
        self, region: str, world: Replicas, *, page_items_max: int, clock: Clock | None = None
    ) -> None:
        super().__init__(region, page_items_max=page_items_max, clock=clock)
        self._world = world

    def _apply(self, actions: Sequence[Action]) -> Outcome:
        own = [action for action in actions if not isinstance(action, InTable)]
        before = [self.table.get(action.key) for action in own]
        outcome = super()._apply(actions)
        if isinstance(outcome, Applied):
            written = [
                (action.key, old, self.table.get(action.key))
                for action, old in zip(own, before, strict=True)
                if not isinstance(action, Check)
            ]
            # Deleting an absent item changes nothing, and nothing is replicated.
            self._world.written(
                self.region, [change for change in written if change[1] or change[2]]
            )
        return outcome


def described(key: Key, item: Item | None) -> str:
    """Return one line on an item, for a trace."""
    where = f"{key[0]} {key[1]}"
    if item is None:
        return f"delete {where}"
    shown = ("change", "version", "owner", "epoch", "home", "grant", "hold", "resolved", "charged")
    parts = [f"put {where}"]
    parts += [f"{name}={next(iter(item[name].values()))}"[:60] for name in shown if name in item]
    if "merged" in item:
        parts.append(f"merged={len(item['merged']['B']) // 16}")
    return " ".join(parts)


DRAWS = 3
"""One in this many draws delivers the newest item, so that now and then an old one is very late."""


async def nothing() -> None:
    """Do nothing before a page is read."""


class ManualWorld(Replicas):
    """Replicas of some regions, and queues of the items in flight between them.

    `before_page` is awaited before every page of a Query, so that a test can let anything happen in
    the middle of a read. Without a `clock` no time passes. What a region applies is in its stream,
    if it has one in `streams`.
    """

    def __init__(
        self,
        regions: Sequence[str],
        *,
        randomness: Random,
        page_items_max: int = 1000,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(regions, page_items_max=page_items_max, clock=clock)
        self.random = randomness
        self.links: dict[Link, list[Transit]] = {
            (source, target): [] for source in regions for target in regions if source != target
        }
        self.paused: set[Link] = set()
        self.before_page: Callable[[], Awaitable[None]] = nothing
        self.streams: dict[str, MemoryStream] = {}
        self._clock = clock
        self._writes = 0

    def _replica(self, region: str, *, page_items_max: int, clock: Clock | None) -> Replica:
        return ManualReplica(region, self, page_items_max=page_items_max, clock=clock)

    def time(self) -> float:
        """Return the monotonic seconds of the clock."""
        return 0.0 if self._clock is None else self._clock.monotonic()

    def pause(self, source: str, target: str) -> None:
        """Hold back everything that one region sends to another."""
        self.paused.add((source, target))

    def isolate(self, region: str) -> None:
        """Hold back everything sent to and from a region."""
        self.paused |= {link for link in self.links if region in link}

    def heal(self) -> None:
        """Resume every link."""
        self.paused.clear()

    def deliver(self, most: int | None = None) -> int:
        """Deliver up to `most` items (None: all) over open links, in random order; return how many.

        Each time the link is drawn, and which of its items comes next.
        """
        delivered = 0
        while most is None or delivered < most:
            links = [link for link, sent in self.links.items() if sent and link not in self.paused]
            if not links:
                break
            queue = self.links[self.random.choice(links)]
            place = max(self.random.randrange(len(queue)) for _ in range(DRAWS))
            self._arrive(queue.pop(place))
            delivered += 1
        return delivered

    def deliver_only(self, is_wanted: Callable[[Link, Key], bool]) -> None:
        """Deliver the items chosen by link and key, paused or not, in the order of writing."""
        for link, queue in self.links.items():
            for transit in [waiting for waiting in queue if is_wanted(link, waiting.key)]:
                queue.remove(transit)
                self._arrive(transit)

    def _applied(self, region: str, key: Key, before: Item | None, item: Item | None) -> None:
        stream = self.streams.get(region)
        if stream is not None:
            stream.changed(key, before, item)

    def _stamp(self, region: str, last: Stamp) -> Stamp:
        del last
        self._writes += 1
        return float(self._writes), region

    def _send(self, transit: Transit) -> None:
        self.links[transit.link].append(transit)


class ManualReplica(Replica):
    """One region's table, with a hook before each page of a Query."""

    _world: ManualWorld

    async def query(self, query: Query) -> Page:
        """Read one page, after whatever happens before it."""
        await self._world.before_page()
        return await super().query(query)


class CutStore(ForwardingStore):
    """Forwards requests; while `is_cut` each raises `Unreachable`, and nothing arrives."""

    def __init__(self, inner: Store, is_cut: Callable[[], bool]) -> None:
        super().__init__(inner)
        self._is_cut = is_cut

    async def _carry(
        self, operation: Operation, request: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        if self._is_cut():
            raise Unreachable(f"{self.region} cannot be reached: a test cut the way to it")
        return await super()._carry(operation, request)
