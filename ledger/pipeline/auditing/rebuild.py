"""Giving all states the categories and measures of the form in the current settings.

A state keeps what templates name of its record, so its image under another form can be computed.
For as long as this runs the form is *required*: it stands in each region's registry item, and in
every lane's, and no lane is opened under another one. Lanes under it go on meanwhile::

    registry    required F ............................................... removed
    lanes       required F: opened under F alone
    states      image of before, or of F: a correction takes off what is there, and adds F's
    per state   rewritten if it is as read + differences in a map item, one transaction; several
                states share one, with a check that F is still required

So at every moment the images add up to the totals, the map items and the open transitions, which
stay as they are: what an audit compares. A state that has the image of F already is left alone, so
it does not matter where this is cut off, or how often it is run.

A state that lacks a field is left unchanged, counted, and listed; so is one that the form refuses.
Records read once more (`--from`) provide what states lack, each to the state of exactly its
version.

What is not guaranteed: a worker of the former form whose lane another worker closed, and that was
stopped with records in its hands since before this began, may write those later. Totals stay exact;
such a state has the former categories, until this is run again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ledger.core import amounts
from ledger.core.capacity import item_size
from ledger.core.errors import FormConflict, InvalidInput, LedgerError, Unreachable
from ledger.core.tokens import request_token
from ledger.pipeline.auditing.mend import MENDED, REDUCED_MAX
from ledger.pipeline.auditing.reread import Judge, ReadAgain, RereadResult
from ledger.pipeline.auditing.scan_checkpoints import Checkpoints, Findings, ScanPosition
from ledger.pipeline.auditing.task import TRIES_MAX, Task, TaskFindings, pages, quiet_store
from ledger.pipeline.core.category_sums import (
    CategorySums,
    Changes,
    add_in,
    difference,
    digest,
    divided,
    total,
)
from ledger.pipeline.core.form_fingerprints import differences
from ledger.pipeline.core.items import lane_id, map_item, position_key, state_item
from ledger.pipeline.core.record_adapter import form_of
from ledger.pipeline.core.records import Lacking, Poison
from ledger.pipeline.core.registry import (
    FORM_LAST,
    FORM_PREFIX,
    form_item,
    form_key,
    parts_of,
    region_key,
    registry_partition,
)
from ledger.pipeline.core.transitions import State, with_image
from ledger.pipeline.sources.source import Source
from ledger.pipeline.stages.lanes import settled_home
from ledger.pipeline.stages.state_writes import still_there
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.settings.live import LiveSettings
from ledger.store.conditions import Absent, AllOf, Equals
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.retrier import Retrier
from ledger.store.writes import (
    TRANSACTION_ACTIONS_MAX,
    Action,
    Applied,
    Check,
    Delete,
    Put,
    Rejected,
)

REBUILD = "rebuild"
REBUILT = "~rebuilt"
"""The lane of each region in whose partition a rebuild puts map items."""
TOGETHER_MAX = 40
"""States of one transaction: if a lane writes one meanwhile, the others are retried."""
BYTES_MAX = 2_000_000
"""Bytes of the states of one transaction, which holds 4 MB."""
AT_ONCE = 4
"""Transactions, or reads of states, in flight; reads take four times as many."""
Due = tuple[str, State, State]
"""A record's id, its state as read, and its new state."""
_SCANNED = ("records", "rewritten", "lacking", "refused")
"""The counts in a result that the scan makes."""


class StateRebuild(Task):
    """One rebuild of a pipeline's states, over the stores of all regions of the table.

    With `is_dry` nothing is written, and nothing is required of lanes.
    """

    def __init__(
        self,
        stores: Mapping[str, Store],
        settings: LiveSettings,
        *,
        services: Services,
        is_dry: bool = False,
        on_progress: Callable[[str], None] = quiet_store,
    ) -> None:
        super().__init__(
            stores,
            settings,
            services=services,
            name=REBUILD,
            on_progress=on_progress,
        )
        self._form = form_of(settings.current)
        self._is_dry = is_dry
        self._has_value = True
        self._done = RereadResult()
        self._marked: set[str] = set()
        self._made = dict.fromkeys(stores, 0)
        self._brought: set[str] = set()
        """Records whose states a dry run would rewrite from records read once more."""

    async def run(self, sources: Mapping[str, Source] | None = None) -> RereadResult:
        """Give every state the image of the form in the settings, if it keeps what that needs.

        The records of `sources`, by their names, provide what states of the same version lack.

        Raises:
            FormConflict: lanes were left with a batch under way under another form.
            InvalidInput: something else is under way, or the value is of another field.
            LedgerError: another run has ended this one, or continued it for another form.
            StoreError: a region does not answer; run again to continue.
        """
        sources = sources or {}
        await self._check_value()
        if self._is_dry:
            await self._all(sources, None, None)
            return self._done
        await self._require()
        run = f"{REBUILD} {self._form.fingerprint} {' '.join(sorted(sources))}"
        checkpoints = self.checkpoints(run)
        kept = await checkpoints.read()
        if kept is not None:
            self._restore(kept[1])
        await self._all(sources, checkpoints, kept[0] if kept else None)
        for region in sorted(self.stores):
            await self.reduce_own(region, REBUILT)
        await checkpoints.forget()
        if self._done.is_complete:
            await self._forget_forms()
        await self._release()
        return self._done

    def findings(self) -> Findings:
        """Return what the scan has counted so far."""
        done = self._done
        changes = {name: amounts.to_text(change) for name, change in done.changes.items()}
        counts = {name: getattr(done, name) for name in _SCANNED}
        return {**counts, "changes": changes, "listed": done.listed}

    def _restore(self, found: Findings) -> None:
        for name in _SCANNED:
            setattr(self._done, name, found[name])
        self._done.changes = {name: amounts.of_text(by) for name, by in found["changes"].items()}
        self._done.listed = list(found["listed"])

    async def _all(
        self,
        sources: Mapping[str, Source],
        checkpoints: Checkpoints | None,
        begins: ScanPosition | None,
    ) -> None:
        """Process records that are read once more, then every state."""
        if sources:
            again = await self._again()
            for name, source in sorted(sources.items()):
                most = self.settings.current.pipeline.batch_max
                async for region, states, judge in again.states(name, source, most):
                    left = [state for state in states if state[0] not in self._brought]
                    await self._rewrite(region, left, judge)
                    if self._is_dry:
                        self._brought |= {one for one, state in left if judge(one, state)}
        async for page in self.scan(checkpoints, begins):
            await self._take(page)

    async def _again(self) -> ReadAgain:
        current = self.settings.current
        form = self._form
        if not form.has_patterns:
            home = await settled_home(self.stores, self.home, current)
            form = form_of(current, home=home)
        return ReadAgain(
            form,
            self.stores,
            self.read_state,
            lambda state: isinstance(self._image(state), CategorySums),
            self._done,
        )

    async def _check_value(self) -> None:
        """Check that states record which field their values come from, if that has changed.

        Raises:
            InvalidInput: it has changed, and they do not record it.
        """
        now = self._form.parts["fields"]["value"]
        others: set[str] = set()
        for store in self.stores.values():
            async for item in pages(store, self._forms()):
                before = parts_of(item).get("fields", {}).get("value", now)
                others |= {before} - {now}
        self._has_value = not others
        if others and not self._form.keeps_value:
            raise InvalidInput(
                f"pipeline.fields.value was {', '.join(sorted(others))}, is {now}: name {now} in"
                " pipeline.keep_fields too, so that a state says which of them its value is"
            )

    def _forms(self) -> Query:
        return Query(registry_partition(self.pipeline), first=FORM_PREFIX, last=FORM_LAST)

    async def _require(self) -> None:
        """Claim the regions, and require the form of every lane.

        Raises:
            FormConflict: lanes are open under another form; nothing is required then.
        """
        mine = self._form.fingerprint
        for store in self.stores.values():
            await store.write(Put(form_item(mine, self._form.parts, self.pipeline)))
        await self.begin(is_audit=False, asks={"required": {"S": mine}})
        lanes = [lane for region in sorted(self.stores) for lane in await self.lanes(region)]
        if opened := [lane for lane in lanes if not await self._mark(lane)]:
            await self._refuse(opened)

    async def _mark(self, lane: str) -> bool:
        """Require the form of a lane; returns False if it is open under another one."""
        mine = self._form.fingerprint
        self._marked.add(lane)
        for _ in range(TRIES_MAX):
            known = await self.lane(lane)
            if known.is_closed or lane.endswith((f"/{MENDED}", f"/{REBUILT}")):
                return True
            if known.is_open and known.form != mine:
                return False
            if known.required == mine:
                return True
            if await self.change_lane(lane, known, replace(known, required=mine)):
                return True
        raise Unreachable(f"lane {lane} could not be marked in {TRIES_MAX} tries")

    async def _refuse(self, lanes: Sequence[str]) -> None:
        """Free everything again, and report what prevents this."""
        known = await self.lane(lanes[0])
        store = self.store_of(lanes[0]) or self.home
        before = parts_of(await store.get(Get(form_key(known.form, self.pipeline))))
        await self._release()
        more = f", and {len(lanes) - 1:,} more" if len(lanes) > 1 else ""
        raise FormConflict(
            f"lane {lanes[0]}{more} has a batch under way under other settings:"
            f" {differences(before, self._form.parts)}. Let it end under those, or have what it"
            f" left committed by `ledger pipeline mend {lanes[0]}`; then run this again"
        )

    async def _release(self) -> None:
        """Require nothing any more, of regions first: a lane that is still marked looks there."""
        await self.end()
        for region in sorted(self.stores):
            for lane in {*await self.lanes(region), *self._marked}:
                if lane.partition("/")[0] == region:
                    await self._free(lane)

    async def _free(self, lane: str) -> None:
        mine = self._form.fingerprint
        for _ in range(TRIES_MAX):
            known = await self.lane(lane)
            if known.required != mine:
                return
            form = known.form if known.is_open or known.form == mine else ""
            if await self.change_lane(lane, known, replace(known, required="", form=form)):
                return

    async def _forget_forms(self) -> None:
        """Delete the other forms: no state is of theirs, and no lane is open under one."""
        for store in self.stores.values():
            others = [item["sk"]["S"] async for item in pages(store, self._forms())]
            for sort_key in others:
                if sort_key != f"{FORM_PREFIX}{self._form.fingerprint}":
                    await store.write(Delete((registry_partition(self.pipeline), sort_key)))

    async def _take(self, page: Sequence[TaskFindings]) -> None:
        """Rewrite the states of a page whose image differs."""
        kept: list[tuple[str, State]] = []
        for found in page:
            if (lane := self.lane_in(found)) is not None:
                await self._unknown(lane)
            elif (state := self.state_in(found)) is not None:
                kept.append(state)
        self._done.records += len(kept)
        left = [one for one in kept if one[0] not in self._brought]
        for record_id, one in left:
            self._count(record_id, one)
        if page:
            await self._rewrite(page[0].region, left, self._wanted)

    async def _unknown(self, lane: str) -> None:
        """Require the form of a lane that is not in the registry: its region is gone."""
        if not self._is_dry and lane not in self._marked:
            await self.register(lane)
            if not await self._mark(lane):
                await self._refuse([lane])

    def _image(self, state: State) -> CategorySums | Poison | Lacking:
        return self._form.image_of(state.kept, state.image.value if self._has_value else None)

    def _count(self, record_id: str, state: State) -> None:
        image = self._image(state)
        if isinstance(image, CategorySums):
            return
        if isinstance(image, Lacking):
            self._done.lacking += 1
            self._done.list(f"record {record_id}: as its state keeps it, {image.reason}")
        else:
            self._done.refused += 1
            self._done.list(f"record {record_id}: {image.reason}")

    def _wanted(self, _record_id: str, state: State) -> State | None:
        image = self._image(state)
        if not isinstance(image, CategorySums) or image == state.image:
            return None
        return with_image(state, image, state.kept)

    async def _rewrite(
        self, region: str, states: Iterable[tuple[str, State]], judge: Judge
    ) -> None:
        """Bring states of a region to what `judge` returns for them, several in a transaction."""
        due = [(one, state, new) for one, state in states if (new := judge(one, state)) is not None]
        if self._is_dry:
            self._applied(due)
            return
        jobs = [partial(self._commit, region, part, judge) for part in self._divided(due)]
        if jobs:
            await run_all(jobs, at_once=AT_ONCE)
        if self._made[region] >= REDUCED_MAX:
            self._made[region] = 0
            await self.reduce_own(region, REBUILT)

    def _divided(self, due: Sequence[Due]) -> list[list[Due]]:
        parts: list[list[Due]] = []
        size = 0
        for change in due:
            size += item_size(state_item(change[0], change[2], self.pipeline))
            if not parts or len(parts[-1]) == TOGETHER_MAX or size > BYTES_MAX:
                parts.append([])
                size = 0
            parts[-1].append(change)
        return parts

    async def _commit(self, region: str, due: Sequence[Due], judge: Judge) -> None:
        """Rewrite states in one transaction with what that changes, as often as they are rewritten.

        Raises:
            LedgerError: another run has ended this rebuild.
        """
        store = self.stores[region]
        retrier = Retrier.of(store, clock=self.clock, randomness=self._random)
        for _ in range(TRIES_MAX):
            if not due:
                return
            actions = self._actions(region, due)
            if actions is None:
                half = len(due) // 2
                await self._commit(region, due[:half], judge)
                await self._commit(region, due[half:], judge)
                return
            token = request_token(region, repr(actions))
            sent = await retrier.until_answered(partial(store.transact, actions, token=token))
            outcome = sent.outcome
            if isinstance(outcome, Applied):
                self._applied(due)
                self._made[region] += len(actions) - 1 - len(due)
                return
            found = outcome.found if isinstance(outcome, Rejected) else {}
            if 0 in found:
                raise LedgerError("another run has ended this rebuild, or one for other settings")
            due = await self._looked_at(region, due, set(found), judge)
        raise Unreachable(f"record {due[0][0][:40]!r} could not be rebuilt in {TRIES_MAX} tries")

    def _actions(self, region: str, due: Sequence[Due]) -> list[Action] | None:
        """Return a transaction: that the form is required, states, map items; None if too much."""
        changes = _changes(due)
        parts = divided(changes)
        if parts is None or 1 + len(due) + len(parts) > TRANSACTION_ACTIONS_MAX:
            return None
        lane = lane_id(region, REBUILT)
        partition = position_key(lane, self.pipeline)[0]
        named = "\n".join(f"{one}#{state.version}#{state.rev}" for one, state, _ in due)
        name = digest(partition, named, f"{self._random.getrandbits(64):016x}", changes)
        required = Equals("required", {"S": self._form.fingerprint})
        still_ours = AllOf((self.ours, required))
        return [
            Check(region_key(region, self.pipeline), still_ours),
            *(
                self.places.write(Put(state_item(one, new, self.pipeline), still_there(state)))
                for one, state, new in due
            ),
            *(
                Put(map_item(lane, name, number, part, self.pipeline), Absent())
                for number, part in enumerate(parts)
            ),
        ]

    async def _looked_at(
        self, region: str, due: Sequence[Due], failed: set[int], judge: Judge
    ) -> list[Due]:
        """Judge once more the states that were not as read; all, if that is unknown."""

        async def look(place: int, one: Due) -> Due | None:
            record_id, _, new = one
            if failed and place not in failed:
                return one
            state = await self.read_state(region, record_id)
            if state == new:  # it was applied, unanswered
                self._applied([one])
            wanted = None if state is None else judge(record_id, state)
            return None if state is None or wanted is None else (record_id, state, wanted)

        jobs = [partial(look, place, one) for place, one in enumerate(due, 1)]
        return [state for state in await run_all(jobs, at_once=4 * AT_ONCE) if state is not None]

    def _applied(self, due: Sequence[Due]) -> None:
        self._done.rewritten += len(due)
        add_in(self._done.changes, _changes(due))


def _changes(due: Sequence[Due]) -> Changes:
    """Return what these rewritten states change together."""
    return total(difference(state.image, new.image) for _, state, new in due)
