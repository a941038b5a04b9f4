"""Turns over any arrivals: failures, cancellations, other processes, and bounds of any size."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Literal

import anyio
from hypothesis import given
from hypothesis import strategies as st
from proof.simulator import loop
from support.clients import together
from support.guarding import event

from ledger.primitives.versions import Busy, Handled, Skipped
from ledger.primitives.versions.turn_queue import SubjectTurns
from ledger.primitives.versions.version_rules import VersionRules
from ledger.testing.clock import START

Fate = Literal["handled", "fails", "busy", "cancelled"]
FATES: list[Fate] = ["handled", "handled", "handled", "fails", "busy", "cancelled"]


@dataclass(frozen=True)
class Arrival:
    """A call: its version and kind, when it comes, what becomes of it, and how long that takes."""

    version: int
    kind: str
    after_seconds: float
    takes_seconds: float
    fate: Fate
    waits_seconds: float


ARRIVALS = st.lists(
    st.builds(
        Arrival,
        version=st.integers(0, 5),
        kind=st.sampled_from(["record", "address"]),
        after_seconds=st.integers(0, 4).map(float),
        takes_seconds=st.sampled_from([0.0, 0.5, 3.0]),
        fate=st.sampled_from(FATES),
        waits_seconds=st.sampled_from([0.0, 1.25, 60.0]),
    ),
    max_size=12,
)


class LoopClock:
    """The virtual time of the loop."""

    def now(self) -> datetime:
        """Return some time of day."""
        return START

    def monotonic(self) -> float:
        """Return the loop's seconds."""
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        """Wait on the loop's timer."""
        await anyio.sleep(seconds)


@dataclass
class Run:
    """All calls through one set of turns; the record that they guard is the newest handled."""

    turns: SubjectTurns
    newest: dict[str, int] = field(default_factory=dict)
    handled: set[tuple[str, int]] = field(default_factory=set)
    ended: int = 0

    async def handle(self, arrival: Arrival) -> Handled | Skipped | Busy:
        """Handle as a guard does: old ones are skipped."""
        newest = self.newest.get(arrival.kind)
        if newest is not None and arrival.version <= newest:
            return Skipped(arrival.version, newest)
        await anyio.sleep(arrival.takes_seconds)
        if arrival.fate == "fails":
            raise LookupError
        if arrival.fate == "busy":
            return Busy("another")
        self.newest[arrival.kind] = max(self.newest.get(arrival.kind, -1), arrival.version)
        self.handled.add((arrival.kind, arrival.version))
        return Handled(arrival.version)

    async def call(self, arrival: Arrival) -> None:
        """Hand in one event; judge how it ends."""
        await anyio.sleep(arrival.after_seconds)
        one = event(arrival.version, arrival.kind)
        deadline = anyio.current_time() + arrival.waits_seconds
        with anyio.move_on_after(0.25 if arrival.fate == "cancelled" else None):
            try:
                outcome = await self.turns.take(
                    one, partial(self.handle, arrival), deadline=deadline
                )
            except LookupError:
                outcome = None
            if isinstance(outcome, Skipped):
                assert (arrival.kind, outcome.newest) in self.handled
                assert outcome.version == arrival.version <= outcome.newest
            if arrival.fate == "handled" and not isinstance(outcome, Busy):
                assert self.newest[arrival.kind] >= arrival.version, "lost"
        self.ended += 1


async def run_all(arrivals: list[Arrival], waiting_max: int) -> None:
    """Hand in all of them; afterwards none waits, and none has a turn."""
    turns = SubjectTurns(
        rules=VersionRules(), clock=LoopClock(), owner="me", waiting_max=waiting_max
    )
    run = Run(turns)
    await together([partial(run.call, arrival) for arrival in arrivals])
    assert run.ended == len(arrivals)
    assert (turns._queues, turns._waiting) == ({}, 0)


@given(ARRIVALS, st.sampled_from([0, 1, 3, 1000]))
def test_none_is_skipped_by_what_was_not_handled(arrivals: list[Arrival], waiting_max: int) -> None:
    """Whatever fails, is cancelled or gives up: all end, none is lost, none waits for ever."""
    loop.run(partial(run_all, arrivals, waiting_max))
