"""The order of work in one pass: what is visited next, what is held, what is ripe.

::

    due ──> visit ──> nothing to do: done
                 └──> held for `observation_delay` ──> act ──> done
                                            └──> more waits than one fold takes: visit again

Collections are visited in the given order, each once. A hot collection, with more settled entries
than one fold takes, is visited again in the same pass; such visits alternate with the first visits
of others, so no hot counter delays another by more than one visit, and none is starved itself.

Pending actions are bounded in number and in ids: beyond that a worker waits for the oldest hold to
end before it visits more. The holds of different collections run concurrently.

Pure: no clock, no randomness, no I/O.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from compactor.archive_object import ArchiveObject
from compactor.merge_plan import MergePlan
from compactor.succession import Succession
from ledger.core.contract import Validity
from ledger.core.values import NetChange

AGAIN_SECONDS = 2.0
"""Pause before a hot collection is visited again: its last fold must reach the other regions."""
HELD_IDS_MAX = 500_000
"""Ids in all pending actions: about 100 MB."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One collection to observe; `number` counts its visits in this pass from 1."""

    partition: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class PendingAction:
    """The action for a collection, due once the clock shows `ripe_at` (monotonic).

    `net` is the one that the plan is based on; its requests are signed within `validity`. In a
    table that lost a region `succession` has more. `archive` must be put before the fold is sent.
    """

    visit: Visit
    net: NetChange | None
    plan: MergePlan
    ripe_at: float
    validity: Validity | None = None
    succession: Succession | None = None
    archive: ArchiveObject | None = None

    @property
    def ids(self) -> int:
        """About how many ids the plan names."""
        return len(self.plan.deletes) + (len(self.plan.fold.merged) if self.plan.fold else 0)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done before `until` (monotonic)."""

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
        """Whether nothing is left, in progress or waiting."""
        return not (self._first or self._again or self._held or self._looking or self._acting)

    def next_step(self, now: float) -> Step | None:
        """Return what a worker does next, or None if the worker is no longer needed.

        A worker that is still busy also handles what follows from its step, so others may end.
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

    def upcoming(self, count_max: int) -> list[str]:
        """Return the collections whose first visits come next, as far as there is room for them."""
        room = self._held_max - len(self._held) - self._looking
        return [*islice(self._first, max(0, min(count_max, room)))]

    def hold(self, held: PendingAction) -> None:
        """Keep the action that a visit decided on until it is ripe."""
        self._looking -= 1
        self._held_ids += held.ids
        self._held.append(held)

    def looked(self, visit: Visit, *, again_at: float | None = None) -> None:
        """End a visit that found nothing to do; with `again_at`, visit again then."""
        self._looking -= 1
        self._revisit(visit, again_at)

    def acted(self, visit: Visit, *, again_at: float | None = None) -> None:
        """End an action; with `again_at`, visit the collection again then."""
        self._acting -= 1
        self._revisit(visit, again_at)

    def _revisit(self, visit: Visit, again_at: float | None) -> None:
        # While others wait for their first visit the pass continues anyway.
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
