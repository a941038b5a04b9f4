"""Forgetting the states of records that are too old to be corrected, while lanes run.

`keep_states` says for how long a record may be corrected. What may be forgotten is everything
before a moment F = now - keep_states - margin::

    registry, lanes   forgotten: F, which never goes back and outlives the setting
    wait              as long as the margin (`ageing.margin_of`): contract_life, in which a view of
                      the lane's item is acted on, + signature_lifetime + clock_skew of three clocks
    states            of records before F, settled: deleted if they are as they were read, and
                      their images added to `forgotten` sums, in one transaction

Why no record counts twice. A worker judges a batch by its lane's item, and no write of a state is
signed later than `contract_life` after that was seen (`Lanes.until`); a worker that learns more
judges again. So after the wait nothing can land any more that was judged without F: by then each
worker refuses the records before F, whatever its clock or its settings say, however long it was
stopped. Afterwards states of records before F change only by what is done here.

Why none is left out. A worker refuses a record only once what another worker of its lane may have
written for it has landed; so its state shows the transition, which is committed with the batch.

Why deleted states are in the totals. A state is deleted only if each of its transitions is covered
by the position of its lane, which commits what it covers in map items: then its image is what it
has in totals and map items. A state that is not covered yet stays for the next time.

Why audits stay exact. The images of the remaining states and the sums of the forgotten ones add up
to the same before and after each transaction, and no audit runs meanwhile.

The margin before F keeps records that workers are processing from being refused, if they were
young enough by `keep_states` and the workers' clocks when they were read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger.core.clock_offset import check_offset
from ledger.core.durations import spoken
from ledger.core.errors import AmountOverflow, InvalidInput, LedgerError, Unreachable
from ledger.pipeline.auditing.scan_checkpoints import Findings
from ledger.pipeline.auditing.task import TRIES_MAX, Task, TaskFindings, quiet_store
from ledger.pipeline.core.age_horizon import margin_of
from ledger.pipeline.core.items import state_key
from ledger.pipeline.core.plans import plan_forget
from ledger.pipeline.core.record_times import at_seconds
from ledger.pipeline.core.registry import forgotten_of, region_key
from ledger.pipeline.core.transitions import State, beyond
from ledger.pipeline.stages.state_writes import still_there
from ledger.runtime.services import Services
from ledger.settings.live import LiveSettings
from ledger.store.conditions import AllOf, Equals
from ledger.store.port import Store
from ledger.store.writes import TRANSACTION_ACTIONS_MAX, Action, Applied, Check, Delete

FORGET = "forget"
STATES_MAX = 40
"""States of one transaction, besides the sums of their categories: within 100 actions."""


@dataclass(slots=True)
class Forgotten:
    """The result: how many states of records before a time; `left` were not settled yet."""

    before: int = 0
    records: int = 0
    left: int = 0
    lanes: set[str] = field(default_factory=set)


class Forget(Task):
    """One forgetting of a pipeline's old states, over the stores of all regions of the table."""

    def __init__(
        self,
        stores: Mapping[str, Store],
        settings: LiveSettings,
        *,
        services: Services,
        on_progress: Callable[[str], None] = quiet_store,
    ) -> None:
        super().__init__(
            stores,
            settings,
            services=services,
            name=FORGET,
            on_progress=on_progress,
        )
        self._done = Forgotten()
        self._positions: dict[str, str] = {}
        self._waiting: dict[str, list[tuple[str, State]]] = {}

    async def run(self) -> Forgotten:
        """Delete the states of records that are older than `keep_states`, and a margin.

        Raises:
            InvalidInput: `keep_states` is not set, or an audit or another task is under way.
            ClockOff: this machine's clock is off by more than `clock_skew`.
            LedgerError: another run of it has finished it meanwhile.
            StoreError: a region does not answer; run again to continue.
        """
        before, is_begun = await self._before()
        self._done.before = before
        if not is_begun and before <= await self._known():
            return self._done  # nothing is older than what was forgotten before
        moment = {"N": str(before)}
        await self.begin(is_audit=False, asks={"forgotten": moment, "forgetting": moment})
        for region in sorted(self.stores):
            for lane in await self.lanes(region):
                await self._mark(lane)
        checkpoints = self.checkpoints(f"{FORGET} {before}")
        kept = await checkpoints.read()
        if kept is None:
            await self._wait()
        else:
            self._done.records, self._done.left = kept[1]["records"], kept[1]["left"]
        begins = kept[0] if kept else None
        async for page in self.scan(checkpoints, begins, (self.places.table,)):
            for found in page:
                await self._look_at(found)
            for region in sorted(self._waiting):
                await self._forget(region)
        await checkpoints.forget()
        await self.end()
        return self._done

    def findings(self) -> Findings:
        """Return how many states were forgotten so far, and how many were left."""
        return {"records": self._done.records, "left": self._done.left}

    async def _before(self) -> tuple[int, bool]:
        """Return the moment before which states are forgotten, and whether a run is under way.

        Raises:
            InvalidInput: `keep_states` is not set.
        """
        regions = [await self._region(region) for region in sorted(self.stores)]
        if under_way := max(forgotten_of(item, "forgetting") for item in regions):
            return under_way, True
        settings = self.settings.current
        keep = settings.pipeline.keep_states
        if keep is None:
            raise InvalidInput(
                "pipeline.keep_states is not set: it says for how long a record may be corrected,"
                " such as 400d"
            )
        for store in self.stores.values():
            check_offset(store.clock_offset, skew=settings.clock_skew, region=store.region)
        return int(self.clock.now().timestamp() - keep - margin_of(settings)), False

    async def _known(self) -> int:
        """Return the moment before which states were already forgotten, in every region."""
        regions = [await self._region(region) for region in sorted(self.stores)]
        return min(map(forgotten_of, regions))

    async def _mark(self, lane: str) -> None:
        """Have a lane refuse the records before the moment."""
        for _ in range(TRIES_MAX):
            known = await self.lane(lane)
            if known.forgotten >= self._done.before:
                return
            now = int(self.clock.now().timestamp())
            wanted = replace(known, forgotten=self._done.before, forgotten_at=now)
            if await self.change_lane(lane, known, wanted):
                return
        raise Unreachable(f"lane {lane} could not be marked in {TRIES_MAX} tries")

    async def _wait(self) -> None:
        """Wait until nothing can land that was judged without the moment."""
        seconds = margin_of(self.settings.current)
        moment = at_seconds(self._done.before).isoformat()
        self.on_progress(
            f"records before {moment} are refused now; their states go in {spoken(seconds)}"
        )
        await self.clock.sleep(seconds)

    async def _look_at(self, found: TaskFindings) -> None:
        """Add a state that is old enough, and settled."""
        kept = self.state_in(found)
        if kept is None or kept[1].at is None or kept[1].at >= at_seconds(self._done.before):
            return
        if held := await self._held_by(kept[1]):
            self._done.left += 1
            self._done.lanes |= held
            return
        self._waiting.setdefault(found.region, []).append(kept)

    async def _held_by(self, state: State) -> set[str]:
        """Return the lanes that have not committed a transition of a state yet."""
        for lane in state.open.keys() - self._positions.keys():
            self._positions[lane] = (await self.lane(lane)).position
        return {lane for lane in state.open if beyond(state, lane, self._positions[lane])}

    async def _forget(self, region: str) -> None:
        """Forget the waiting states of a region, several in a transaction."""
        left = self._waiting.pop(region)
        while left:
            count = _fitting(left)
            if not await self._forgotten(region, left[:count]):
                for record_id, _ in left[:count]:
                    await self._forget_alone(region, record_id)
            left = left[count:]

    async def _forget_alone(self, region: str, record_id: str) -> None:
        """Forget a state that an attempt without an answer may have forgotten already.

        Raises:
            LedgerError: another run has ended this one.
        """
        for _ in range(TRIES_MAX):
            found = await self.read_state(region, record_id)
            if found is None or await self._held_by(found):
                return
            if await self._forgotten(region, [(record_id, found)]):
                return
            item = await self._region(region)
            if forgotten_of(item, "forgetting") != self._done.before:
                raise LedgerError("another run has ended this one, or has continued it")
        raise Unreachable(f"record {record_id[:40]!r} could not be forgotten in {TRIES_MAX} tries")

    async def _forgotten(self, region: str, states: Sequence[tuple[str, State]]) -> bool:
        """Delete states, and add up their images; returns whether that was done.

        Raises:
            AmountOverflow: a sum has no room left in 38 digits.
        """
        moment = {"N": str(self._done.before)}
        conditions = Equals("forgetting", moment), Equals("forgotten", moment)
        still = Check(region_key(region, self.pipeline), AllOf(conditions))
        deletes = [
            self.places.write(Delete(state_key(record_id, self.pipeline), still_there(state)))
            for record_id, state in states
        ]
        adds = plan_forget([state.image for _, state in states], region, self.pipeline)
        actions: list[Action] = [still, *deletes, *adds]
        outcome = await self.stores[region].transact(actions)
        if isinstance(outcome, Applied):
            self._done.records += len(states)
            return True
        first = 1 + len(deletes)
        found = getattr(outcome, "found", {})
        if found and min(found) >= first:
            category = actions[min(found)].key[1]
            raise AmountOverflow(f"{category}: the sum of what was forgotten has no room left")
        return False


def _fitting(states: Sequence[tuple[str, State]]) -> int:
    """Return how many of these states fit in one transaction, at least one."""
    known: set[str] = set()
    for count, (_, state) in enumerate(states):
        known |= state.image.changes.keys()
        if count and (count == STATES_MAX or count + len(known) + 3 > TRANSACTION_ACTIONS_MAX):
            return count
    return len(states)
