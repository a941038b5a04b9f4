"""What the gate asks of the part that identifies callers, and the access that lets everybody in."""

from collections.abc import Callable
from typing import Protocol

from ledger.service.access.proxies import ProxyHeader
from ledger.service.access.tokens import ANYONE, Grant


class Access(Protocol):
    """Tells callers by their tokens, and how much each may do."""

    @property
    def proxy(self) -> ProxyHeader | None:
        """The header in which a proxy names callers, if one does."""

    def grant(self, authorization: str | None) -> Grant | None:
        """Return what a caller may do; None if its token is not valid."""

    def named(self, name: str) -> Grant | None:
        """Return what a caller of this name may do; None if there is none, or none any more."""

    async def keep(self) -> None:
        """Read again, while the service runs, who may do what."""

    def tell_unread(self, told: Callable[[], None]) -> None:
        """Call this at each try to read again who may do what that fails."""

    def is_stale(self) -> bool:
        """Return whether that could not be read again for too long to trust what was read."""

    def enter(self, grant: Grant) -> float:
        """Begin a request of a caller: return 0, or when it may be tried again, in seconds."""

    def look(self, grant: Grant) -> float:
        """Count another look of a request that goes on: 0, or in how many seconds it may be."""

    def leave(self, grant: Grant) -> None:
        """End a request that `enter` began, or one that asked for no token."""


class OpenAccess:
    """Lets everybody do everything: for a service that only this machine reaches."""

    proxy = None

    def grant(self, authorization: str | None) -> Grant | None:  # noqa: ARG002 (as `Access`)
        """Return the grant of anyone."""
        return ANYONE

    def named(self, name: str) -> None:
        """Return nothing: no proxy names anyone."""

    async def keep(self) -> None:
        """Return: nothing is read."""

    def tell_unread(self, told: Callable[[], None]) -> None:
        """Keep nothing: nothing is read."""

    def is_stale(self) -> bool:
        """Return that it is not."""
        return False

    def enter(self, grant: Grant) -> float:  # noqa: ARG002 (as `Access`)
        """Bound nothing."""
        return 0.0

    def look(self, grant: Grant) -> float:  # noqa: ARG002 (as `Access`)
        """Bound nothing."""
        return 0.0

    def leave(self, grant: Grant) -> None:
        """Keep nothing."""
