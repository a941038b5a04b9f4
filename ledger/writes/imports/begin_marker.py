"""The beginning of an import: a marker that every region shows before its first batch is written.

Replication moves items one by one, so after a home is lost a batch may have arrived only in part::

    marker, no entries    it would be skipped: rows are missing
    entries, no marker    it would be written again: rows count twice

Merged entries can no longer be distinguished, so no comparison can repair that. Every marker
records how many losses of a region the contract named when it was written. Because each region
shows at least one marker of any file of which something was written, the remaining regions know
that the import began before a loss, and it is refused.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from ledger.core.capacity import item_size, write_units
from ledger.core.contract import Terms
from ledger.core.entry import Item
from ledger.core.errors import ImportRefused, RegionUnreadable, StoreError
from ledger.core.keys import IMPORT_PARTITION
from ledger.runtime.services import Services
from ledger.runtime.validity import signed_within
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.retrier import DEADLINE_BACKOFF, Retrier
from ledger.store.writes import Unknown
from ledger.writes.imports.batches import Marking, batch_number, columns_of, losses_of
from ledger.writes.imports.survey import StopSign

MARKER_PAGES_MAX = 100_000
SHOWN_WITHIN = timedelta(seconds=60)
"""How long an import waits for its begin marker to arrive in every region, usually a second."""
_LOOK_SECONDS = 0.1
_LOOK_SECONDS_MAX = 2.0


@dataclass(slots=True)
class BeginMarker:
    """The state of one import while it runs.

    `batches` are those with a known marker, `losses` the fewest that a marker may carry, and `lost`
    the regions that were lost since the oldest marker was written, and accepted.
    """

    batches: set[int]
    losses: int
    lost: tuple[str, ...] = ()
    write_units: int = 0

    def check(self, terms: Terms, marker: Item | None = None) -> None:
        """Check that no region was lost since the import, or the batch of a marker, was begun.

        Raises:
            ImportRefused: one was lost, and that was not accepted.
        """
        known = self.losses
        if marker is not None and not self.lost:
            known = min(known, losses_of(marker))
        if lost := terms.lost[known:]:
            raise _in_doubt(lost, len(self.batches))


class ImportBegin:
    """Reads what every region shows of an import, and makes every region show that it began."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        marking: Marking,
        *,
        services: Services,
        stop: StopSign,
    ) -> None:
        self._store = store
        self._settings = settings
        self._marking = marking
        clock, randomness = services.clock, services.randomness
        self._clock = clock
        self._retrier = Retrier.of(
            store, clock=clock, randomness=randomness, backoff=DEADLINE_BACKOFF
        )
        self._stop = stop

    async def begin(self, others: Mapping[str, Store], *, after_loss: bool) -> BeginMarker:
        """Begin or continue the import of a file; a request to stop ends the wait.

        Raises:
            ImportRefused: it was begun before a loss that is not accepted, or with other columns,
                or a region does not show the begin marker in time; no batch was written.
            RegionUnreadable: a region cannot be read, and might show markers.
            StoreError: home did not do what was asked.
        """
        lost = self._settings.current.terms.lost
        numbers: set[int] = set()
        fewest = len(lost)
        missing: dict[str, Store] = {}
        for region, store in {self._store.region: self._store, **others}.items():
            missing[region] = store
            async for marker in self._markers(region, store, *self._marking.bounds()):
                missing.pop(region, None)
                fewest = min(fewest, losses_of(marker))
                if (number := batch_number(marker)) is not None:
                    numbers.add(number)
        begun = BeginMarker(numbers, fewest)
        if after_loss:
            begun = BeginMarker(numbers, len(lost), lost[fewest:])
        begun.check(self._settings.current.terms)
        if missing:
            begun.write_units = await self._mark(len(lost))
            await self._until_shown(missing, len(lost))
        return begun

    async def _mark(self, losses: int) -> int:
        """Write the begin marker; returns the write units. Whether it exists, the regions show."""
        put = self._marking.begin(losses)
        with signed_within(self._settings.validity, self._clock):
            final = await self._retrier.until_answered(lambda: self._store.write(put))
        return 0 if isinstance(final.outcome, Unknown) else write_units(item_size(put.item))

    async def _until_shown(self, missing: Mapping[str, Store], losses: int) -> None:
        begin = self._clock.monotonic()
        wait = _LOOK_SECONDS
        for region, store in missing.items():
            while not self._stop.asked and not await self._shows(region, store, losses):
                if self._clock.monotonic() - begin >= SHOWN_WITHIN.total_seconds():
                    raise ImportRefused(
                        f"{region} does not show after {SHOWN_WITHIN.total_seconds():g} s that"
                        " this import began, so no batch was written: run the same command again"
                        " when replication continues"
                    )
                await self._clock.sleep(wait)
                wait = min(2 * wait, _LOOK_SECONDS_MAX)

    async def _shows(self, region: str, store: Store, losses: int) -> bool:
        key = self._marking.begin_key(losses)[1]
        return bool([marker async for marker in self._markers(region, store, key, key)])

    async def _markers(
        self, region: str, store: Store, first: str, last: str
    ) -> AsyncIterator[Item]:
        """Read the markers of this file that a region shows, between two sort keys."""
        query = Query(IMPORT_PARTITION, first=first, last=last)
        for _page in range(MARKER_PAGES_MAX):
            try:
                page = await store.query(query)
            except StoreError as error:
                if store is self._store:
                    raise
                raise RegionUnreadable(region, error) from error
            for marker in page.items:
                check_columns(self._marking, columns_of(marker))
                yield marker
            if page.after is None:
                return
            query = query.next(page)
        raise ImportRefused(f"over {MARKER_PAGES_MAX:,} pages of markers: split the file")


def check_columns(marking: Marking, found: str) -> None:
    """Refuse to continue an import that was started with another form of the same bytes.

    Raises:
        ImportRefused: the texts differ.
    """
    if found != marking.columns:
        raise ImportRefused(
            f"this file was imported before as {found or 'something unknown'}, and now as"
            f" {marking.columns}: its rows would be counted twice; use the same options again"
        )


def _in_doubt(lost: tuple[str, ...], batches: int) -> ImportRefused:
    names = ", ".join(dict.fromkeys(lost))
    return ImportRefused(
        f"this import began before the loss of {names}: its rows may have arrived in part, so some"
        " may be missing or count twice when they are imported again; batches with a marker:"
        f" {batches:,}, which does not prove that their rows arrived; compare the counters with"
        " the source, correct them by separate entries, and import what is new as another"
        " file; or accept the markers with `ledger import --after-loss`: rows of those"
        " batches may be missing, and rows of the others may then count twice"
    )
