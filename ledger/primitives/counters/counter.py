"""A counter as one protocol, however it is kept: outcomes and guarantees as values.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from ledger.core.errors import InvalidInput
from ledger.core.reconciliation import Reconciled
from ledger.core.tokens import Details, Marker
from ledger.store.writes import Outcome, Rejected, Unknown

ReconcileOutcome = Reconciled | Rejected | Unknown
"""The result of a correction by a physical count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantees:
    """The guarantees of a method, in plain words, and the cost of an uncontended `add` and `value`.

    `unknown`: the value after unknown outcomes. `tokens`: what a repeated token does. `thresholds`:
    what `minimum` and `maximum` mean. `regions`: what happens when two write. `changes`: which
    are possible. `write_units` and `read_units` are of one `add` of a small item in one region,
    `value_units` of one consistent `value`; `cost` says what else counts.
    """

    unknown: str
    tokens: str
    thresholds: str
    regions: str
    cost: str
    write_units: float
    read_units: float
    value_units: float
    changes: str = "any exact amount of up to 38 digits"


class Counter(Protocol):
    """A counted value in one region's table, beginning at 0.

    Any number of processes may use it at once, through a `Counter` each.
    """

    @property
    def guarantees(self) -> Guarantees:
        """The guarantees of this way of counting."""

    async def add(
        self,
        change: int | Decimal,
        *,
        token: str | None = None,
        details: Details | None = None,
        timeout: float | None = None,
    ) -> Outcome:
        """Change the value; `token` names the change, so that a repeat can be recognized.

        `details` are the caller's, kept with the change by methods with markers. A repeat under the
        token then is `Rejected` with what was first made (`first`): the same details, or none, as
        "applied before", other ones as a "token conflict".

        With `timeout` the call ends after that many seconds, with what is true by then: `Unknown`,
        or `NotSent`. An `asyncio.timeout` around it cancels it, and with it the token that it made.

        Raises:
            InvalidInput: change, token or details break a rule, or the method keeps no details;
                nothing was written.
            AmountOverflow: the value would not fit in 38 digits; nothing was written.
            DamagedItem: the item in the table is not this counter's.
            NotSent: `timeout` ended before the change was sent; nothing was written.
            OutcomeUnknown: `timeout` ended, and it may be written.
            StoreError: DynamoDB could not do it; nothing was written, unless `outcome` is unknown.
        """

    async def value(self, *, consistent: bool = True, timeout: float | None = None) -> Decimal:
        """Return the value in this region; eventually consistent at half the price.

        Raises:
            InvalidInput: `consistent` is not a bool.
            ReadTooSlow: `timeout` seconds ended.
            DamagedItem, StoreError: as `add`.
        """

    async def lookup(self, token: str, *, timeout: float | None = None) -> Marker | None:
        """Return what was made under a token, None if nothing was, or if it is no longer known.

        A region that does not write the counter knows it once its marker has arrived.

        Raises:
            InvalidInput: the token breaks a rule, or the method keeps no markers.
            RegionConflict: the counter was handed over within the last hour, and the token's marker
                may be on its way.
            ReadTooSlow: `timeout` seconds ended.
            DamagedItem, StoreError: as `add`.
        """

    async def reconcile(
        self,
        *,
        counted: int | Decimal,
        at: datetime | None = None,
        value: int | Decimal | None = None,
        reason: str | None = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> ReconcileOutcome:
        """Correct the value to a physical count, once for each; `Reconciled` has the difference.

        `counted` is the quantity found at the moment of the call, or `at` an earlier one: the
        collection knows its total of then, as `Ledger.reconcile` says; of any other method the
        caller gives the `value` of then. `reason` is kept. `token` names the count, by default `at`
        does: repeated, however late, it changes nothing more and returns what was corrected first.

        Raises:
            InvalidInput: a value breaks a rule, or the method cannot know the past that is asked
                for; nothing was written.
            And as `add`.
        """


def keeps_nothing(name: str, what: str) -> InvalidInput:
    """Return the error of a counter that is asked for what only markers have."""
    return InvalidInput(
        f"counter {name!r}: this method keeps no {what}: use method 'marker', or 'marker-sharded'"
    )


SINGLE_ITEM_REGIONS = (
    "One region only may write it. Two that write before they have met lose the changes of one:"
    " the later item wins whole, and no error is raised anywhere."
)
FIRST_USE = (
    " A process reads the counter's layout once, a read unit; the very first one also writes it."
)
AFTER_UNKNOWN = (
    " A threshold that rejects a later call under the token says nothing of an earlier Unknown one"
    ", which may land until its signature has expired, 15 minutes after it was sent."
)
EXACT_LIMITS = "minimum and maximum hold exactly, by a condition of the write."
