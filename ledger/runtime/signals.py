"""Signals that ask work to stop; a second one, if handled, cancels it."""

import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from ledger.runtime.tasks import background_tasks

STOPPED_BY_SIGNAL = 128
"""Added to a signal's number, it is the exit status of the work that it stopped."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Handler = Callable[[signal.Signals], None]


def ignore(_: signal.Signals) -> None:
    """Do nothing: the cancellation is enough."""


@dataclass(slots=True)
class Signalled:
    """The last signal received, 0 for none, and whether it cancelled the work."""

    number: int = 0
    is_cut_off: bool = False

    @property
    def status(self) -> int:
        """The exit status of the stopped work."""
        return STOPPED_BY_SIGNAL + self.number


@asynccontextmanager
async def stopped_by_signals(
    on_first: Handler,
    on_second: Handler | None = None,
    *,
    watched: Sequence[signal.Signals] = STOP_SIGNALS,
) -> AsyncIterator[Signalled]:
    """Run the body; the first signal asks it to stop, the second cancels it.

    Without `on_second` further signals change nothing. An error of the body is raised alone.
    """
    received = Signalled()
    with anyio.open_signal_receiver(*watched) as signals:
        async with background_tasks() as tasks:

            async def watch() -> None:
                async for number in signals:
                    is_first = received.number == 0
                    received.number = number
                    if is_first:
                        on_first(number)
                    elif on_second is not None:
                        received.is_cut_off = True
                        on_second(number)
                        tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            yield received
