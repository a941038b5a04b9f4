"""Who is visited next, what is held, and what is ripe to be acted on: pure, for any workers.

::

    due ──> visit ──> nothing to do: done
                 └──> held for `observation_delay` ──> act ──> done
                                            └──> more waits than one fold takes: visit again

Collections are visited in the order in which they are given, each once; those that wait longest
come first. A hot one, with more settled entries than one fold takes, is visited again in the same
pass, and these visits take turns with the first visits of others: so no hot counter holds up the
others by more than one visit each, and no number of others starves a hot one.

What is held is bounded in number and in ids: a worker waits for the oldest hold to end before it
looks at more. The holds of different collections run side by side.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compactor.plan import Plan
from ledger.core.values import NetChange

AGAIN_SECONDS = 2.0
"""Before a hot collection is visited again: what was written must reach the other regions."""
HELD_IDS_MAX = 500_000
"""Ids in all plans that are held: about 100 MB."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One collection to be looked at; `number` counts its visits in this pass from 1."""

    partition: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class PendingAction:
    """What is to be done with a collection, once the clock shows `ripe_at` (monotonic).

    `net` is the one that the plan was made from, `sizes` are those of the items that it touches.
    """

    visit: Visit
    net: NetChange | None
    sizes: Mapping[str, int]
    plan: Plan
    ripe_at: float

    @property
    def ids(self) -> int:
        """How many ids the plan names, about."""
        return len(self.plan.deletes) + (len(self.plan.fold.merged) if self.plan.fold else 0)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is to be done before `until` (monotonic)."""

    until: float


Step = Visit | PendingAction | Wait


class Agenda:
    """The work of one pass, in steps; every visit ends in `hold` or `done`."""

    def __init__(
        self,
        partitions: Iterable[str],
        *,
        held_max: int,
        visits_max: int,
        held_ids_max: int = HELD_IDS_MAX,
    ) -> None:
        self._first = deque(partitions)
        self._again: deque[tuple[float, Visit]] = deque()
        self._held: deque[PendingAction] = deque()
        self._held_max = held_max
        self._held_ids_max = held_ids_max
        self._visits_max = visits_max
        self._held_ids = 0
        self._looking = 0
        self._acting = 0
        self._is_turn_of_again = True

    @property
    def is_over(self) -> bool:
        """Whether nothing is left, under way or waiting."""
        return not (self._first or self._again or self._held or self._looking or self._acting)

    def next_step(self, now: float) -> Step | None:
        """Return what a worker does next, or None if it is not needed any more.

        Whoever is still at work looks after what comes of that, so nobody waits for others.
        """
        if self._held and self._held[0].ripe_at <= now:
            held = self._held.popleft()
            self._held_ids -= held.ids
            self._acting += 1
            return held
        if self._has_room():
            visit = self._next_visit(now)
            if visit is not None:
                self._looking += 1
                return visit
        moments = [self._held[0].ripe_at] if self._held else []
        if self._again and self._has_room():
            moments.append(self._again[0][0])
        return Wait(min(moments)) if moments else None

    def hold(self, held: PendingAction) -> None:
        """Keep what a visit found to do until it may be done."""
        self._looking -= 1
        self._held_ids += held.ids
        self._held.append(held)

    def looked(self, visit: Visit, *, again_at: float | None = None) -> None:
        """Note that a visit found nothing to do; with `again_at`, for now."""
        self._looking -= 1
        self._revisit(visit, again_at)

    def acted(self, visit: Visit, *, again_at: float | None = None) -> None:
        """Note that what a visit found is done; with `again_at`, more of it is waiting."""
        self._acting -= 1
        self._revisit(visit, again_at)

    def _revisit(self, visit: Visit, again_at: float | None) -> None:
        # While others wait for their first visit the pass goes on anyway.
        if again_at is not None and (visit.number < self._visits_max or self._first):
            self._again.append((again_at, Visit(visit.partition, visit.number + 1)))

    def _has_room(self) -> bool:
        held = len(self._held) + self._looking
        return held < self._held_max and self._held_ids < self._held_ids_max

    def _next_visit(self, now: float) -> Visit | None:
        is_ripe = bool(self._again) and self._again[0][0] <= now
        if is_ripe and (self._is_turn_of_again or not self._first):
            self._is_turn_of_again = False
            return self._again.popleft()[1]
        if self._first:
            self._is_turn_of_again = True
            return Visit(self._first.popleft())
        return None
