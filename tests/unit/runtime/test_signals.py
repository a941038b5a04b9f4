"""Signals: the first asks for a stop, the second cancels, and an error comes out alone."""

import os
from signal import SIGHUP, SIGINT, SIGTERM, Signals

import anyio
import pytest

from ledger.runtime.signals import Signalled, stopped_by_signals


async def test_the_first_signal_asks_the_body_to_stop() -> None:
    """The body runs on to its own end, and the exit status names the signal."""
    stop = anyio.Event()
    async with stopped_by_signals(lambda _: stop.set()) as received:
        os.kill(os.getpid(), SIGTERM)
        await stop.wait()
    assert (received.number, received.is_cut_off, received.status) == (SIGTERM, False, 143)


async def test_the_second_signal_cancels_the_body() -> None:
    """Both handlers were called, with their signals."""
    seen: list[Signals] = []

    def first(number: Signals) -> None:
        seen.append(number)
        os.kill(os.getpid(), SIGTERM)

    async with stopped_by_signals(first, seen.append) as received:
        os.kill(os.getpid(), SIGINT)
        await anyio.sleep_forever()
    assert seen == [SIGINT, SIGTERM]
    assert (received.number, received.is_cut_off) == (SIGTERM, True)


async def test_without_a_second_handler_further_signals_change_nothing() -> None:
    """A body that must end in good order is never cancelled."""
    asked, ended = anyio.Event(), anyio.Event()
    async with stopped_by_signals(lambda _: asked.set(), watched=(SIGHUP,)) as received:
        os.kill(os.getpid(), SIGHUP)
        await asked.wait()
        os.kill(os.getpid(), SIGHUP)
        await anyio.sleep(0.05)
        ended.set()
    assert ended.is_set()
    assert not received.is_cut_off


async def test_without_a_signal_nothing_is_received() -> None:
    """The status is that of no signal, and an error of the body is raised alone."""
    received = Signalled()
    with pytest.raises(ValueError, match="wrong"):
        async with stopped_by_signals(lambda _: None) as received:
            raise ValueError("wrong")
    assert received.number == 0
