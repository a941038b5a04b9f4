"""The first stage: brings each record of a batch to its newest version, noting what changes.

::

    batch   newest version of each record --> known state newer? -- yes --> nothing written
                                                 | no
            put, if the version judged by is still there --+-- applied
                     ^                                     |-- rejected: the item that is there --+
                     |                                     `-- unknown: read it ------------------+
                     +----------------------------------------------------------------------------+

Several at a time in few requests (`state_writes`), then what is left one by one.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from ledger.core.errors import LaneFenced, LedgerError, StoreError, Unreachable
from ledger.pipeline.core.age_horizon import AgeHorizon, horizon
from ledger.pipeline.core.category_sums import Changes
from ledger.pipeline.core.items import state_item, state_key, state_of
from ledger.pipeline.core.records import Delivery, Record, RecordForm
from ledger.pipeline.core.state_places import StatePlaces
from ledger.pipeline.core.transitions import State, advanced, between, is_newer
from ledger.pipeline.metrics import StageMetrics
from ledger.pipeline.sources.dead_letters import DeadRecord, LetterSink
from ledger.pipeline.stages.lanes import Lanes
from ledger.pipeline.stages.state_batch import StateBatch, StateCache
from ledger.pipeline.stages.state_writes import (
    ROUNDS_MAX,
    TOGETHER_MIN,
    Due,
    Strangers,
    Todo,
    read_together,
    still_there,
    write_together,
)
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, Put, Rejected

PARKED_TRIES_MAX = 20
"""Tries of the records whose home does not answer; then the lane begins again."""
TRIES_MAX = 50
"""Tries of one record: each rejection means that another lane wrote a newer version."""
PASSED_OVER = (
    "the lane's position had passed it, and its state does not show it: the source went on without"
    " it (a second event source mapping, or a parallelization factor over 1?)"
)
QUICK_TRIES_MAX = 3
"""Tries without a wait: the first finds a record's state, if it was not known."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that the states have taken in: its records, and what their positions changed."""

    after: str
    deliveries: Sequence[Delivery]
    transitions: Sequence[tuple[str, Changes]]


class StateStage:
    """Brings records to their newest versions, each through its home region's store."""

    def __init__(
        self,
        lanes: Lanes,
        form: RecordForm,
        stores: Mapping[str, Store],
        *,
        region: str,
        settings: Settings,
        dead_letters: LetterSink,
        retrier: Retrier,
        metrics: StageMetrics,
    ) -> None:
        self._lanes = lanes
        self.form = form
        self._region = region
        self._regions = frozenset(settings.regions)
        self._stores = stores
        self._pipeline = settings.pipeline.name
        self._settings = settings
        self.places = StatePlaces(settings.pipeline.state_table or "")
        self._in_flight = settings.pipeline.in_flight
        self._dead_letters = dead_letters
        self._retrier = replace(retrier, on_retry=metrics.retry)
        self._metrics = metrics
        self._most = settings.pipeline.cache_max
        self._strangers = Strangers()
        self._states = StateCache(self._most)

    async def apply(
        self, after: str, deliveries: Sequence[Delivery]
    ) -> AsyncGenerator[Prepared, None]:
        """Take in a batch, whose records follow the position `after`; yield what may be committed.

        All that is yielded is durable: states and dead letters. A record whose home does not answer
        is *parked*, with those of the batch that have the same home: the others are written, what
        lies before the first one is yielded, and the rest once that home has answered.

        Raises:
            LedgerError: positions are not in order; a dead letter or a state could not be kept, nor
                in `PARKED_TRIES_MAX` tries a state in another region.
        """
        check_order(after, deliveries)
        batch = await self._judged(deliveries)
        await self._write_states(batch, batch.newest.values())
        await self._look_up(batch)
        if batch.letters:
            await self._dead_letters.add(batch.letters)
        given, tries = 0, 0
        while batch.parked:
            before = batch.first_parked()
            ready = [delivery for delivery in deliveries if after < delivery.position < before]
            if ready:
                prepared = self._prepared(batch, after, ready)
                given += len(prepared.transitions)
                yield prepared
                after = ready[-1].position
            tries += 1
            await self._unpark(batch, tries)
        prepared = self._prepared(
            batch, after, [delivery for delivery in deliveries if delivery.position > after]
        )
        self._count(batch, taken=len(deliveries), given=given + len(prepared.transitions))
        yield prepared

    def _prepared(self, batch: StateBatch, after: str, deliveries: Sequence[Delivery]) -> Prepared:
        upto = deliveries[-1].position
        transitions = [
            transition
            for state in batch.states.values()
            for transition in between(state, self._lanes.lane, after, upto)
        ]
        return Prepared(after, deliveries, transitions)

    async def _unpark(self, batch: StateBatch, tries: int) -> None:
        """Wait, and write the states of parked records if their homes answer by now."""
        if tries > PARKED_TRIES_MAX:
            raise Unreachable(
                f"{len(batch.parked)} records are parked, the first at {batch.first_parked()}:"
                f" {batch.cause}"
            )
        await self._retrier.pause(tries)
        parked, batch.parked, batch.silent = batch.parked, [], set()
        await self._write_states(batch, parked)

    def _horizon(self) -> AgeHorizon:
        """Return which records are too old, by our lane's item."""
        return horizon(self._lanes.known, self.form, self._settings)

    async def _judged(self, deliveries: Sequence[Delivery]) -> StateBatch:
        """Judge records by what is forgotten, once nothing can land that was judged without it."""
        records = [self.form.take(delivery) for delivery in deliveries]
        for _ in range(TRIES_MAX):
            await self._lanes.renew()
            known = self._horizon()
            if known.settled is None or not any(map(known.is_over, records)):
                break
            if (left := (known.settled - self._lanes.now()).total_seconds()) <= 0:
                break
            await self._retrier.clock.sleep(left)
        batch = StateBatch(self._lanes.lane, self._regions, known)
        for delivery, record in zip(deliveries, records, strict=True):
            batch.add(delivery, record)
        return batch

    async def _until(self, batch: StateBatch) -> datetime:
        """Return until when writes may be signed that are judged by what was forgotten then.

        Raises:
            LaneFenced: more is, so the batch is judged again from its beginning.
        """
        await self._lanes.renew()
        if self._lanes.known.forgotten != batch.horizon.forgotten:
            raise LaneFenced(f"lane {self._lanes.lane}: more records are too old by now")
        return self._lanes.until

    def forget(self) -> None:
        """Forget the states that were seen: others have rewritten some of them."""
        self._states = StateCache(self._most)

    async def passed_over(self, deliveries: Sequence[Delivery]) -> None:
        """Keep as dead letters those of records behind the position that no state shows.

        They come again, as a rule, and their states show them; else the source went on without
        them. What could not be taken is a dead letter since it was passed.

        Raises:
            LedgerError: a dead letter could not be kept, or a state not be read.
        """
        letters: list[DeadRecord] = []

        async def look(delivery: Delivery, record: Record) -> None:
            state = self._states.get(record.id)
            if state is None or is_newer(record, state):
                state = await self._read(record.home, record.id)
            if is_newer(record, state):
                lane = self._lanes.lane
                letters.append(DeadRecord(lane, delivery.position, PASSED_OVER, delivery.raw))

        judged = self._horizon().judged
        taken = ((delivery, judged(self.form.take(delivery))) for delivery in deliveries)
        jobs = [partial(look, one, record) for one, record in taken if isinstance(record, Record)]
        if jobs:
            await run_all(jobs, at_once=self._in_flight)
        if letters:
            self._metrics.leave_out("dead", len(letters))
            await self._dead_letters.add(letters)

    async def _look_up(self, batch: StateBatch) -> None:
        """Take in the states of dead letters: another form may have taken what this one cannot."""

        async def look(record_id: str, home: str) -> None:
            state = await self._read(home, record_id)
            if state is not None:
                batch.states[record_id, home] = state

        jobs = [
            partial(look, record_id, home)
            for record_id, homes in batch.dying
            for home in sorted(homes & self._stores.keys())
            if (record_id, home) not in batch.states
        ]
        if jobs:
            await run_all(jobs, at_once=self._in_flight)

    async def _read(self, home: str, record_id: str) -> State | None:
        return await self._read_from(self._stores[home], record_id)

    async def _read_from(self, store: Store, record_id: str) -> State | None:
        """Read a record's state at its own place, or at the one before."""
        key, before = state_key(record_id, self._pipeline), self.places.before
        item = await store.get(self.places.get(key))
        if item is not None or before is None:
            return state_of(item) if item else None
        item = await store.get(Get(key, table=before))
        return replace(state_of(item), is_before=True) if item else None

    async def _write_states(
        self, batch: StateBatch, records: Iterable[tuple[Record, Delivery]]
    ) -> None:
        """Bring records of a batch to the version that they have there, or find a newer one."""
        todo = [Todo(one, delivery, self._states.get(one.id)) for one, delivery in records]
        alone: list[Todo] = []
        is_moving = self.places.before is not None
        if looks := is_moving or self._strangers.are_known:
            todo = [replace(pending, look=pending.state is None) for pending in todo]
        for turn in range(ROUNDS_MAX):
            todo = self._still_due(batch, todo)
            if len(todo) < TOGETHER_MIN or is_moving:
                break
            todo = await self._read_together(batch, todo, alone, meets=looks and not turn)
            todo = await self._write_together(batch, todo, alone, meets=not looks and not turn)
        jobs = [partial(self._advance_or_park, batch, pending) for pending in (*todo, *alone)]
        if jobs:
            await run_all(jobs, at_once=self._in_flight)

    def _still_due(self, batch: StateBatch, todo: Iterable[Todo]) -> list[Todo]:
        """Return those that are newer than the existing ones; the others are recorded."""
        due = []
        for pending in todo:
            record, state = pending.record, pending.state
            if pending.look or state is None or batch.is_due(record, state):
                due.append(pending)
            else:
                self._states.keep(record.id, state)
                batch.found(record, pending.delivery, state)
        return due

    async def _read_together(
        self, batch: StateBatch, todo: Sequence[Todo], alone: list[Todo], *, meets: bool
    ) -> list[Todo]:
        """Read the states to judge by in few requests; returns what is still to be written."""
        looks = [pending for pending in todo if pending.look]
        if not looks:
            return [*todo]
        known, rest = 0, [pending for pending in todo if not pending.look]
        for one, is_read in await read_together(
            self._stores,
            looks,
            pipeline=self._pipeline,
            places=self.places,
            at_once=self._in_flight,
        ):
            (rest if is_read else alone).append(one)
            known += one.state is not None
        if meets:
            self._strangers.meet(len(looks), known)
        return self._still_due(batch, rest)

    async def _write_together(
        self, batch: StateBatch, todo: Sequence[Todo], alone: list[Todo], *, meets: bool
    ) -> list[Todo]:
        """Try to write versions in few requests; returns the rest, judged by what exists.

        A request of several does not return the existing item of one that was not remembered.
        """
        until = await self._until(batch)
        due = [await self._due(batch, pending, until) for pending in todo]
        rest: list[Todo] = []
        met = known = 0
        for one, result in await write_together(
            self._stores,
            due,
            pipeline=self._pipeline,
            places=self.places,
            at_once=self._in_flight,
        ):
            is_stranger, is_refused = one.state is None, isinstance(result, Rejected)
            met, known = met + is_stranger, known + (is_stranger and is_refused)
            if isinstance(result, Applied):
                self._states.keep(one.record.id, one.new)
                batch.found(one.record, one.delivery, one.new)
                continue
            if not (is_stranger and is_refused):
                self._metrics.retry()
            if isinstance(result, StoreError):
                alone.append(Todo(one.record, one.delivery, one.state))
                continue
            found = result.found.get(0) if isinstance(result, Rejected) else None
            state = state_of(found) if found else None
            rest.append(Todo(one.record, one.delivery, state, look=found is None))
        if meets:
            self._strangers.meet(met, known)
        return rest

    async def _due(self, batch: StateBatch, one: Todo, until: datetime) -> Due:
        record, delivery, state = one.record, one.delivery, one.state
        opened = state.open if state else ()
        committed = await self._lanes.committed(opened) if opened else {}
        lane, position = self._lanes.lane, delivery.position
        at = batch.horizon.kept(record, state)
        new = advanced(state, record, lane=lane, position=position, committed=committed, at=at)
        return Due(record, delivery, state, new, until)

    async def _advance_or_park(self, batch: StateBatch, one: Todo) -> None:
        """Write a record's version, or park it if its home, another region, does not answer."""
        record, delivery, state = one.record, one.delivery, one.state
        if record.home in batch.silent:
            batch.parked.append((record, delivery))
            return
        try:
            if one.look:
                state = await self._read(record.home, record.id)
            await self._advance(batch, record, delivery, state)
        except StoreError as error:
            if record.home == self._region or not error.retryable:
                raise
            batch.silent.add(record.home)
            batch.parked.append((record, delivery))
            batch.cause = str(error)

    async def _advance(
        self, batch: StateBatch, record: Record, delivery: Delivery, state: State | None
    ) -> None:
        """Write a record's version unless it has a newer one by now."""
        store = self._stores[record.home]
        for tries in range(1, TRIES_MAX + 1):
            if state is not None and not batch.is_due(record, state):
                break
            state, is_done = await self._put(batch, store, Todo(record, delivery, state))
            if is_done:
                break
            if tries > QUICK_TRIES_MAX:
                await self._retrier.pause(tries)
        else:
            raise Unreachable(
                f"record {record.id[:40]!r} could not be written in {TRIES_MAX} tries"
            )
        if state is None:
            raise AssertionError("unreachable: what was written, or was newer, is a state")
        self._states.keep(record.id, state)
        batch.found(record, delivery, state)

    async def _put(self, batch: StateBatch, store: Store, one: Todo) -> tuple[State | None, bool]:
        """Try to write a version once; returns the state that is there, and whether it is written.

        A rejected put of a record that is not remembered returns its state; that is not a retry.

        Raises:
            StoreError: nothing was written, or its outcome could not be read.
        """
        record, state = one.record, one.state
        until = await self._until(batch)
        new = (await self._due(batch, one, until)).new
        expected = still_there(state)
        item = state_item(record.id, new, self._pipeline)
        if state is not None and state.is_before and self.places.before is not None:
            key = state_key(record.id, self._pipeline)
            moved = self.places.move(item, key, expected, until)
            if isinstance(await store.transact(moved), Applied):
                return new, True
            self._metrics.retry()
            return await self._read_from(store, record.id), False
        outcome = await store.write(self.places.write(Put(item, expected, not_after=until)))
        if isinstance(outcome, Applied):
            return new, True
        # Not every engine returns the existing item.
        found = outcome.found[0] if isinstance(outcome, Rejected) else None
        if state is not None or not isinstance(outcome, Rejected):
            self._metrics.retry()
        return (state_of(found) if found else await self._read_from(store, record.id)), False

    def _count(self, batch: StateBatch, *, taken: int, given: int) -> None:
        metrics = self._metrics
        metrics.batch(taken=taken, given=given)
        metrics.leave_out("duplicate", batch.duplicates)
        metrics.leave_out("stale", batch.stale)
        metrics.leave_out("dead", len(batch.letters))


def check_order(after: str, deliveries: Iterable[Delivery]) -> None:
    """Refuse positions that do not rise: a record could be left out or counted twice in silence.

    Raises:
        LedgerError: one is no longer, shorter or lower than the one before.
    """
    last = after
    for delivery in deliveries:
        position = delivery.position
        if position <= last or (last and len(position) != len(last)):
            raise LedgerError(
                f"position {position!r} after {last!r}: positions are texts of one width, rising"
            )
        last = position
