"""Every error that the ledger and the compactor raise, in one tree; all are names of `ledger`.

::

    LedgerError
    ├── InvalidInput (ValueError)   a value passed in breaks a rule; nothing was written
    │   ├── InvalidAmount           not an exact number
    │   ├── AmountOverflow          exact, but beyond 38 digits or DynamoDB's range
    │   ├── InvalidCounter          not a counter id
    │   ├── InvalidEntry            key, time, note or size breaks a rule
    │   │   ├── UntimedKey          the key carries no time, and none came with it
    │   │   └── Unbalanced          the legs of a transfer do not sum to 0
    │   ├── StateConflict           the state of what it is about does not allow the call
    │   │   ├── MethodConflict      the table keeps this counter by another method
    │   │   └── RegionConflict      another region writes this counter
    │   ├── RetryHorizonPassed      too late to repeat this change safely
    │   │   └── NeverApplied        and it was never applied, in any region
    │   ├── BookFull                a book has no room for another account
    │   └── BrokenRow               a row of an import cannot be read
    ├── KeyConflict                 the same id already stands for another change
    ├── OutcomeUnknown              no answer in time: the change may or may not be there
    ├── NotSent                     the call ended before anything was sent; nothing was written
    ├── DamagedItem                 an item in the table breaks the ledger's form
    │   └── NetVanished             what was merged is no longer counted in the table
    ├── ReadTooSlow                 no read finished within `read_deadline` or `timeout`
    ├── SettingsError               regions.yaml, or a variable, breaks a rule
    │   └── ContractConflict        a setting differs from the table's contract
    ├── ContractMissing             the table has no contract yet
    ├── ContractDamaged             the contract's item was edited or cut
    ├── ContractChangeRefused       a change of the contract would break a promise, or has to wait
    ├── UpgradeNeeded               the table's items are newer than this release
    ├── PackageMissing (ImportError)  a package of an extra is not installed
    ├── BudgetExceeded              a service's answer for a refusal, which is a value elsewhere
    ├── BudgetMissing               the budget has no limit yet
    ├── BudgetUndecided             a limit that decides a window's shares is only announced
    ├── LeaseLost                   another owner holds, or may hold, the lease
    ├── LaneFenced                  another worker continues this lane of a pipeline
    ├── LaneClosed                  an operator took this lane of a pipeline out of service
    ├── FormConflict                a lane was left with a batch under way under other settings
    ├── LeftOut                     the source skipped records that a pipeline had begun
    ├── FeedBehind                  what follows a cursor of the feed has left the stream
    ├── ImportRefused               bad rows, imported another way, or begun before a loss
    ├── ArchiveError                the archive did not do what was asked
    │   ├── ArchiveMissing          it has no object of this name
    │   └── ArchiveDamaged          an object is not what was written, or a link does not hold
    ├── LocalTableError             the local global table cannot do what was asked
    └── StoreError                  DynamoDB did not do what was asked
        ├── Unreachable             no connection, or no answer
        ├── Throttled               still throttled after all tries
        ├── AccessDenied            credentials missing, wrong or not allowed
        ├── TableMissing            the table is not in this region
        ├── RequestRefused          DynamoDB found the request wrong
        │   └── TokenReused         a request token stands for another transaction
        ├── ClockOff                this machine's clock differs from a region's beyond the skew
        ├── ContractStale           the contract was read too long ago, and cannot be read now
        ├── SignedTooLate           a write would be signed too late, so it was not sent
        ├── HomeMoving              the home region is about to change, so merging waits
        ├── ReplicasDiffer          the replicas are not those of the contract, or one is disabled
        └── RegionUnreadable        a region cannot be read, so merging waits

Each answers the first questions of a caller: `outcome`, whether the change of the call was made,
and `retryable`, whether the same call may be made again.

Expected outcomes of one step (applied, rejected, unknown) are values, not errors: see
`ledger.store.writes`.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Self

from ledger.core.values import Entry

Outcome = Literal["not_applied", "unknown"]


class LedgerError(Exception):
    """The base of all errors of the ledger; the message is one line.

    `outcome` is "not_applied" where this call wrote nothing of the change that the error is about,
    and "unknown" where it may have; past the retry horizon an earlier call may have. `retryable` is
    True where the same call, made again now or a little later, is harmless and may succeed; else
    something has to change first, or the call would count twice. `unread` is of a message with what
    another call wrote: a counter, and the message for those who may not read that. An error can be
    copied and pickled with all that it carries.
    """

    outcome: Outcome = "not_applied"
    retryable: bool = False
    unread: tuple[str, str] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[LedgerError], args: tuple[Any, ...], state: dict[str, Any]) -> LedgerError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidInput(LedgerError, ValueError):
    """A value passed in breaks a rule; nothing was written."""


class InvalidAmount(InvalidInput):
    """An amount is not an exact int or Decimal."""


class AmountOverflow(InvalidInput):
    """An exact amount does not fit in 38 digits or in DynamoDB's range of exponents.

    Of a change also where a digit is beyond the 38th before or after the point. Of a total: a
    change is far too large or too fine; `history` shows it, `reverse` undoes it.
    """


class InvalidCounter(InvalidInput):
    """A counter id breaks a rule."""


class InvalidEntry(InvalidInput):
    """A key, time, note or size of an entry breaks a rule."""


class UntimedKey(InvalidEntry):
    """A key carries no time, and none came with it: a repeat could count the change twice."""


class Unbalanced(InvalidEntry):
    """The legs of a transfer do not sum to 0 in an asset."""


class BookFull(InvalidInput):
    """A book has no room for another account; transfers between those that it has go on.

    This call wrote nothing. Of a transfer with a key `outcome` is unknown: an earlier call may
    have made it.
    """


class StateConflict(InvalidInput):
    """What the call is about is in a state that does not allow it; this call wrote nothing.

    Of a hold that is not there (any more) `outcome` is unknown: an earlier call may have resolved
    it.
    """


class MethodConflict(StateConflict):
    """The table keeps the counter in items of another method; nothing was written."""


class RegionConflict(StateConflict):
    """Another region writes the counter, which only one may; nothing was written."""


class RetryHorizonPassed(InvalidInput):
    """The change is older than the retry horizon: repeating it could count it twice.

    `entry` is what it would have been written as. Whether it was, before, is not known. With an
    archive it is `retryable` if the same call gets an answer once all of that time is merged.
    """

    outcome: Outcome = "unknown"

    def __init__(self, message: str, *, entry: Entry | None = None) -> None:
        super().__init__(message)
        self.entry = entry


class NeverApplied(RetryHorizonPassed):
    """The change is past the retry horizon, and was never applied: a new key is safe."""

    outcome: Outcome = "not_applied"


class BrokenRow(InvalidInput):
    """A row of an import cannot be read, or a value in it breaks a rule."""


class KeyConflict(LedgerError):
    """The same id already stands for another change.

    `ours` is the change that was refused, `theirs` the one in the table; None from a service whose
    caller may not read it. Of a call with several changes `outcome` is unknown: the others may be
    written.
    """

    def __init__(self, message: str, *, ours: Entry, theirs: Entry | None) -> None:
        super().__init__(message)
        self.ours, self.theirs = ours, theirs
        said = f"counter {ours.counter!r} id {ours.id}: the key stands for another change"
        self.unread = ours.counter, said


class OutcomeUnknown(LedgerError):
    """No answer came in time: the changes in `entries` may or may not be in the table.

    Until the retry horizon passes, `Ledger.retry` writes the same entries again without harm;
    `together` is True if they were to be written all or none. `retryable` is True if the same call
    is as harmless, since it names its changes (by keys, a token, an entry); without a name it would
    count them a second time.
    """

    outcome: Outcome = "unknown"

    def __init__(
        self,
        message: str,
        *,
        entries: Sequence[Entry],
        together: bool = False,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.entries: tuple[Entry, ...] = tuple(entries)
        self.together = together
        self.retryable = retryable


def safe_repeat(*, is_named: bool) -> str:
    """Return what may be called again after an `OutcomeUnknown`, for its message."""
    # Without a name the same call would make new ids, and count a second time.
    return "the same call" if is_named else "Ledger.retry"


class NotSent(LedgerError):
    """The call ended before anything was sent: nothing was written, and nothing will be.

    By its `timeout`, the ledger's closing, or the end of what the process knows of the table's
    contract; a spend also where no grant lives long enough for it.
    """

    retryable = True


class DamagedItem(LedgerError):
    """An item in the table breaks the ledger's form; totals that need it are not returned."""


class NetVanished(DamagedItem):
    """The net change of a collection is gone, or counts less than this process has seen."""


class ReadTooSlow(LedgerError):
    """No read of what was asked finished within `read_deadline`, or the call's `timeout`."""

    retryable = True


class SettingsError(LedgerError):
    """The settings break a rule; the message names file, line and rule where it can.

    `problems` lists every broken rule found, one line each; the message is the first.
    """

    def __init__(self, message: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems: tuple[str, ...] = tuple(problems) or (message,)


class ContractConflict(SettingsError):
    """A setting differs from the table's contract, which holds it for all processes."""


class ContractMissing(LedgerError):
    """The table has no contract: `ledger table adopt` writes it from the settings."""


class ContractDamaged(LedgerError):
    """The item of the table's contract is incomplete, or was edited by hand."""


class ContractChangeRefused(LedgerError):
    """A change of the contract would break a promise, or another change is still pending."""


class PackageMissing(LedgerError, ImportError):
    """A package of an extra is not installed; the message names both."""


class UpgradeNeeded(LedgerError):
    """The table's items are of a newer format than this release reads and writes."""


class BudgetExceeded(LedgerError):
    """The budget has less than is wanted: nothing was spent.

    The service answers so; the library, and its client, return `Refused`. `members` are those of
    the problem: the budget, what was wanted, what is left here, and elsewhere.
    """

    members: Mapping[str, str | bool] = MappingProxyType({})


class BudgetMissing(LedgerError):
    """The budget has no limit, as far as this region shows: create it first."""


class BudgetUndecided(LedgerError):
    """A limit that would decide a window's shares is announced, and not in force yet."""

    retryable = True


class LeaseLost(LedgerError):
    """Another owner holds the lease, or may hold it by now."""


class LaneFenced(LedgerError):
    """Another worker moved the lane's committed position: nothing of the batch was committed."""

    retryable = True


class LaneClosed(LedgerError):
    """An operator took the lane out of service: nothing of it is committed any more."""


class FormConflict(LedgerError):
    """The lane was left with a batch under way that was read under other settings."""


class LeftOut(LedgerError):
    """The source skipped records that were begun and not committed: the lane must not go on."""


class FeedBehind(LedgerError):
    """What follows the cursor may have left the table's stream: a cursor holds for 23 hours."""


class ImportRefused(LedgerError):
    """The import would not be exact, so nothing, or nothing more, was written."""

    outcome: Outcome = "unknown"


class ArchiveError(LedgerError):
    """The archive did not do what was asked; `reason` is why, as a word for metrics."""

    retryable = True
    reason: str = "failed"

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        if reason:
            self.reason = reason


class ArchiveMissing(ArchiveError):
    """The archive has no object of this name."""

    retryable = False
    reason = "missing"


class ArchiveDamaged(ArchiveError):
    """An object of the archive is not what was written, or a link of a chain does not hold."""

    retryable = False
    reason = "damaged"


class LocalTableError(LedgerError):
    """The local global table cannot do what was asked."""


class StoreError(LedgerError):
    """DynamoDB did not do what was asked; `requests` were sent before it was given up.

    `code` is AWS's own error code (`ThrottlingException`; for one of several statements
    `ThrottlingError`, without `Exception`), for logs and alarms. It is None if the error does not
    come from an answer of AWS.
    """

    retryable = True
    requests: int = 1
    code: str | None = None


class Unreachable(StoreError):
    """There was no connection to the region, no answer, or no room there for one more credit."""

    @classmethod
    def unanswered(cls, text: str) -> Self:
        """Return the error of a write without an answer, which may have been applied."""
        error = cls(text)
        error.outcome = "unknown"
        return error


class Throttled(StoreError):
    """The table still throttled the request after every try allowed.

    `limits` are those that DynamoDB says were exceeded, in its words, if it says so. Of
    `KeyRangeThroughputExceeded`, a hot key, `counters` are the counters in the request: shard them.
    """

    limits: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()


class AccessDenied(StoreError):
    """The credentials are missing, wrong, or not allowed to do this."""

    retryable = False


class TableMissing(StoreError):
    """The table does not exist in this region."""

    retryable = False


class RequestRefused(StoreError):
    """DynamoDB rejected the request itself as invalid."""

    retryable = False


class TokenReused(RequestRefused):
    """The client request token stands for another transaction of the last ten minutes."""


class ClockOff(StoreError):
    """This machine's clock is off by more than `clock_skew`; nothing was written or merged.

    `offset_seconds` is how far it is ahead of the clock of `region`, to half a second.
    """

    retryable = False

    def __init__(self, message: str, *, region: str, offset_seconds: float) -> None:
        super().__init__(message)
        self.region = region
        self.offset_seconds = offset_seconds


class ContractStale(StoreError):
    """The table's contract was read too long ago to act under it, and cannot be read again."""


class SignedTooLate(StoreError):
    """A write would have been signed later than it may be, so it was not sent, nor will be."""


class ReplicasDiffer(StoreError):
    """The table has other replicas than its contract, or one does not replicate: merging waits."""


class HomeMoving(StoreError):
    """The table's home region is about to change: merging waits until the change is in force."""


class RegionUnreadable(StoreError):
    """A region could not be read, so nothing is merged meanwhile; `region` is its name."""

    def __init__(self, region: str, cause: StoreError) -> None:
        super().__init__(f"{region} cannot be read, so merging waits: {cause}")
        self.region = region
        self.code = cause.code
