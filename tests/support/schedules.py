"""Every order in which a few processes reach one table, within bounds: schedules, lost and late.

Production code runs over a store that asks before each request whose turn it is. A schedule is the
list of answers; `every` runs them all, each from an empty table, depth first. Of orders it takes
those with few switches away from a process that could go on, and few faults; most errors of
concurrency need no more (Musuvathi and Qadeer, "Iterative Context Bounding", PLDI 2007).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from proof.simulator import loop

from ledger.core.entry import Item
from ledger.core.errors import LedgerError
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.reads import Get, Page, Query
from ledger.store.writes import Action, Outcome, Unknown, Write

MOMENT_SECONDS = 0.001
"""Virtual: over once nothing else can run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How many switches, requests that land later, and ends of processes one schedule has."""

    switches: int = 2
    late: int = 0
    kills: int = 0


@dataclass
class Schedule:
    """The answers given so far, and how many there were to choose from each time."""

    script: Sequence[int] = ()
    taken: list[tuple[int, int]] = field(default_factory=list)

    def choose(self, options: int) -> int:
        """Return the next answer: the script's, then the first one."""
        place = len(self.taken)
        answer = self.script[place] if place < len(self.script) else 0
        self.taken.append((answer, options))
        return answer

    def following(self) -> list[int] | None:
        """Return the script of the schedule after this one, None after the last."""
        taken = list(self.taken)
        while taken:
            answer, options = taken.pop()
            if answer + 1 < options:
                return [*(one for one, _ in taken), answer + 1]
        return None


@dataclass
class Turns:
    """Who waits for a turn, and what is under way without its sender."""

    bounds: Bounds
    schedule: Schedule
    table: MemoryTable = field(default_factory=MemoryTable)
    waiting: dict[str, list[tuple[asyncio.Future[bool], bool]]] = field(default_factory=dict)
    late: list[Callable[[], Awaitable[object]]] = field(default_factory=list)
    killed: set[str] = field(default_factory=set)

    def store(self, process: str) -> "TurnStore":
        """Return the table as this process reaches it."""
        return TurnStore(self, process)

    async def run(self, processes: dict[str, Callable[[], Awaitable[object]]]) -> None:
        """Run all processes, and land what is late, until nothing is left to do."""
        async with anyio.create_task_group() as group:
            scopes = {name: anyio.CancelScope() for name in processes}
            for name, process in processes.items():
                group.start_soon(_within, scopes[name], process)
            current, left = "", [self.bounds.switches, self.bounds.late, self.bounds.kills]
            while True:
                await anyio.sleep(MOMENT_SECONDS)
                options = self._options(current, left)
                if not options:
                    return
                kind, name = options[self.schedule.choose(len(options))]
                if kind == "land":
                    await self.late.pop(0)()
                    continue
                if current and name != current and self.waiting.get(current):
                    left[0] -= 1
                current = name
                if kind == "kill":
                    left[2] -= 1
                    self.killed.add(name)
                    scopes[name].cancel()
                    self.waiting.pop(name)
                    continue
                left[1] -= kind == "late"
                turn, _ = self.waiting[name].pop(0)
                turn.set_result(kind == "late")

    async def run_works(self, works: Mapping[str, Callable[[Store], Awaitable[None]]]) -> None:
        """Run works by their names, each on a store of its own; one that fails has ended."""

        async def process(name: str) -> None:
            with suppress(LedgerError):
                await works[name](self.store(name))

        await self.run({name: partial(process, name) for name in works})

    def _options(self, current: str, left: Sequence[int]) -> list[tuple[str, str]]:
        ready = [name for name, turns in self.waiting.items() if turns]
        ready.sort(key=lambda name: (name != current, name))
        if current in ready and left[0] <= 0:
            ready = [current]
        options = [("go", name) for name in ready]
        if left[1] > 0:
            options += [("late", name) for name in ready if self.waiting[name][0][1]]
        if left[2] > 0:
            options += [("kill", name) for name in ready]
        return options + ([("land", "")] if self.late else [])


async def _within(scope: anyio.CancelScope, process: Callable[[], Awaitable[object]]) -> None:
    with scope:
        await process()


class TurnStore(MemoryStore):
    """A store that waits for its turn before each request."""

    def __init__(self, turns: Turns, process: str) -> None:
        super().__init__("us-east-1", turns.table)
        self._turns = turns
        self._process = process

    async def get(self, get: Get) -> Item | None:
        """Read when it is our turn."""
        await self._turn(is_write=False)
        return await super().get(get)

    async def query(self, query: Query) -> Page:
        """Read when it is our turn."""
        await self._turn(is_write=False)
        return await super().query(query)

    async def write(self, write: Write) -> Outcome:
        """Write when it is our turn, or later."""
        return await self._sent(partial(super().write, write))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Write when it is our turn, or later."""
        return await self._sent(partial(super().transact, actions, token=token))

    async def _sent(self, request: Callable[[], Awaitable[Outcome]]) -> Outcome:
        if not await self._turn(is_write=True):
            return await request()
        self._turns.late.append(partial(_unheard, request))
        return Unknown("late")

    async def _turn(self, *, is_write: bool) -> bool:
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._turns.waiting.setdefault(self._process, []).append((turn, is_write))
        return await turn


async def _unheard(request: Callable[[], Awaitable[Outcome]]) -> None:
    try:
        await request()
    except LedgerError:
        return


def every(
    bounds: Bounds, world: Callable[[Turns], Awaitable[Any]], *, most: int = 10**6
) -> Iterator[tuple[list[int], Any]]:
    """Run a world under every schedule; yields each with what the world returned."""
    script: list[int] | None = []
    for _ in range(most):
        if script is None:
            return
        schedule = Schedule(script)
        found = loop.run(partial(world, Turns(bounds, schedule)))
        yield [answer for answer, _ in schedule.taken], found
        script = schedule.following()
    raise AssertionError(f"more than {most} schedules")
