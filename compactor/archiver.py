"""Archiving: entries go into the archive before their fold is sent.

::

    look: observe ── decide ── a segment, its place ── hold ── act: put the object, read it ── fold

The segments of many collections share an object. A segment's place is known as soon as it is added,
so the held fold already names it; the object is put when the first of its folds is about to be
sent, or once it is full, and read back. A fold that loses its race, or is never sent, leaves a
segment that no net names: `ledger archive sweep` removes objects that have no other.

A fold is signed within an hour of its object's beginning, so a segment that no net names a day
later never will be named.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import anyio

from compactor.archive_object import ArchiveObject
from compactor.merge_plan import MergeRules, net_of_nothing
from compactor.metrics import CompactorMetrics
from compactor.observation import CollectionViews
from ledger.core import archive_pointers, ids
from ledger.core.archive_pointers import ArchiveState
from ledger.core.entry import Item, entry_id
from ledger.core.errors import ArchiveDamaged, ArchiveError, ContractConflict
from ledger.core.fold import Collection, named_by
from ledger.core.ids import EPOCH, MICROSECOND, SUFFIX_BITS
from ledger.core.values import NetChange
from ledger.reads.archive import objects
from ledger.reads.archive.access import archived_of
from ledger.reads.archive.places.port import Place as ArchivePlace
from ledger.reads.archive.segments import head_with, microseconds, segment_of, to_lines
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all

OBJECT_BYTES = 4 * 1024 * 1024
"""An object is full from this size on; it holds whole segments."""
SALT_BITS = 128


class PendingSegment:
    """How long folds have waited for the archive, across passes."""

    def __init__(self, metrics: CompactorMetrics) -> None:
        self._metrics = metrics
        self._since: float | None = None

    def begins(self, now: float) -> None:
        """Note that the archive failed, at a monotonic time."""
        self._since = now if self._since is None else self._since
        self._metrics.archive_waiting.set(now - self._since)

    def ends(self) -> None:
        """Note that nothing waits for it."""
        self._since = None
        self._metrics.archive_waiting.set(0)


class Archiver:
    """Puts the entries of folds into all places of an archive."""

    def __init__(
        self,
        places: Sequence[ArchivePlace],
        *,
        urls: tuple[str, ...],
        services: Services,
        metrics: CompactorMetrics,
        waiting: PendingSegment,
    ) -> None:
        self._places = places
        self._metrics = metrics
        self._waiting = waiting
        self._clock = services.clock
        self._random = services.randomness
        self.urls = urls
        self._current: ArchiveObject | None = None
        self._lock = anyio.Lock()

    def add(
        self, observed: CollectionViews, fold: NetChange, rules: MergeRules
    ) -> tuple[NetChange, ArchiveObject | None]:
        """Return a fold that names the archive's segment of its entries, and that segment's object.

        None if the fold adds no entries. Before the fold is sent, the object must be `put`.

        Raises:
            DamagedItem: the net's head of its archive cannot be read.
        """
        observation = observed.observation
        net, partition = observation.net, observation.partition
        before = head_of(net, partition)
        known = {*named_by(net)}
        new = [key for key in named_by(fold) if key not in known]
        settled = settled_upto(observed, new, rules)
        if not new:
            head = replace(before, settled=max(before.settled, settled))
            return replace(fold, archive=archive_pointers.to_bytes(head)), None
        items = _items(observation.views[rules.home], new)
        salts = [self._random.getrandbits(SALT_BITS).to_bytes(SALT_BITS // 8, "big") for _ in items]
        segment = segment_of(
            partition,
            before,
            items,
            salts,
            fold=fold,
        )
        has_notes = any(line.note is not None for line in segment.lines)
        lines = to_lines(segment)
        if len(lines) > objects.LINES_BYTES_MAX:
            return fold, self._too_long(partition, len(lines))
        packed = (objects.with_slack if has_notes else objects.member)(lines)
        current = self._open()
        place = current.add(packed)
        current.index.append(
            objects.Indexed(
                partition,
                segment.number,
                segment.previous.hex(),
                segment.chain().hex(),
                place.offset,
                place.length,
                objects.sha256_of(packed),
            )
        )
        current.entries += len(items)
        if current.size >= OBJECT_BYTES:
            self._current = None
        head = head_with(before, segment, place, settled=settled)
        return replace(fold, archive=archive_pointers.to_bytes(head)), current

    async def put(self, made: ArchiveObject) -> None:
        """Put an object in every place and read it back, once; it accepts no more segments.

        One that failed is not tried again: a place that does not answer would hold up each fold.

        Raises:
            ArchiveError: it is not known to be in every place; the fold must not be sent.
        """
        if self._current is made:
            self._current = None
        async with self._lock:
            if made.is_put:
                return
            try:
                await self._put_everywhere(made)
            except ArchiveError as error:
                made.failed = error
                self._waiting.begins(self._clock.monotonic())
                self._metrics.archive_waited.inc()
                raise

    async def _put_everywhere(self, made: ArchiveObject) -> None:
        if made.failed is not None:
            raise made.failed
        data = made.data()
        await run_all(
            [lambda place=place: _put(place, made.name, data) for place in self._places],  # type: ignore[misc]
            at_once=len(self._places),
        )
        made.is_put = True
        made.members.clear()
        made.index.clear()
        self._waiting.ends()
        self._metrics.archived(entries=made.entries, size=len(data))

    def _too_long(self, partition: str, size: int) -> ArchiveObject:
        """Return an object that is never put, so that the fold which needs it is not sent."""
        made = entry_id(self._clock.now(), self._random.getrandbits(SUFFIX_BITS))
        error = ArchiveError(
            f"a fold of {partition!r} would archive {size:,} bytes, and a segment has at most"
            f" {objects.LINES_BYTES_MAX:,}: set compactor.fold_max lower"
        )
        return ArchiveObject(made, failed=error)

    def _open(self) -> ArchiveObject:
        now = self._clock.now()
        if self._current is None or now - self._current.made.at > objects.SIGNED_WITHIN / 2:
            made = entry_id(now, self._random.getrandbits(SUFFIX_BITS))
            self._current = ArchiveObject(made)
        return self._current


async def _put(place: ArchivePlace, name: str, data: bytes) -> None:
    await place.put(name, data)
    if await place.get(name) != data:
        raise ArchiveDamaged(
            f"object {name} in {place.url} is not what was just put there: nothing that it was to"
            " keep is merged"
        )


def head_of(net: NetChange | None, partition: str) -> ArchiveState:
    """Return the head of a collection's chain; for a net without one, that of a new chain.

    Raises:
        DamagedItem: it cannot be read.
    """
    if net is not None and net.archive is None:
        return replace(
            archive_pointers.BEGUN, since=net.until, base_count=net.count, base_change=net.change
        )
    return archived_of(net, partition)


def settled_upto(observed: CollectionViews, folded: Iterable[str], rules: MergeRules) -> int:
    """Return up to which time every entry ever acknowledged is named, folded, or in earlier folds.

    In microseconds since 1970, 0 for none. Measured from when the observation began: a change not
    written by then can no longer be written, if it is older than `settle`. No region was read
    further than `upto`, and an entry that waits, for whatever reason, ends it.
    """
    observation = observed.observation
    limit = (observed.began - timedelta(seconds=rules.settle) - EPOCH) // MICROSECOND
    if observed.upto is not None:
        limit = min(limit, _before(observed.upto))
    counted = {*named_by(observation.net), *folded}
    shown = {key for view in observation.views.values() for key in view.sort_keys}
    waiting = ids.ours(shown - counted)
    return max(0, min([limit, *(_before(key) for key in waiting)]))


def is_unsettled(observed: CollectionViews, asked_until: datetime | None) -> bool:
    """Return whether a net does not yet settle a question: about keys up to a time, None for none.

    Raises:
        DamagedItem: the net's head of its archive cannot be read.
    """
    if asked_until is None:
        return False
    observation = observed.observation
    settled = head_of(observation.net, observation.partition).settled
    return settled < (asked_until - EPOCH) // MICROSECOND


def settling(
    observed: CollectionViews, rules: MergeRules, *, version: str, is_asked: bool = False
) -> NetChange | None:
    """Return an empty fold that advances a net's `settled` time; None while it is recent.

    A counter visited without anything to fold may have been asked about: whether a key of long ago
    was ever applied. So a time that lags by more than `settle` is worth a write; if the question is
    known (`is_asked`), so is each later time, and the first net of a collection.
    """
    observation = observed.observation
    net = observation.net
    if not is_asked and (net is None or net.archive is None):
        return None
    lag = settled_upto(observed, (), rules) - head_of(net, observation.partition).settled
    if lag * MICROSECOND.total_seconds() <= (0.0 if is_asked else rules.settle):
        return None
    if net is None:
        return net_of_nothing(observation, rules, now=observed.began, version=version)
    return replace(net, version=version)


def _before(sort_key: str) -> int:
    """Return the last microsecond before a sort key; 0 if it is not one of ours."""
    return microseconds(sort_key) - 1 if ids.parse(sort_key) is not None else 0


def _items(home: Collection, sort_keys: Iterable[str]) -> list[Item]:
    items = home.items or {}
    return [items[key] for key in sort_keys]


def check_places(regions: Sequence[str | None], *, home: str) -> None:
    """Refuse an archive that is lost together with the home region.

    `regions` are those of its places, None for a place outside of AWS.

    Raises:
        ContractConflict: all of them are in the home region.
    """
    if regions and all(region == home for region in regions):
        raise ContractConflict(
            f"every place of the archive is in the home region {home}, and would be lost with it:"
            " name one in another region, too, by `ledger table set archive`"
        )
