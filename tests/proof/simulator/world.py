"""The simulated world: replicas with random delays, partitions, stale reads, and virtual time.

Each item has its own delay, so items arrive in any order; a paused link holds items back until it
is healed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from ledger.core.entry import Item, Key
from ledger.runtime.clock import Clock
from ledger.store.memory import MemoryTable
from ledger.testing.replicas import Link, Replicas, Stamp, Transit
from proof.simulator.losses import Loss

TRACE_LINES_MAX = 20_000
_TICK_SECONDS = 1e-6


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


SIGNATURE_SECONDS = 900.0
"""How long the world takes a signature for valid, as AWS does (`ledger.settings.model` has the
source); a fact of the world, which the settings may believe to be otherwise."""
SHORT_LAG = Lag(usual_seconds=0.5, late_share=0.0)


@dataclass(frozen=True, slots=True)
class WorldFacts:
    """How late the world of a run is; the settings may believe it to be otherwise.

    An eventually consistent read may be up to `staleness` seconds old. A server's clock is off by
    up to `server_skew_seconds`. A request may arrive up to `signature_seconds` after the time in
    its signature.
    """

    lag: Lag = SHORT_LAG
    staleness: float = 0.0
    server_skew_seconds: float = 0.0
    signature_seconds: float = SIGNATURE_SECONDS


_FACTS = WorldFacts()


class World(Replicas):
    """All regions; no fault happens once `is_healed`, and every task unwinds once `is_over`.

    Transaction tokens are remembered for ten minutes of `clock`; without a clock, for good.
    """

    def __init__(
        self,
        regions: Sequence[str],
        *,
        loop: asyncio.AbstractEventLoop,
        randomness: Random,
        facts: WorldFacts = _FACTS,
        page_items_max: int = 1000,
        is_traced: bool = False,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(regions, page_items_max=page_items_max, clock=clock)
        self.signature_seconds = facts.signature_seconds
        self.loop = loop
        self.random = randomness
        self.lag = facts.lag
        self.staleness = facts.staleness
        self.is_healed = False
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self.at_end: list[Callable[[], None]] = []
        self.down: set[str] = set()
        self.hot: set[str] = set()
        """Regions that throttle all requests of control items of budgets."""
        self.lost: set[str] = set()
        self._loss: Loss | None = None
        self._is_traced = is_traced
        skew = facts.server_skew_seconds
        self._server_off = {name: randomness.uniform(-skew, skew) for name in regions}
        self._paused: dict[Link, list[Callable[[], None]]] = {}
        self._past: dict[str, dict[str, deque[tuple[float, str, Item | None]]]] = {
            name: {} for name in regions
        }

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.loop.time()

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

    def establish(self, item: Item) -> None:
        """Let every replica show an item from the beginning."""
        for replica in self.replicas.values():
            replica.table.set((item["pk"]["S"], item["sk"]["S"]), item)

    def lose(self, loss: Loss, randomness: Random) -> None:
        """Prepare the loss of a region; from its moment on, `stop` ends it."""
        self._loss, self._fates = loss, randomness
        self._server_off[loss.region] += loss.ahead_seconds

    def stop(self, region: str) -> None:
        """Let a region stop for good: nothing is served there or arrives there any more."""
        self.note(lambda: f"region {region} is lost")
        self.lost.add(region)

    def is_down(self, region: str) -> bool:
        """Return whether a region serves no request."""
        return region in self.down or region in self.lost

    def is_missing(self, region: str) -> bool:
        """Return whether a region that was taken out has no table any more."""
        return self._loss is not None and self._loss.is_taken_out and region in self.lost

    def described(self, region: str) -> dict[str, str] | None:
        """Return the replicas beside a region as that describes them; None where none is lost."""
        return None if self._loss is None else self._loss.described(region, self.loop.time())

    def heal_all(self) -> None:
        """End every fault: links heal, regions return, delays are short."""
        self.note(lambda: "everything heals")
        self.is_healed = True
        self.lag = SHORT_LAG
        self.down.clear()
        self.hot.clear()
        for link in list(self._paused):
            self.heal(*link)

    def end(self) -> None:
        """End the run: every waiting task unwinds."""
        self.is_over = True
        for wake in self.at_end:
            wake()

    def table_at(self, region: str, partition: str, moment: Callable[[], float]) -> MemoryTable:
        """Return a partition as it was in the past; each item's moment is drawn by `moment`."""
        table = MemoryTable()
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

    def _stamp(self, region: str, last: Stamp) -> Stamp:
        now = self.loop.time() + self._server_off[region]
        return max(now, last[0] + _TICK_SECONDS), region

    def _send(self, transit: Transit) -> None:
        def arrive() -> None:
            held = self._paused.get(transit.link)
            if held is not None:
                held.append(arrive)
            elif self._loss is None or self._loss.region not in transit.link:
                self._arrive(transit)
            else:
                self._arrive_late(transit, self._loss)

        seconds = self.lag.draw(self.random)
        if self._loss is not None and self._loss.is_slow(transit.link[0], self.loop.time()):
            seconds += self._fates.random() * self._loss.slow_seconds
        self.loop.call_later(seconds, arrive)

    def _arrive_late(self, transit: Transit, loss: Loss) -> None:
        """Let an item arrive over a link of a region that is lost, late, or never."""
        source, target = transit.link
        if source not in self.lost and target not in self.lost:
            self._arrive_before(loss, transit)
        elif target in self.lost or self._fates.random() < loss.never_share:
            self._never_arrive(transit)
        else:
            seconds = self._fates.random() * loss.late_seconds
            self.loop.call_later(seconds, self._arrive_before, loss, transit)

    def _arrive_before(self, loss: Loss, transit: Transit) -> None:
        if self.loop.time() < loss.last_arrival(transit.link):
            self._arrive(transit)
        else:
            self._never_arrive(transit)

    def _remember(self, region: str, key: Key, before: Item | None) -> None:
        """Keep the previous item for as long as a stale read may return it."""
        if self.staleness <= 0:
            return
        past = self._past[region].setdefault(key[0], deque())
        now = self.loop.time()
        while past and past[0][0] < now - self.staleness:
            past.popleft()
        past.append((now, key[1], before))
