"""What the gate asks of the part that identifies callers, and the access that lets everybody in.

Access by the file of tokens: looked at again while the service runs, and limits by caller.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

from ledger.core.errors import LedgerError
from ledger.http.service.access.call_allowance import CallAllowance
from ledger.http.service.access.proxies import ProxyHeader
from ledger.http.service.access.token_file import TokenFile, read_tokens
from ledger.http.service.access.tokens import ANYONE, TokenGrant, bearer_in, grant_named, grant_of
from ledger.runtime.clock import Clock
from ledger.runtime.files import is_mounted_alone
from ledger.runtime.threads import SECONDS_MAX, ThreadedCall


class Access(Protocol):
    """Tells callers by their tokens, and how much each may do."""

    @property
    def proxy(self) -> ProxyHeader | None:
        """The header in which a proxy names callers, if one does."""

    def grant(self, authorization: str | None) -> TokenGrant | None:
        """Return what a caller may do; None if its token is not valid."""

    def named(self, name: str) -> TokenGrant | None:
        """Return what a caller of this name may do; None if there is none, or none any more."""

    async def keep(self) -> None:
        """Read again, while the service runs, who may do what."""

    def tell_unread(self, told: Callable[[], None]) -> None:
        """Call this at each try to read again who may do what that fails."""

    def is_stale(self) -> bool:
        """Return whether that could not be read again for too long to trust what was read."""

    def enter(self, grant: TokenGrant) -> float:
        """Begin a request of a caller: return 0, or when it may be tried again, in seconds."""

    def look(self, grant: TokenGrant) -> float:
        """Count another look of a request that goes on: 0, or in how many seconds it may be."""

    def leave(self, grant: TokenGrant) -> None:
        """End a request that `enter` began, or one that asked for no token."""


class OpenAccess:
    """Lets everybody do everything: for a service that only this machine reaches."""

    proxy = None

    def grant(self, authorization: str | None) -> TokenGrant | None:  # noqa: ARG002 (as `Access`)
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

    def enter(self, grant: TokenGrant) -> float:  # noqa: ARG002 (as `Access`)
        """Bound nothing."""
        return 0.0

    def look(self, grant: TokenGrant) -> float:  # noqa: ARG002 (as `Access`)
        """Bound nothing."""
        return 0.0

    def leave(self, grant: TokenGrant) -> None:
        """Keep nothing."""


LOOK_SECONDS = 1.0
"""How often the file is looked at."""

STALE_SECONDS = 30.0
"""After so long without a read that succeeds an instance is not ready: a token may be revoked."""

log = logging.getLogger(__name__)


class FileAccess:
    """Tells callers by the tokens of a file.

    A file that is replaced counts once `keep` has looked at it: a token that was revoked ends,
    without a restart. One that cannot be read leaves what was read before. It is read again at each
    look, so that no moment without a free descriptor, or of a file half written, keeps a token
    alive. Requests never look at the file: one on a mount that hangs holds up none of them.
    """

    def __init__(self, path: Path, clock: Clock, *, look_seconds_max: float = SECONDS_MAX) -> None:
        """Read the file.

        Raises:
            LedgerError: it cannot be read, or breaks the form.
        """
        self._path = path
        self._clock = clock
        self._stamp = self._stamp_now()
        self._file = read_tokens(path)
        self._looking = ThreadedCall(
            self._changed, what=f"a look at {path}", seconds_max=look_seconds_max
        )
        self._unread_since: float | None = None
        self._on_unread: list[Callable[[], None]] = []
        if is_mounted_alone(path):
            log.warning(
                "%s is mounted by itself: a file that takes its place, as `ledger token revoke`"
                " makes one, is not seen here; mount its folder",
                path,
            )
        self._allowances: dict[str, CallAllowance] = {}

    @property
    def proxy(self) -> ProxyHeader | None:
        """The header in which a proxy names callers, if the file has one."""
        return self._file.proxy

    def grant(self, authorization: str | None) -> TokenGrant | None:
        """Return what the token of an Authorization header allows; None if it is not valid."""
        token = bearer_in(authorization)
        if token is None:
            return None
        return grant_of(token, self._file.records, self._clock.now())

    def named(self, name: str) -> TokenGrant | None:
        """Return what the newest valid token of a name allows; None if there is none."""
        return grant_named(name, self._file.records, self._clock.now())

    async def keep(self) -> NoReturn:
        """Look at the file every `LOOK_SECONDS`, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await self.look_again()

    async def look_again(self) -> None:
        """Read the file again if it was replaced, or the last read failed."""
        began = self._clock.monotonic()
        try:
            changed = await self._looking.result()
        except LedgerError as error:
            self._note_unread(began, error)
            return
        if changed is not None:
            self._stamp, self._file = changed
        if self._unread_since is not None:
            self._unread_since = None
            log.info("%s was read again", self._path)

    def tell_unread(self, told: Callable[[], None]) -> None:
        """Call this at each try to read the file again that fails."""
        self._on_unread.append(told)

    def is_stale(self) -> bool:
        """Return whether the file could not be read again for too long to trust what was read."""
        since = self._unread_since
        return since is not None and self._clock.monotonic() - since >= STALE_SECONDS

    def enter(self, grant: TokenGrant) -> float:
        """Begin a request of a caller: return 0, or when it may be tried again, in seconds."""
        return self._allowance(grant).enter(self._clock.monotonic()) if _is_limited(grant) else 0.0

    def look(self, grant: TokenGrant) -> float:
        """Count another look of a request that goes on: 0, or in how many seconds it may be."""
        return self._allowance(grant).look(self._clock.monotonic()) if _is_limited(grant) else 0.0

    def leave(self, grant: TokenGrant) -> None:
        """End a request that `enter` began."""
        if _is_limited(grant):  # else it was not counted, whatever its name is allowed by now
            self._allowances[grant.name].leave()

    def _allowance(self, grant: TokenGrant) -> CallAllowance:
        allowance = self._allowances.get(grant.name)
        if allowance is None:
            allowance = self._allowances[grant.name] = CallAllowance(grant.rate, grant.at_once)
        allowance.rate, allowance.at_once = grant.rate, grant.at_once
        return allowance

    def _changed(self) -> tuple[tuple[int, ...] | None, TokenFile] | None:
        """Return the file with its stamp; None if it is the one that was read last.

        Raises:
            LedgerError: it cannot be read, or breaks the form.
        """
        stamp = self._stamp_now()
        if stamp == self._stamp and self._unread_since is None:
            return None
        return stamp, read_tokens(self._path)

    def _note_unread(self, now: float, error: LedgerError) -> None:
        if self._unread_since is None:
            self._unread_since = now
            log.error("tokens stay as they were read before, and are tried each second: %s", error)
        for told in self._on_unread:
            told()

    def _stamp_now(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _is_limited(grant: TokenGrant) -> bool:
    return grant.rate is not None or grant.at_once is not None
