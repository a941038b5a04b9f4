"""Every error that the ledger raises, in one tree.

::

    LedgerError
    ├── InvalidInput (ValueError)   the caller's value breaks a rule; nothing was written
    │   ├── InvalidAmount           not an exact number
    │   ├── AmountOverflow          exact, but beyond 38 digits or DynamoDB's range
    │   ├── InvalidCounter          not a counter id
    │   ├── InvalidEntry            key, time, note or size break a rule
    │   └── RetryHorizonPassed      too late to repeat this change safely
    ├── KeyConflict                 the same id already stands for another change
    ├── OutcomeUnknown              no answer in time: the change may or may not be there
    ├── DamagedItem                 an item in the table breaks the ledger's form
    ├── ReadTooSlow                 no read finished within `read_deadline`
    ├── SettingsError               regions.yaml, or a variable, breaks a rule
    ├── LeaseLost                   another owner holds, or may hold, the lease
    ├── LaneOvertaken               another worker goes on with this lane of a pipeline
    ├── ImportRefused               the file has bad rows, or was imported another way
    ├── LocalTableError             the local global table cannot do what was asked
    └── StoreError                  DynamoDB did not do what was asked
        ├── Unreachable             no connection, or no answer
        ├── Throttled               still throttled after all tries
        ├── AccessDenied            credentials missing, wrong or not allowed
        ├── TableMissing            the table is not in this region
        └── RequestRefused          DynamoDB found the request wrong
            └── TokenReused         a request token stands for another transaction

What a caller can meet in normal use of one step (applied, rejected, unknown) is a value, not an
error: see `ledger.store.port`.
"""

from collections.abc import Sequence

from ledger.core.values import Entry


class LedgerError(Exception):
    """Something that the ledger cannot do, said in one line."""


class InvalidInput(LedgerError, ValueError):
    """A value that was handed in breaks a rule; nothing was written."""


class InvalidAmount(InvalidInput):
    """An amount is not an exact int or Decimal."""


class AmountOverflow(InvalidInput):
    """An exact amount does not fit in 38 digits or in DynamoDB's range of exponents."""


class InvalidCounter(InvalidInput):
    """A counter id breaks a rule."""


class InvalidEntry(InvalidInput):
    """A key, time, note or size of an entry breaks a rule."""


class RetryHorizonPassed(InvalidInput):
    """The change is older than the retry horizon: repeating it could count it twice."""


class KeyConflict(LedgerError):
    """The same id already stands for another change.

    `ours` is the change that was refused, `theirs` the one that is in the table.
    """

    def __init__(self, message: str, *, ours: Entry, theirs: Entry) -> None:
        super().__init__(message)
        self.ours = ours
        self.theirs = theirs


class OutcomeUnknown(LedgerError):
    """No answer came in time: the changes in `entries` may or may not be in the table.

    Until the retry horizon passes, `Ledger.retry` writes the same entries again without harm;
    `together` tells whether they were to be written all or none.
    """

    def __init__(self, message: str, *, entries: Sequence[Entry], together: bool = False) -> None:
        super().__init__(message)
        self.entries = tuple(entries)
        self.together = together


class DamagedItem(LedgerError):
    """An item in the table breaks the ledger's form, so no total that rests on it is given."""


class ReadTooSlow(LedgerError):
    """No read of the whole collection finished within `read_deadline`."""


class SettingsError(LedgerError):
    """The settings break a rule; the message names file, line and rule where it can.

    `problems` has every broken rule that was found, each in one line; the message is the first.
    """

    def __init__(self, message: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems) or (message,)


class LeaseLost(LedgerError):
    """The lease is held, or may be held, by another owner."""


class LaneOvertaken(LedgerError):
    """Another worker moved the lane's committed position: nothing of the batch was committed."""


class ImportRefused(LedgerError):
    """The import would not be exact, so nothing, or nothing more, was written."""


class LocalTableError(LedgerError):
    """The local global table cannot do what was asked."""


class StoreError(LedgerError):
    """DynamoDB did not do what was asked."""


class Unreachable(StoreError):
    """There was no connection to the region, or no answer from it."""


class Throttled(StoreError):
    """The table still throttled the request after every try allowed."""


class AccessDenied(StoreError):
    """The credentials are missing, wrong, or not allowed to do this."""


class TableMissing(StoreError):
    """The table does not exist in this region."""


class RequestRefused(StoreError):
    """DynamoDB found the request itself wrong."""


class TokenReused(RequestRefused):
    """The client request token stands for another transaction of the last ten minutes."""
