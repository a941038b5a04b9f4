"""Until when a request may be signed, because of what was read before it.

A process acts on what it knows of the table's contract. It may be suspended for any time between
that knowledge and its next request, so when a request is signed, the validity of the block around
it is checked::

    process     reads contract ..... suspended for an hour ..... signs | sends
    table                       the contract changes, for all            against the old terms

Elapsed time and the time of day both count, so neither a suspension nor a clock that is set back
extends it.
"""

from contextvars import ContextVar
from datetime import datetime

from ledger.core.contract import Validity
from ledger.core.errors import ContractStale
from ledger.runtime.binding import Binding
from ledger.runtime.clock import Clock

_Bound = tuple[Validity, Clock] | None
_bound: ContextVar[_Bound] = ContextVar("_bound", default=None)


class signed_within(Binding[_Bound]):  # noqa: N801 (used as a function is)
    """Send no request inside the block that is signed after the validity has ended."""

    __slots__ = ()
    variable = _bound

    def __init__(self, validity: Validity | None, clock: Clock) -> None:
        super().__init__(None if validity is None else (validity, clock))


def has_validity() -> bool:
    """Return whether requests here have a last moment to be signed."""
    return _bound.get() is not None


def validity_here() -> Validity | None:
    """Return the validity around requests here; None if there is none."""
    bound = _bound.get()
    return None if bound is None else bound[0]


def check_validity(signed: datetime) -> None:
    """Check the validity around a request that was signed at this time of day.

    Raises:
        ContractStale: it has ended; the request must not be sent.
    """
    bound = _bound.get()
    if bound is None:
        return
    validity, clock = bound
    if validity.is_over(signed, elapsed=clock.monotonic()):
        raise ContractStale(
            f"the table's contract was valid until {validity.until.isoformat()} at the"
            " latest, so the request was not sent: repeat the call"
        )
