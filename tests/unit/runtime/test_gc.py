"""The garbage collector, calmed for a process and paused for a block."""

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress

import orjson
import pytest

from ledger import calm_collector
from ledger.runtime.gc import YOUNG_MAX, paused_collector
from ledger.store.transports.lean_json import LARGE_BYTES, decode


@pytest.fixture
def collector() -> Iterator[None]:
    """Put back what a test sets."""
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    gc.enable()


@pytest.mark.usefixtures("collector")
def test_calm_collector_leaves_what_is_there_alone() -> None:
    """What there is now is frozen, and young objects are looked through seldom."""
    calm_collector()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] == YOUNG_MAX


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("enabled", [True, False])
def test_a_pause_ends_as_it_began(*, enabled: bool) -> None:
    """Inside the collector rests; afterwards it is as the process had it, errors or not."""
    (gc.enable if enabled else gc.disable)()
    with suppress(KeyError), paused_collector():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled() is enabled


@pytest.mark.usefixtures("collector")
def test_a_long_answer_is_read_with_the_collector_at_rest() -> None:
    """Reading a page of ten thousand items brings on no collection but the one after it."""
    body = b'{"Items":[' + b",".join(b'{"a":{"N":"%d"}}' % n for n in range(10_000)) + b"]}"
    assert len(body) > LARGE_BYTES
    assert collections(orjson.loads, body) > 10
    assert collections(decode, body) <= 2


def collections(read: Callable[[bytes], object], body: bytes) -> int:
    """Return how often the collector ran while a body was read."""
    phases: list[str] = []

    def note(phase: str, _info: dict[str, int]) -> None:
        phases.append(phase)

    gc.enable()
    gc.set_threshold(700, 10, 10)  # other tests may have calmed it
    gc.collect()
    gc.callbacks.append(note)
    try:
        read(body)
    finally:
        gc.callbacks.remove(note)
    return phases.count("start")
