"""Calls that may hang, each on a thread of its own."""

from threading import Event, current_thread, main_thread

import anyio
import pytest

from ledger.core.errors import LedgerError
from ledger.runtime.tasks import run_all
from ledger.runtime.threads import ThreadedCall


async def test_a_call_is_made_anew_each_time_and_never_on_the_loop() -> None:
    """On a thread for which the end of the process does not wait."""
    made = list[bool]()

    def call() -> int:
        made.append(current_thread() is not main_thread() and current_thread().daemon)
        return len(made)

    threaded = ThreadedCall(call, what="a call")
    assert [await threaded.result(), await threaded.result()] == [1, 2]
    assert made == [True, True]


async def test_an_error_of_the_call_is_raised() -> None:
    """As the call raised it."""

    def call() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        await ThreadedCall(call, what="a call").result()


async def test_one_that_hangs_is_waited_for_within_the_bound_and_not_begun_again() -> None:
    """Whoever asks meanwhile shares it; once it has ended the next is new."""
    begun, end = list[int](), Event()

    def call() -> int:
        begun.append(1)
        end.wait()
        return len(begun)

    threaded = ThreadedCall(call, what="a look at x", seconds_max=0.001)
    try:
        for _ in range(2):
            with pytest.raises(LedgerError, match=r"a look at x has not ended within 0\.001 s"):
                await run_all([threaded.result, threaded.result], at_once=2)
        with anyio.move_on_after(0):  # who waits no longer leaves it for the others
            await threaded.result()
        assert begun == [1]
    finally:
        end.set()


async def test_a_thread_that_cannot_be_begun_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the ledger: whoever looks again and again goes on."""

    def refused(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    threaded = ThreadedCall(lambda: 7, what="a look")
    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", refused)
        with pytest.raises(LedgerError, match="a look: can't start new thread"):
            await threaded.result()
    assert await threaded.result() == 7
