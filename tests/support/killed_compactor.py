"""A program whose children compact a table once each, and kill themselves at a step.

Each line of its input is the number of a step, 0 for none: a child of its own, a fork without an
import to wait for, runs passes until one finds nothing to do, and is killed with signal 9 at that
step. A step is when a write to the table, a request to a place of the archive, or a call by which a
file gets its name was carried out, and nothing made of it yet: so it is before the next one, too.
The answer is a line: how the child ended.
"""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from signal import SIGKILL
from typing import Any, TypeVar

import anyio

from compactor import Compactor
from ledger.reads.archive.places.opening import open_places
from ledger.reads.archive.places.port import Place
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings
from ledger.store.connections import open_stores
from ledger.store.wrappers.forwarder import READS, ForwardingStore, Operation

Result = TypeVar("Result")
PASSES_MAX = 20
ENDED, KILLED = "ended", "killed"
FILE_CALLS = ((os, "fsync"), (os, "link"))


class Fuse:
    """Kills this process at a step; 0 for never."""

    def __init__(self, at: int) -> None:
        self._left = at

    def step(self) -> None:
        """Count a step."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), SIGKILL)

    async def after(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Make a call; what follows is a step."""
        answer = await call()
        self.step()
        return answer

    def wrapped(self, call: Callable[..., Result]) -> Callable[..., Result]:
        """Return a function of the file system after which there is a step."""

        @wraps(call)
        def stepped(*words: Any, **options: Any) -> Result:
            answer = call(*words, **options)
            self.step()
            return answer

        return stepped


class FusedStore(ForwardingStore):
    """A store whose writes are steps."""

    fuse: Fuse

    async def _carry(self, name: Operation, call: Callable[[], Awaitable[Result]]) -> Result:
        return await (call() if name in READS else self.fuse.after(call))


class FusedPlace:
    """A place whose requests are steps."""

    def __init__(self, inner: Place, fuse: Fuse) -> None:
        self.url = inner.url
        self._inner = inner
        self._fuse = fuse
        self.region, self.replace, self.delete = inner.region, inner.replace, inner.delete

    async def put(self, name: str, data: bytes) -> None:
        """Put an object."""
        await self._fuse.after(lambda: self._inner.put(name, data))

    async def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return an object."""
        return await self._fuse.after(lambda: self._inner.get(name, start=start, length=length))

    def names(self, after: str = "") -> AsyncIterator[str]:
        """Yield the names of all objects."""
        return self._inner.names(after)


async def compact(settings: Settings, fuse: Fuse) -> None:
    """Run passes until one finds nothing to do."""
    clock = SystemClock()
    async with open_stores(settings) as stores, open_places(settings.archive, clock=clock) as found:
        fused = {region: FusedStore(store) for region, store in stores.items()}
        for store in fused.values():
            store.fuse = fuse
        compactor = Compactor(
            settings,
            stores=fused,
            contract=True,
            archive=[FusedPlace(place, fuse) for place in found.places],
        )
        for _ in range(PASSES_MAX):
            report = await compactor.run_once()
            assert report.is_success, report.sentence()
            if report.is_idle:
                return
    raise AssertionError(f"still merging after {PASSES_MAX} passes")


def main(config: str) -> None:
    """Answer each line of the input."""
    settings = Settings.load(config)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            fuse = Fuse(int(line))
            for owner, name in FILE_CALLS:
                setattr(owner, name, fuse.wrapped(getattr(owner, name)))
            anyio.run(compact, settings, fuse)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        sys.stdout.write(f"{ {0: ENDED, -SIGKILL: KILLED}.get(code, f'status {code}') }\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
