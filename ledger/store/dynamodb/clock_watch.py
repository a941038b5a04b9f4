"""Measures this machine's clock against a region's, from answers to ordinary requests.

Every transport hands on the headers of an answer, also of errors; the rules are in
`ledger.core.clock_offset`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from ledger.core.clock_offset import ClockOffset, MeasuredOffset, Quiet, measured
from ledger.core.http_times import date_of
from ledger.runtime.clock import Clock

DATE_HEADER = "date"


class ClockWatch:
    """The measurement of this machine's clock by the answers of one region.

    `on_change` is called with each better or newer measurement.
    """

    def __init__(
        self, clock: Clock, *, on_change: Callable[[ClockOffset], None] = lambda _offset: None
    ) -> None:
        self._clock = clock
        self._on_change = on_change
        self._known: MeasuredOffset | None = None
        self._quiet: Quiet | None = None

    @property
    def offset(self) -> ClockOffset | None:
        """How far the clock is ahead of the region's; None before the first answer."""
        return None if self._known is None else self._known.offset

    def now(self) -> datetime:
        """Return the time to note before a request is sent."""
        return self._clock.now()

    def answered(self, sent: datetime, response: Mapping[str, Any]) -> None:
        """Measure by an answer, or by the content of an error, in botocore's form."""
        headers: Mapping[str, str] = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        text = headers.get(DATE_HEADER)
        if text is None:
            return
        before, now = self._known, self._clock.now()
        if self._quiet is not None and self._quiet.covers(text, sent, now):
            return
        date = date_of(text)
        if date is None:
            return
        self._known = after = measured(before, sent=sent, answered=now, date=date)
        if after is None:
            return
        self._quiet = Quiet.of(after, text, date)
        if after is not before:
            self._on_change(after.offset)
