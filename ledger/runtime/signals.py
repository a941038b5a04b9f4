"""Work that a first signal asks to stop and a second one ends at once."""

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import anyio.abc

from ledger.runtime.tasks import first_error

STOPPED_BY_SIGNAL = 128
"""Added to the number of a signal, it is the exit status of what the signal stopped."""


@dataclass(slots=True)
class Signalled:
    """The last signal that came, 0 for none, and whether it ended the work at once."""

    number: int = 0
    is_cut_off: bool = False

    @property
    def status(self) -> int:
        """The exit status of what was stopped."""
        return STOPPED_BY_SIGNAL + self.number


async def until_signalled(
    work: Callable[[], Awaitable[object]], *, stop: Callable[[], None], tell: Callable[[str], None]
) -> Signalled:
    """Do some work; the first SIGINT or SIGTERM calls `stop`, the second one cancels the work.

    The work's error is raised alone, in no group.
    """
    came = Signalled()
    failures: list[Exception] = []
    async with anyio.create_task_group() as tasks:
        await tasks.start(_watch, came, tasks.cancel_scope, stop, tell)
        try:
            await work()
        except Exception as error:  # noqa: BLE001 (raised below, alone, not in a group)
            failures.append(error)
        tasks.cancel_scope.cancel()
    if failures:
        raise first_error(failures[0])
    return came


async def _watch(
    came: Signalled,
    everything: anyio.CancelScope,
    stop: Callable[[], None],
    tell: Callable[[str], None],
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            is_first = came.number == 0
            came.number = number
            if not is_first:
                came.is_cut_off = True
                everything.cancel()
                return
            tell(f"{number.name}: stopping once what was read is through; again: at once")
            stop()
