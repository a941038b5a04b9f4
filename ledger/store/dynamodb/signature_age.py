"""No write is sent under a signature later than it allows.

AWS refuses a signed request that arrives more than its validity (`signature_lifetime`) after the
time in its signature. So a repeat can land late only if it was signed late; and a process can
freeze for any time between its look at the clock and the signing::

    writer      now <= horizon ..... frozen for an hour ..... signs | sends
    compactor                fold | delete | forget                        counted twice

The time in the signature is therefore checked after signing, before sending: a freeze before the
check is detected here, and after a freeze behind it AWS refuses the request.
"""

from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from ledger.core.errors import SignedTooLate
from ledger.runtime.binding import Binding
from ledger.runtime.validity import check_validity, has_validity

DATE_HEADER = "X-Amz-Date"
_DATE_FORM = "%Y%m%dT%H%M%SZ"
_limit: ContextVar[datetime | None] = ContextVar("_limit", default=None)


class not_after(Binding[datetime | None]):  # noqa: N801 (used as a function is)
    """Send no request inside the block whose signature is later than the limit, if there is one."""

    __slots__ = ()
    variable = _limit


def check(signed: datetime) -> None:
    """Check the time in a signature, before its request is sent.

    Raises:
        SignedTooLate: it is later than `not_after` allows; nothing must be sent.
        ContractStale: the validity around it has ended; nothing must be sent.
    """
    check_validity(signed)
    limit = _limit.get()
    if limit is not None and signed > limit:
        raise SignedTooLate(
            f"signed at {signed.isoformat()}, later than {limit.isoformat()}, so it was not sent"
        )


def refuse_late(request: Any, **_: object) -> None:
    """Handle botocore's `before-send` event: check the time in the signature.

    Raises:
        SignedTooLate: it is later than `not_after` allows; nothing is sent.
    """
    if _limit.get() is None and not has_validity():
        return
    header = request.headers[DATE_HEADER]
    text = header.decode() if isinstance(header, bytes) else str(header)
    check(datetime.strptime(text, _DATE_FORM).replace(tzinfo=UTC))
