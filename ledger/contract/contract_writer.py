"""Writing the contract: the first one, and changes in steps that any process may finish.

::

    in force (even) ── announce ──> pending (odd) ── every region shows it ── wait ──> in force

A run that ends at any point leaves a contract that is in force or pending: the same call again,
from any process, continues from there. While a change is pending all processes obey the stricter of
old and new, so it may stay pending for any time. `ledger.core.contract` has the reasons.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

from ledger.contract.departure import count_alone
from ledger.contract.view import read_contract
from ledger.contract.wait_report import Alone, Report, Waiting
from ledger.core.clock_offset import check_offset
from ledger.core.contract import Terms, is_pending, is_waited, parted, seconds_to_wait
from ledger.core.contract_item import Contract, contract_item, newest_of
from ledger.core.durations import spoken
from ledger.core.errors import (
    ContractChangeRefused,
    ContractConflict,
    ContractMissing,
    InvalidInput,
    StoreError,
    TableMissing,
)
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.store.conditions import Absent, Condition, Equals
from ledger.store.port import Store
from ledger.store.writes import Applied, Put, Unknown

POLL_SECONDS = 2.0
COMPARED_EVERY_SECONDS = 60.0
"""How often a region that leaves is compared with the others, while it has what they have not."""
REMOVING = "DELETING"
"""The state of a replica that is being removed. Source: DynamoDB API, ReplicaDescription."""
WRITE_TRIES_MAX = 10
_TICK_SECONDS = 0.001


Refine = Callable[[Contract], Terms]
"""Returns the wanted terms, given those in force."""


class ContractWriter:
    """Writes the contract through its home region, over the stores of all regions.

    Only one change is under way at a time; the condition on the revision decides between two
    operators.
    """

    def __init__(
        self,
        stores: Mapping[str, Store],
        *,
        clock: Clock,
        report: Report = lambda _waiting: None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._stores = stores
        self._clock = clock
        self._report = report
        self._poll_seconds = poll_seconds

    async def read_all(self) -> dict[str, Contract | None]:
        """Return what each region shows; nothing where the table has no replica yet.

        Raises:
            TableMissing: there is no table in any region.
            ContractDamaged, UpgradeNeeded: an item cannot be read by this release.
            StoreError: a region cannot be read.
        """
        reads = [partial(_shown_in, store) for store in self._stores.values()]
        found = await run_all(reads, at_once=len(reads))
        missing = [error for error in found if isinstance(error, TableMissing)]
        if len(missing) == len(found):
            raise missing[0]
        shown = [None if isinstance(answer, TableMissing) else answer for answer in found]
        return dict(zip(self._stores, shown, strict=True))

    async def find(self) -> Contract | None:
        """Return the newest contract that any region shows; None if none shows one.

        Raises:
            As `read_all`.
        """
        return newest_of((await self.read_all()).values())

    async def newest(self) -> Contract:
        """Return the newest contract that any region shows.

        Raises:
            ContractMissing: no region shows one.
            And as `read_all`.
        """
        found = await self.find()
        if found is None:
            raise ContractMissing(
                "the table has no contract: `ledger table adopt` writes it from the settings"
            )
        return found

    async def establish(self, terms: Terms) -> Contract:
        """Write the first contract unless the table has one, and bring it into force.

        It is in force once every region has shown it: two operators with different homes may both
        have written one, and until then one may be replaced by the other.

        Raises:
            ContractConflict: the table has another contract.
            StoreError: DynamoDB could not do it; repeat the call.
        """
        first = Contract(terms=terms, revision=1, coming=terms)
        shown = [known for known in (await self.read_all()).values() if known is not None]
        if not shown:
            await self._put(first, Absent(), through=terms.home)
        else:
            _check_same(shown, terms)
        contract = await self._until_all_show(first)
        _check_same([contract], terms)
        return await self._found(contract)

    async def _found(self, contract: Contract) -> Contract:
        """Bring a first contract that every region shows into force, unless it is already."""
        if not contract.is_founding:
            return contract
        return await self._until_all_show(
            await self._step(contract, replace(contract, coming=None))
        )

    async def change(self, refine: Refine) -> Contract:
        """Bring other terms into force, or finish the change that is pending.

        `refine` is called with the contract in force. Waits minutes; if interrupted, run it again.

        Raises:
            ContractChangeRefused: another change is pending, or the new terms break a guarantee.
            StoreError: DynamoDB could not do it; run it again.
        """
        contract = await self.newest()
        self._check_clocks(contract.terms)
        terms = contract.terms
        wanted = replace(refine(contract), lost=terms.lost, given_up_at=terms.given_up_at)
        if contract.coming is None:
            if wanted == contract.terms:
                return await self._until_all_show(contract)
            # The previous change must be known everywhere before the next begins.
            await self._until_all_show(contract)
            announced = replace(contract, coming=wanted)
            self._check_reach(announced)
            self._check_dates(announced, seconds_to_wait(contract.terms, wanted))
            contract = await self._step(contract, announced)
        elif contract.coming != wanted:
            raise ContractChangeRefused(
                "another change of the contract is pending: finish it with `ledger table set"
                " --resume`, or withdraw it with `ledger table set --withdraw`"
            )
        return await self.finish(contract)

    async def finish(self, pending: Contract) -> Contract:
        """Wait as long as a pending change requires, then bring it into force.

        The wait is counted by this process, from when it saw the last region show the change.

        Raises:
            ContractChangeRefused: the date of its shards came before it could be in force.
            StoreError: DynamoDB could not do it; run it again.
        """
        if pending.coming is None:
            return await self._until_all_show(pending)
        pending = await self._until_all_show(pending)
        if pending.is_founding:
            return await self._found(pending)
        looked_at = self._clock.monotonic()
        coming = pending.coming
        if coming is None:  # another operator finished it meanwhile
            return pending
        until = looked_at + seconds_to_wait(pending.terms, coming)
        while not is_waited(
            pending.terms, coming, looked_at=looked_at, now=self._clock.monotonic()
        ):
            left = max(until - self._clock.monotonic(), 0.0)
            self._report(Waiting(pending.revision, seconds_left=left))
            await self._clock.sleep(max(min(self._poll_seconds, left), _TICK_SECONDS))
        await self._until_removed(pending)
        self._check_clocks(coming)
        self._check_dates(pending)
        if out := pending.leaving:  # their replicas are gone by now: as if they were lost
            coming = parted(coming, out, self._clock.now())
        done = replace(pending, terms=coming, coming=None, through="")
        return await self._until_all_show(await self._step(pending, done))

    async def withdraw(self, pending: Contract) -> Contract:
        """Withdraw a pending change.

        Without a wait: processes that know the change obey the stricter of both terms, which is
        compatible with the old terms, as it has been since the announcement.

        Raises:
            ContractChangeRefused: it gives up a region, which would have to show the contract.
            StoreError: DynamoDB could not do it; run it again.
        """
        if pending.coming is None:
            return pending
        if pending.is_founding:
            return await self.finish(pending)
        if pending.giving_up:
            raise ContractChangeRefused(
                f"{', '.join(pending.giving_up)}: given up for good, which cannot be withdrawn:"
                " finish it with `ledger table set --resume`"
            )
        return await self._until_all_show(await self._step(pending, replace(pending, coming=None)))

    async def take_over(self, home: str, *, lost: Collection[str]) -> Contract:
        """Bring a contract without lost regions into force; if the home is lost, a new generation.

        Also if the home does not show the newest contract: a lost region that was home before may
        have written it, and it may never arrive.
        The stores are those of the remaining regions. A pending change is withdrawn, because it
        could never be in force without the lost regions. If two operators take over at the same
        time, one wins, and the other gives up. If interrupted, run it again.

        Raises:
            InvalidInput: `home` is not a remaining region, or the home is not lost and is another
                region.
            ClockOff: this machine's clock dates the loss, and is off by more than `clock_skew`.
            ContractChangeRefused: another operator took over.
            ContractConflict: a remaining region is not among the stores; nothing was written.
            StoreError: a remaining region cannot be read or written; run it again.
        """
        contract = await self.newest()
        terms, coming = contract.terms, contract.coming
        if coming is not None and set(lost) <= set(contract.giving_up):
            _check_home(coming.home, home)
            return await self.finish(contract)  # an earlier run began it
        if coming is None and set(lost) <= set(terms.lost) - set(terms.regions):
            _check_home(terms.home, home)
            return await self._until_all_show(contract)
        new = (name for name in lost if name in terms.regions or name not in terms.lost)
        gone = tuple(dict.fromkeys(new))
        remaining = tuple(region for region in terms.regions if region not in lost)
        if home not in remaining:
            raise InvalidInput(f"the new home must be one of {', '.join(remaining)}, got {home!r}")
        self._check_clocks(terms)
        wanted = replace(terms, home=home, regions=remaining)
        wanted = parted(wanted, gone, self._clock.now())
        self._check_reach(replace(contract, coming=wanted))
        if terms.home not in lost:
            _check_home(terms.home, home)
            # Unless the lost region was home before, and its last write never arrived in this one.
            if await read_contract(self._store(home)) == contract:
                step = replace(contract, coming=wanted)
                return await self.finish(await self._step(contract, step))
        # Never overwrite what the lost home wrote: a late write of it could win by its stamp.
        pending = Contract(
            terms=terms,
            revision=contract.revision + 1 + contract.revision % 2,
            generation=contract.generation + 1,
            coming=wanted,
            through=home,
        )
        await self._put(pending, Absent(), through=home)
        found = await self._until_all_show(pending)
        if found != pending:
            raise ContractChangeRefused(
                f"another operator moved the home: to {found.written_through}"
            )
        return await self.finish(pending)

    def _check_clocks(self, terms: Terms) -> None:
        """Refuse to date or to end a change by a clock that is off.

        Raises:
            ClockOff: by more than `clock_skew`, according to a region's answers.
        """
        for region, store in self._stores.items():
            check_offset(store.clock_offset, skew=terms.clock_skew, region=region)

    def _check_dates(self, pending: Contract, seconds_left: float = 0.0) -> None:
        """Refuse a step of shards that ids of its time may precede.

        Raises:
            ContractChangeRefused: it would be in force in `seconds_left` seconds at the earliest.
        """
        coming, now = pending.coming or pending.terms, self._clock.now()
        known = {step for steps in pending.terms.shards.values() for step in steps}
        for pattern, steps in coming.shards.items():
            for step in steps:
                if step in known or step.since is None:
                    continue
                ahead = (step.since - now).total_seconds()
                if ahead <= coming.clock_skew + seconds_left:
                    raise ContractChangeRefused(_too_early(pattern, step.since, seconds_left))

    async def _step(self, before: Contract, after: Contract) -> Contract:
        revision = before.revision + 1
        # Odd while a change is pending: two more if one change replaces another.
        revision += is_pending(revision) != (after.coming is not None)
        after = replace(after, revision=revision)
        still = Equals("revision", {"N": str(before.revision)})
        # A change of the home is brought into force through the old one, which wrote all earlier
        # ones.
        return await self._put(after, still, through=before.written_through)

    async def _put(self, contract: Contract, condition: Condition, *, through: str) -> Contract:
        """Write the contract through a region, its home.

        Raises:
            ContractChangeRefused: another operator wrote it meanwhile.
        """
        store = self._store(through)
        contract = replace(contract, since=self._clock.now() if contract.coming else None)
        put = Put(contract_item(contract), condition)
        for _try in range(WRITE_TRIES_MAX):
            outcome = await store.write(put)
            if isinstance(outcome, Applied):
                return contract
            found = await read_contract(store)
            if found == contract:  # written by a try whose answer was lost
                return contract
            if not isinstance(outcome, Unknown):
                raise ContractChangeRefused(
                    "another process changed the contract meanwhile: see `ledger table show`"
                )
            await self._clock.sleep(self._poll_seconds)
        raise StoreError(f"{store.region} did not confirm the write of the contract: run it again")

    def _store(self, home: str) -> Store:
        if home not in self._stores:
            raise ContractConflict(f"the contract's home {home} is not in the settings")
        return self._stores[home]

    def _check_reach(self, contract: Contract) -> None:
        """Check that every region that must show a contract is among the stores."""
        if unknown := [region for region in contract.regions if region not in self._stores]:
            raise ContractConflict(
                f"region {unknown[0]} must show the contract before it changes, and is not in the"
                " settings: add it to `regions`"
            )

    async def _until_all_show(self, contract: Contract) -> Contract:
        """Wait until every region that it names shows this contract, or one later one; return it.

        Two operators may have written one revision through two regions: then until the last writer
        has won in every region.
        """
        while True:
            self._check_reach(contract)
            found = await self.read_all()
            newest = newest_of(found.values()) or contract
            if contract.is_older_than(newest):
                contract = newest  # another operator's change must be as widely known
                self._check_reach(contract)
            behind = tuple(
                region
                for region in contract.regions
                if (each := found[region]) is None or each.is_older_than(contract) or each != newest
            )
            if set(behind) & set(contract.leaving):  # once its replica is removed it shows nothing
                listed = await self._listed(contract)
                behind = tuple(
                    each for each in behind if each not in contract.leaving or each in listed
                )
            if not behind:
                return newest
            self._report(Waiting(contract.revision, behind))
            await self._clock.sleep(self._poll_seconds)

    async def _until_removed(self, pending: Contract) -> None:
        """Wait until no region that a change takes out is a replica any more.

        Once in force, such a region is no longer observed; while it is a replica it still shows its
        items. Its removal is asked for once nothing is in it alone, which goes with it.
        """
        alone: Alone | None = None
        while still := {
            region: state
            for region, state in (await self._listed(pending)).items()
            if region in pending.leaving
        }:
            works = [region for region, state in still.items() if state != REMOVING]
            if not works or alone is None or not alone.is_none:
                alone = await self._alone(pending, works)
            self._report(Waiting(pending.revision, replicas=(*still,), alone=alone))
            is_asked = alone is None or alone.is_none
            await self._clock.sleep(self._poll_seconds if is_asked else COMPARED_EVERY_SECONDS)

    async def _alone(self, pending: Contract, leaving: Iterable[str]) -> Alone | None:
        """Return what only these leaving regions have; None if the removal of all has begun."""
        others = [self._stores[region] for region in (pending.coming or pending.terms).regions]
        found: list[Alone] = []
        for region in leaving:
            with suppress(TableMissing):  # removed just now
                found.append(await count_alone(self._stores[region], others, clock=self._clock))
        if not found:
            return None
        return Alone(sum(each.items for each in found), all(each.is_whole for each in found))

    async def _listed(self, contract: Contract) -> Mapping[str, str]:
        """Return the replicas that the contract's home lists, with their states."""
        return await self._store(contract.written_through).replicas() or {}


async def _shown_in(store: Store) -> Contract | TableMissing | None:
    try:
        return await read_contract(store)
    except TableMissing as error:
        return error


def _check_home(home: str, wanted: str) -> None:
    """Check that the present or coming home is the one that an operator named.

    Raises:
        InvalidInput: it is another.
    """
    if home != wanted:
        raise InvalidInput(f"the home is {home}, which is not lost: name it in place of {wanted}")


def _check_same(shown: Iterable[Contract], terms: Terms) -> None:
    """Check that the table's contract is what its operator wants to establish.

    Raises:
        ContractConflict: it has other terms, or a pending change to others.
    """
    if any(contract.terms != terms or contract.coming not in (None, terms) for contract in shown):
        raise ContractConflict(
            "the table has a contract already, with other terms: `ledger table show` prints it,"
            " `ledger table set` changes it"
        )


def _too_early(pattern: str, since: datetime, seconds_left: float) -> str:
    named = f"shards of {pattern!r}: the date {since.isoformat()}"
    if seconds_left:
        return f"{named} is too early: the change takes at least {spoken(seconds_left)}"
    return (
        f"{named} passed before the change was in force: withdraw it with `ledger table set"
        " --withdraw`, and announce a later date"
    )
