"""The positions of lanes: our own, and those whose transitions are beside ours in a state.

Which region keeps the states of a pipeline without patterns: the table's home, when it began.

The home of the table may move while the pipeline lives. Its states stay where they are: the region
is in the pipeline's registry, written once, through the table's home. When that region has left the
table, the home of then takes its place, and the states as it shows them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ledger.core.contract import CONTRACT_LIFE
from ledger.core.entry import Item, Key, damaged
from ledger.core.errors import FormConflict, LaneClosed, LaneFenced, StoreError, Unreachable
from ledger.pipeline.core.form_fingerprints import differences
from ledger.pipeline.core.items import MAP_LAST, MAP_PREFIX, MapItem, map_item_of, position_key
from ledger.pipeline.core.lane_state import LaneState, Span, lane_item, lane_state_of, still
from ledger.pipeline.core.record_adapter import form_of
from ledger.pipeline.core.records import RecordForm
from ledger.pipeline.core.registry import (
    audit_of,
    forgotten_of,
    form_item,
    form_key,
    home_item,
    home_key,
    lane_entry,
    parts_of,
    region_key,
    required_of,
)
from ledger.pipeline.core.state_places import StatePlaces, named, places_of, shown, table_of
from ledger.runtime.clock import Clock
from ledger.settings import Settings
from ledger.store.conditions import Absent, Equals
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.writes import Applied, Put

FRESH_SECONDS = 10.0
"""How long another lane's position is taken as read; it only lets its transitions be dropped."""
LANES_MAX = 10_000
"""Other lanes that are remembered."""
MAP_PAGES_MAX = 10_000
TRIES_MAX = 10
"""Tries of a write of a lane's item: each rejection means that another process wrote it."""


class Lanes:
    """Committed positions, as one lane's worker knows them.

    What it knows of a lane may be behind, never ahead: a position that was committed stays so.
    """

    def __init__(
        self,
        lane: str,
        store: Store,
        clock: Clock,
        *,
        pipeline: str = "",
        states: str = "",
        life_seconds: float = CONTRACT_LIFE,
    ) -> None:
        self.lane = lane
        self.pipeline = pipeline
        self.states = states
        """The table of the states by our settings, "" for the table itself."""
        self.known = LaneState()
        """Our lane's item as it was last read or written."""
        self.viewed = clock.now()
        """When the request was sent that showed it so."""
        self._life = timedelta(seconds=life_seconds)
        self._store = store
        self._clock = clock
        self._others: dict[str, tuple[float, str]] = {}

    @property
    def position(self) -> str:
        """Up to where our lane is known to be committed."""
        return self.known.position

    async def load(self) -> list[MapItem]:
        """Read our lane's position, then the map items that are not reduced yet.

        In this order: who commits after the position was read moves it, and makes our next commit
        fail; those of an earlier worker have left map items that are read here.

        Raises:
            StoreError: the table cannot be read.
            DamagedItem: an item of the lane is not of our form.
        """
        await self.read()
        found: list[MapItem] = []
        partition = self._key(self.lane)[0]
        query = Query(partition, first=MAP_PREFIX, last=MAP_LAST)
        for _page in range(MAP_PAGES_MAX):
            page = await self._store.query(query)
            found += map(map_item_of, page.items)
            if page.after is None:
                break
            query = query.next(page)
        return found

    async def read(self) -> LaneState:
        """Read our lane's item.

        Raises:
            StoreError: the table cannot be read.
        """
        sent_at = self.now()
        self.known = lane_state_of(await self._store.get(Get(self._key(self.lane))))
        self.viewed = sent_at
        return self.known

    @property
    def until(self) -> datetime:
        """The last time at which a write based on the known item may be signed."""
        return self.viewed + self._life

    def took(self, state: LaneState, sent_at: datetime) -> None:
        """Note what our lane's item is, since a write of it that was sent then."""
        self.known, self.viewed = state, sent_at

    async def renew(self) -> None:
        """Look at our lane's item again, if that was long ago: others may ask something of it.

        Raises:
            LaneFenced: another worker, or an operator, has gone on with the lane.
            StoreError: the table cannot be read.
        """
        while not timedelta(0) <= self.now() - self.viewed <= self._life / 2:
            known, sent_at = self.known, self.now()
            found = lane_state_of(await self._store.get(Get(self._key(self.lane))))
            if self.known is known:  # else a commit has shown it meanwhile
                self._check_goes_on(known, found)
                self.took(found, sent_at)

    def now(self) -> datetime:
        """Return the time by our machine's clock."""
        return self._clock.now()

    def forget(self) -> None:
        """Forget what was read of other lanes: a reset has put them back to their beginnings."""
        self._others.clear()

    async def check(self, form: RecordForm) -> None:
        """Check that a form may continue the lane as it was read.

        Raises:
            LaneClosed: it was closed for good, or until a reset has come to its end.
            FormConflict: a batch may be under way under another form, or states are elsewhere.
        """
        known = self.known
        if known.rev:
            self._check_states(table_of(known.states))
        if known.is_resetting:
            raise LaneClosed(
                f"lane {self.lane} is closed until `ledger pipeline reset` has come to its end: run"
                " that again if it was cut off"
            )
        if known.is_closed:
            raise LaneClosed(
                f"lane {self.lane} was closed by `ledger pipeline mend`: records that still come"
                " go through a lane of another name"
            )
        if known.is_open and known.form != form.fingerprint:
            before = parts_of(await self._store.get(Get(form_key(known.form, self.pipeline))))
            raise FormConflict(
                f"lane {self.lane} was left with a batch under way under other settings:"
                f" {differences(before, form.parts)}. Finish it under the former ones, or have what"
                f" it left committed by `ledger pipeline mend {self.lane}`"
            )

    async def places(self) -> StatePlaces:
        """Return where states lie, and where others may still be.

        Raises:
            FormConflict: our settings differ.
            StoreError: the table cannot be read.
        """
        if not (self.states or self.known.states):
            return StatePlaces()
        places = places_of(await self._region())
        self._check_states(places.table)
        return places

    def _check_states(self, table: str) -> None:
        if table != self.states:
            raise FormConflict(
                f"lane {self.lane}: the states of its pipeline lie in {shown(table)}, and"
                f" `state_table` of the settings says {shown(self.states)}: set it as it was, or"
                " have the states moved by `ledger pipeline move-states`"
            )

    async def open(self, form: RecordForm, positions: Sequence[str] = ()) -> None:
        """Mark that records after the position may be in states, read under this form.

        `positions` are those of the records to be begun, of a source that gives up on records.

        Raises:
            LeftOut: the source passes over records that were begun and are not committed.
            FormConflict, LaneClosed: as `check`; or a rebuild requires another form.
            StoreError: nothing may be begun.
        """
        for _ in range(TRIES_MAX):
            known = self.known
            left = [place for place in positions if place > known.position]
            if positions and not left:
                return
            asked = Span(left[0], left[-1]) if left else None
            wanted = known.opened(form.fingerprint, asked)
            if known.audit or known.required:
                wanted = await self._as_asked(wanted, form)
            if wanted == known:
                return
            if known.form != form.fingerprint and not await self._introduce(form):
                continue  # a rebuild looks at the forms that there were
            if not known.rev:
                entry = Put(lane_entry(self.lane, self.pipeline))
                if not isinstance(await self._store.write(entry), Applied):
                    continue  # what looks for lanes must find this one
                wanted = await self._as_asked(wanted, form)
            if await self._written(known, wanted):
                return
            await self.read()
            await self.check(form)
        raise Unreachable(f"lane {self.lane} could not be opened in {TRIES_MAX} tries")

    async def close(self) -> None:
        """Mark that nothing is under way any more, unless another has gone on with the lane.

        Raises:
            StoreError: it stays open, as after a crash.
        """
        for _ in range(TRIES_MAX):
            known = self.known
            if not known.is_open or await self._written(known, replace(known, is_open=False)):
                return
            if (await self.read()).position != known.position:
                return

    async def refreshed(self, before: LaneState) -> LaneState:
        """Read our lane's item again after a commit was refused; only an audit may be new in it.

        Raises:
            LaneFenced: another worker, or an operator, has gone on with the lane.
            StoreError: the table cannot be read.
        """
        found = await self.read()
        self._check_goes_on(before, found)
        return found

    def _check_goes_on(self, before: LaneState, found: LaneState) -> None:
        if not found.is_begun_as(before):
            raise LaneFenced(
                f"lane {self.lane}: another has gone on from"
                f" {before.position or 'its beginning'}, to {found.position or 'its beginning'}"
            )

    async def committed(self, lanes: Iterable[str]) -> Mapping[str, str]:
        """Return up to where transitions of these lanes may be dropped."""
        known = {lane: await self._other(lane) for lane in lanes if lane != self.lane}
        known[self.lane] = self.known.covers
        return known

    async def _introduce(self, form: RecordForm) -> bool:
        """Store the content of the form, so that an error can name what differs from it.

        Returns whether that was answered.
        """
        put = Put(form_item(form.fingerprint, form.parts, self.pipeline))
        return isinstance(await self._store.write(put), Applied)

    async def _as_asked(self, wanted: LaneState, form: RecordForm) -> LaneState:
        """Return a lane's state under the audit or rebuild that runs now, or under none.

        A new lane is in the registry before this: one that looks for lanes before its entry is
        there has left what it asks of them before that, where it is read here.

        Raises:
            FormConflict: a rebuild requires another form.
        """
        item = await self._region()
        audit, required = audit_of(item), required_of(item)
        if required and required != form.fingerprint:
            parts = parts_of(await self._store.get(Get(form_key(required, self.pipeline))))
            raise FormConflict(
                f"lane {self.lane} may not begin: `ledger pipeline rebuild` is giving all states"
                f" the categories of other settings: {differences(parts, form.parts)}. Run the lane"
                " under those, or finish the rebuild first"
            )
        if not self.known.rev:
            places = places_of(item)
            self._check_states(places.table)
            wanted = replace(
                wanted,
                states=named(places.table) if places.table else "",
                forgotten=forgotten_of(item),
            )
        if audit != wanted.audit:
            wanted = replace(wanted, audit=audit, retain=wanted.position if audit else "")
        return replace(wanted, required=required)

    async def _region(self) -> Item | None:
        """Read what is under way in our region."""
        return await self._store.get(Get(region_key(self._store.region, self.pipeline)))

    async def _written(self, known: LaneState, wanted: LaneState) -> bool:
        """Write our lane's item if it is as known; returns whether it is written."""
        sent_at = self.now()
        state = replace(wanted, rev=known.rev + 1, at=int(sent_at.timestamp()))
        put = Put(lane_item(self.lane, state, self.pipeline), still(known))
        if isinstance(await self._store.write(put), Applied):
            self.took(state, sent_at)
            return True
        return False

    def _key(self, lane: str) -> Key:
        return position_key(lane, self.pipeline)

    async def _other(self, lane: str) -> str:
        read_at, position = self._others.get(lane, (float("-inf"), ""))
        now = self._clock.monotonic()
        if now - read_at < FRESH_SECONDS:
            return position
        if len(self._others) >= LANES_MAX:
            self._others.clear()
        self._others[lane] = now, position  # one reads, the others need not wait
        try:
            # A position that went back, by a reset, must not be read as it was before.
            was_fenced = self.known.fence > 0
            found = await self._store.get(Get(self._key(lane), consistent=was_fenced))
        except StoreError:
            return position  # the transitions stay where they are a little longer
        position = lane_state_of(found).covers
        self._others[lane] = now, position
        return position


async def regions_of(store: Store, settings: Settings) -> set[str]:
    """Return the regions that a lane of the store's region has to reach.

    Raises:
        SettingsError: no category is configured.
        StoreError: the table cannot be read.
    """
    form = form_of(settings)
    needed = {store.region, *form.homes}
    if form.has_patterns:
        return needed
    kept = await store.get(Get(home_key(settings.pipeline.name)))
    return needed | ({_region(kept)} & settings.regions.keys() if kept else set())


async def settled_home(stores: Mapping[str, Store], own: Store, settings: Settings) -> str:
    """Return the region that keeps the states of the pipeline; the first to ask settles it.

    Raises:
        StoreError: it cannot be read, or not be settled.
    """
    key, at_home = home_key(settings.pipeline.name), stores[settings.home]
    found = await own.get(Get(key))
    for _ in range(TRIES_MAX):
        if found is not None and _region(found) in settings.regions:
            return _region(found)
        found = await at_home.get(Get(key))
        if found is not None and _region(found) in settings.regions:
            return _region(found)
        before = Equals("region", {"S": _region(found)}) if found else Absent()
        await at_home.write(Put(home_item(settings.home, settings.pipeline.name), before))
        found = await at_home.get(Get(key))
    raise Unreachable(f"the home of the pipeline was not settled in {TRIES_MAX} tries")


def _region(item: Item) -> str:
    region = item.get("region", {}).get("S")
    if not isinstance(region, str):
        raise damaged(item, "the home of a pipeline needs its region")
    return region
