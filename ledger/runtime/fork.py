"""Objects that a process opened and a fork inherits, without the threads and loops behind them."""

import os

from ledger.core.errors import LedgerError

_inherited: list[object] = []


class Owner:
    """The process that created this."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_another(self) -> bool:
        """Whether this process is a fork of the owner."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Refuse use in another process.

        Raises:
            LedgerError: a fork inherited it.
        """
        if self.is_another:
            raise LedgerError(
                f"opened in process {self._pid}, and process {os.getpid()} is a fork of it: open"
                " it after the fork, in each process"
            )


def keep_inherited(thing: object) -> None:
    """Keep what the parent opened, unused, until this process ends.

    Its sockets and selectors are shared with the parent: finalizing it could close them there.
    """
    _inherited.append(thing)
