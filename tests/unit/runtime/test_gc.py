"""The garbage collector, tuned for a process and paused for a block."""

import asyncio
import ctypes
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

import orjson
import pytest

from ledger import tune_gc
from ledger.runtime import gc as tuned
from ledger.runtime.aws_answers import LARGE_BYTES
from ledger.runtime.clock import SystemClock
from ledger.runtime.gc import (
    TRIM_BYTES,
    YOUNG_MAX,
    freed_later,
    gc_paused,
    give_memory_back,
    is_gc_tuned,
    keep_young_few,
    pause_gc_for_this_turn,
)
from ledger.runtime.loops import loop_name, new_runner, run_tuned
from ledger.settings import Settings
from ledger.store.connections import open_transport
from ledger.store.transports.lean_json import decode

pytestmark = pytest.mark.slow


@pytest.fixture
def collector() -> Iterator[None]:
    """Put back what a test sets; what the session has frozen stays so, with a little more."""
    threshold = gc.get_threshold()
    yield
    gc.freeze()
    gc.set_threshold(*threshold)
    gc.enable()


@pytest.mark.usefixtures("collector")
def test_tune_gc_freezes_existing_objects() -> None:
    """Existing objects are frozen, and the young generation is scanned rarely."""
    gc.unfreeze()
    tune_gc()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] == YOUNG_MAX


@pytest.mark.usefixtures("collector")
def test_a_process_of_the_ledgers_own_runs_on_the_faster_loop_and_is_tuned_once() -> None:
    """Its work's result is handed on; a second run freezes nothing more."""

    async def loop() -> str:
        return type(asyncio.get_running_loop()).__module__.partition(".")[0]

    gc.set_threshold(700)
    assert not is_gc_tuned()
    name = run_tuned(loop())
    assert is_gc_tuned()
    frozen = gc.get_freeze_count()
    with new_runner() as runner:
        assert runner.run(loop()) == run_tuned(loop()) == name == loop_name()
    assert gc.get_freeze_count() <= frozen


@pytest.mark.usefixtures("collector")
async def test_work_that_replaces_work_leaves_few_young_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python would not scan them: as many objects are freed as are made."""
    monkeypatch.setattr(tuned, "YOUNG_SECONDS", 0)
    tune_gc()
    work = deque([number] for number in range(50_000))
    gc.collect()
    scans = asyncio.create_task(keep_young_few())
    for number in range(50_000):
        work.popleft()
        work.append([number])
    assert len(gc.get_objects(generation=0)) > 50_000
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(gc.get_objects(generation=0)) < YOUNG_MAX
    scans.cancel()


@pytest.mark.usefixtures("collector")
def test_a_tuned_process_keeps_no_closed_clients() -> None:
    """One that opens a region again and again, since it cannot be reached, stays as large."""
    endpoint = {"endpoint": "http://127.0.0.1:1"}
    settings = Settings(home="us-east-1", regions={"us-east-1": endpoint})

    async def open_and_close() -> None:
        async with open_transport(settings, "us-east-1", clock=SystemClock()):
            pass

    tune_gc()
    kept = [len(gc.get_objects())]
    for _ in range(5):
        asyncio.run(open_and_close())
        kept.append(len(gc.get_objects()))
    of_a_client = kept[1] - kept[0]
    assert kept[-1] - kept[0] < 2 * of_a_client


@pytest.mark.usefixtures("collector")
def test_a_tuned_process_scans_the_heap_only_once_a_client_was_closed() -> None:
    """A scan holds all threads; to open several clients, which stay open, needs none."""
    scans: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            scans.append(1)

    tune_gc()
    with freed_later():
        pass
    with freed_later(), freed_later():  # what was closed is scanned for by the first alone
        gc.callbacks.append(note)
        try:
            with freed_later():
                assert not scans
            with freed_later():
                assert len(scans) == 1
        finally:
            gc.callbacks.remove(note)


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("enabled", [True, False])
def test_a_pause_ends_as_it_began(*, enabled: bool) -> None:
    """Inside the collector rests; afterwards it is as the process had it, errors or not."""
    (gc.enable if enabled else gc.disable)()
    with suppress(KeyError), gc_paused():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled() is enabled


@pytest.mark.usefixtures("collector")
def test_a_long_answer_is_read_with_the_collector_at_rest() -> None:
    """Reading a page of ten thousand items brings on no collection but the one after it."""
    body = b'{"Items":[' + b",".join(b'{"a":{"N":"%d"}}' % n for n in range(10_000)) + b"]}"
    assert len(body) > LARGE_BYTES
    if sys.version_info < (3, 12):  # since then it runs between bytecodes alone: after the call
        assert collections(orjson.loads, body) > 10
    assert collections(decode, body) <= 2


def collections(read: Callable[[bytes], object], body: bytes) -> int:
    """Return how often the collector ran while a body was read."""
    phases: list[str] = []

    def note(phase: str, _info: dict[str, int]) -> None:
        phases.append(phase)

    gc.enable()
    gc.set_threshold(700, 10, 10)  # another test may have tuned it
    gc.collect()
    gc.callbacks.append(note)
    try:
        read(body)
    finally:
        gc.callbacks.remove(note)
    return phases.count("start")


@pytest.mark.usefixtures("collector")
def test_a_pause_for_a_turn_ends_with_it() -> None:
    """The collector rests until the loop's next turn; without a loop there is no pause."""
    gc.enable()
    pause_gc_for_this_turn()
    assert gc.isenabled()

    async def turns() -> list[bool]:
        pause_gc_for_this_turn()
        pause_gc_for_this_turn()
        seen = [gc.isenabled()]
        await asyncio.sleep(0)
        return [*seen, gc.isenabled()]

    assert asyncio.run(turns()) == [False, True]


@pytest.mark.usefixtures("collector")
def test_a_collector_that_is_off_stays_off() -> None:
    """A process that collects nothing by itself is left alone."""
    gc.disable()

    async def turns() -> bool:
        pause_gc_for_this_turn()
        await asyncio.sleep(0)
        return gc.isenabled()

    assert not asyncio.run(turns())


async def test_freed_memory_is_given_back_when_a_process_has_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a bound more than after the last time, and never else: what is in use stays."""
    monkeypatch.setattr(tuned, "TRIM_SECONDS", 0)
    given, shown = list[int](), [100]
    giving = asyncio.create_task(give_memory_back(lambda: shown[0], lambda: given.append(shown[0])))
    for size in (100, 100 + TRIM_BYTES, 101 + TRIM_BYTES, 90, 90, 91 + TRIM_BYTES, 80):
        shown[0] = size
        await asyncio.sleep(0.05)
    giving.cancel()
    assert given == [101 + TRIM_BYTES, 91 + TRIM_BYTES]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc's alone")
async def test_this_process_is_smaller_after_that() -> None:
    """Blocks are freed, but for a few between them."""
    before = tuned._resident()
    giving = asyncio.create_task(give_memory_back())
    await asyncio.sleep(0)
    blocks = [ctypes.create_string_buffer(20_000 + place % 9_000) for place in range(20_000)]
    kept = blocks[::50]
    del blocks
    assert tuned._resident() - before > 200_000_000
    await asyncio.sleep(3 * tuned.TRIM_SECONDS)
    giving.cancel()
    assert kept
    assert tuned._resident() - before < 150_000_000
