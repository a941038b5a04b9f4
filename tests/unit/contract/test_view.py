"""What a process takes from the contract, how long it acts on it, and when it refuses to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from support.contracts import ContractStore, make_terms, put_contract
from support.ledgers import AWAY, HOME, LOCAL, SOUTH

from ledger.contract.view import AGAIN_SECONDS, AGAIN_VOID_SECONDS, REFRESH_SECONDS, ContractView
from ledger.core.contract import CONTRACT_LIFE, Terms, Validity
from ledger.core.contract_item import FORMAT, Contract, contract_item, contract_key
from ledger.core.errors import (
    ContractConflict,
    ContractDamaged,
    ContractMissing,
    ContractStale,
    LedgerError,
    UpgradeNeeded,
)
from ledger.settings import Settings
from ledger.testing.clock import START, ManualClock

TERMS = make_terms(settle=2000.0, shards={"visits": 4})
SLOWER = replace(TERMS, settle=4000.0, retry_horizon=200.0)
IN_FORCE = Contract(terms=TERMS)
PENDING = Contract(terms=TERMS, revision=1, coming=SLOWER)


def reach(**overrides: Any) -> Settings:
    """Return settings that only say how regions are reached."""
    return Settings(**{"regions": dict.fromkeys((HOME, AWAY, SOUTH), LOCAL), **overrides})


class Watched:
    """A region with a contract, and one process's view of it."""

    def __init__(self, contract: Contract | None = IN_FORCE, **overrides: Any) -> None:
        self.clock = ManualClock()
        self.store = ContractStore(HOME)
        self.view = ContractView(self.store, reach(**overrides), clock=self.clock)
        if contract is not None:
            self.show(contract)

    def show(self, contract: Contract | None) -> None:
        """Let the region show this contract."""
        item = None if contract is None else contract_item(contract)
        self.store.table.set(contract_key(generation=1), item)

    async def after(self, seconds: float) -> None:
        """Let time pass, then begin a piece of work."""
        self.clock.pass_by(seconds)
        await self.view.renew()


@asynccontextmanager
async def watching(contract: Contract | None = IN_FORCE, **overrides: Any) -> AsyncIterator[Any]:
    """Give a view that is open."""
    watched = Watched(contract, **overrides)
    await watched.view.open()
    yield watched


async def test_values_come_from_the_contract() -> None:
    """Settings that only say how to reach the table get everything else from it."""
    async with watching() as watched:
        current = watched.view.current
        assert current.terms == TERMS
        assert (current.settle, current.shards_max("visits")) == (2000.0, 4)
        assert (current.retry_horizon, current.home) == (TERMS.retry_horizon, HOME)


async def test_counters_are_combined_by_the_terms_of_the_moment() -> None:
    """A process that runs begins at the announcement, and ends once that is withdrawn."""
    coming = replace(TERMS, combine=("votes/*",))
    async with watching() as watched:
        assert not watched.view.current.combines("votes/a")
        for contract, combines in (
            (Contract(terms=TERMS, revision=1, coming=coming), True),
            (Contract(terms=TERMS, revision=2), False),
        ):
            watched.show(contract)
            await watched.after(REFRESH_SECONDS + 1)
            assert watched.view.current.combines("votes/a") is combines
            assert not watched.view.current.combines("visits")


async def test_what_is_local_stays_and_is_cut_to_the_contract() -> None:
    """Cache and transport are the settings' own; deadlines end within the contract's."""
    terms = make_terms(retry_horizon=10.0, settle=2000.0)
    async with watching(
        Contract(terms=terms), write_deadline=20, cache={"max_age": 7}, transport="lean"
    ) as watched:
        current = watched.view.current
        assert (current.cache.max_age, current.transport) == (7, "lean")
        assert current.write_deadline == 10.0


async def test_a_region_of_the_contract_alone_is_reached_as_the_sdk_finds_it() -> None:
    """Without endpoints in the settings any region can be reached."""
    watched = Watched(regions={HOME: None}, signature_lifetime=TERMS.signature_lifetime)
    await watched.view.open()
    assert tuple(watched.view.current.regions) == (HOME, AWAY, SOUTH)
    assert watched.view.current.region(SOUTH).endpoint is None


async def test_a_region_without_an_endpoint_is_refused_beside_others_with_one() -> None:
    """A local table's further region cannot be guessed, and must not become AWS's."""
    watched = Watched(regions={HOME: LOCAL, AWAY: LOCAL})
    with pytest.raises(ContractConflict, match=f"names region {SOUTH}.*endpoint"):
        await watched.view.open()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"settle": 3000}, r"settle is 3000.* in the settings, 2000.* in the contract"),
        ({"retry_horizon": 1800, "settle": 2000 + 1800}, r"settle is|retry_horizon is"),
        ({"read_deadline": 3}, r"read_deadline is 3.* in the settings, 15.* in the contract"),
        ({"shards": {"visits": 8}}, r"shards is .*8.* in the settings, .*4.* in the contract"),
        ({"combine": ["v*"]}, r"combine is \('v\*',\) in the settings, \(\) in the contract"),
        ({"home": AWAY}, rf"home is '{AWAY}' in the settings, '{HOME}' in the contract"),
        ({"clock_skew": 1}, r"clock_skew is 1.* in the settings, 60.* in the contract"),
    ],
)
async def test_a_value_of_its_own_is_refused_with_both(given: Any, message: str) -> None:
    """A setting that differs from the contract names both values and how to change either."""
    watched = Watched(**given)
    with pytest.raises(ContractConflict, match=message) as refused:
        await watched.view.open()
    assert ("compactor move-home" if "home" in given else "ledger table set") in str(refused.value)


async def test_a_region_of_the_settings_alone_is_refused() -> None:
    """What compactors do not observe is neither written nor read; a file may name it still."""
    watched = Watched(Contract(terms=make_terms(regions=(HOME, AWAY))))
    await watched.view.open()
    assert SOUTH not in watched.view.current.regions
    elsewhere = Watched(Contract(terms=make_terms(home=AWAY, regions=(AWAY, SOUTH))))
    with pytest.raises(ContractConflict, match=f"region {HOME} is not in the contract"):
        await elsewhere.view.open()


async def test_a_region_that_has_left_is_not_read() -> None:
    """Merging no longer observes it: a process there ends, rather than read a wrong total."""
    left = make_terms(regions=(AWAY, SOUTH), settle=2000.0, shards={"visits": 4})
    leaving = Contract(terms=TERMS, revision=1, coming=left)
    async with watching(leaving) as watched:
        with pytest.raises(ContractConflict, match=f"region {HOME} is not written to"):
            watched.view.current.check_written(HOME)
        watched.view.current.check_written(AWAY)
        watched.show(Contract(terms=left, revision=2))
        with pytest.raises(ContractConflict, match=f"region {HOME} is not in the contract"):
            await watched.after(REFRESH_SECONDS)


@pytest.mark.parametrize("settle", [2000.0, 4000.0])
async def test_equal_values_are_allowed(settle: float) -> None:
    """A setting may repeat what is in force and, while a change is pending, what is coming."""
    async with watching(PENDING, settle=settle) as watched:
        assert watched.view.current.settle == 4000.0


async def test_a_table_without_a_contract_is_refused() -> None:
    """The message says how to write one."""
    with pytest.raises(ContractMissing, match="ledger table adopt"):
        await Watched(None).view.open()
    with pytest.raises(ContractMissing, match="was not read yet"):
        _ = Watched(None).view.contract


async def test_it_is_read_again_after_a_minute() -> None:
    """Within a minute nothing is read; after it the next piece of work sees what changed."""
    async with watching() as watched:
        watched.show(PENDING)
        await watched.after(REFRESH_SECONDS - 1)
        assert (watched.store.reads, watched.view.current.settle) == (1, 2000.0)
        await watched.after(1)
        assert (watched.store.reads, watched.view.current.settle) == (2, 4000.0)
        assert watched.view.current.retry_horizon == 200.0
        assert watched.view.contract == PENDING


async def test_each_read_renews_the_validity() -> None:
    """Requests may be signed until `contract_life` after the last read was sent."""
    async with watching() as watched:
        first = watched.view.validity
        assert first is not None
        assert first.until == START + timedelta(seconds=CONTRACT_LIFE)
        await watched.after(REFRESH_SECONDS)
        assert watched.view.validity == type(first)(
            first.until + timedelta(seconds=REFRESH_SECONDS), first.elapsed_until + REFRESH_SECONDS
        )


async def test_a_slow_read_counts_from_when_it_was_sent() -> None:
    """An answer may be as old as its request."""
    watched = Watched()

    async def slow() -> None:
        watched.clock.pass_by(100)

    watched.store.on_read = slow
    await watched.view.open()
    assert watched.view.validity is not None
    assert watched.view.validity.until == START + timedelta(seconds=CONTRACT_LIFE)


async def test_without_reads_it_is_acted_on_for_its_life_and_no_longer() -> None:
    """A region that fails is asked every few seconds; the view lives `contract_life`, not more."""
    async with watching() as watched:
        watched.store.fails = True
        await watched.after(REFRESH_SECONDS)
        await watched.after(AGAIN_SECONDS - 1)
        assert watched.store.reads == 2
        await watched.after(1)
        assert watched.store.reads == 3
        await watched.after(CONTRACT_LIFE - REFRESH_SECONDS - AGAIN_SECONDS)
        with pytest.raises(ContractStale, match=f"cannot be read in {HOME}: .*no answer"):
            await watched.after(AGAIN_SECONDS)
        watched.store.fails = False
        await watched.after(AGAIN_SECONDS)
        assert watched.view.current.settle == 2000.0


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_is_set_does_not_lengthen_it(hours: int) -> None:
    """A jump of the time of day either way makes a read due."""
    async with watching() as watched:
        watched.clock.wall += timedelta(hours=hours)
        assert watched.view.is_due()
        await watched.view.renew()
        assert watched.store.reads == 2


async def test_while_the_life_of_views_changes_the_shorter_one_counts() -> None:
    """Whoever brings the change into force waits for the one or the other."""
    shorter = Contract(terms=TERMS, revision=1, coming=replace(TERMS, contract_life=100.0))
    async with watching(shorter) as watched:
        assert watched.view.validity == Validity.of_read(START, 0.0, contract_life=100.0)


async def test_a_clock_set_back_does_not_revive_a_view() -> None:
    """Elapsed time counts beside the time of day: five minutes are over for both."""
    async with watching() as watched:
        watched.store.fails = True
        watched.clock.pass_by(CONTRACT_LIFE + 1)
        watched.clock.wall = START
        with pytest.raises(ContractStale):
            await watched.view.renew()


async def test_a_suspended_process_reads_first() -> None:
    """What only the wall clock shows of a suspension counts too."""
    async with watching() as watched:
        watched.store.fails = True
        watched.clock.suspend(CONTRACT_LIFE + 1)
        with pytest.raises(ContractStale):
            await watched.view.renew()


async def test_an_older_revision_is_not_taken() -> None:
    """A region that falls behind what it showed is a region that cannot be read."""
    async with watching(PENDING) as watched:
        watched.show(IN_FORCE)
        await watched.after(REFRESH_SECONDS)
        assert watched.view.contract == PENDING
        with pytest.raises(ContractStale, match=r"shows revision 0 .* after revision 1"):
            await watched.after(CONTRACT_LIFE)


async def test_a_contract_that_vanishes_is_refused_at_once() -> None:
    """Nothing goes on under a contract that somebody deleted."""
    async with watching() as watched:
        watched.show(None)
        with pytest.raises(ContractMissing):
            await watched.after(REFRESH_SECONDS)


async def test_a_damaged_or_newer_contract_is_refused_at_once() -> None:
    """Neither is a failure that may pass by itself."""
    async with watching() as watched:
        await put_contract([watched.store], Contract(terms=replace(TERMS, format=FORMAT + 1)))
        with pytest.raises(UpgradeNeeded):
            await watched.after(REFRESH_SECONDS)
        item = contract_item(IN_FORCE)
        watched.store.table.set(contract_key(generation=1), {**item, "revision": {"N": "2"}})
        with pytest.raises(ContractDamaged):
            await watched.view.renew()


async def test_calls_at_the_same_time_share_one_read() -> None:
    """A hundred calls that find it due send one request."""
    async with watching() as watched:
        answering = anyio.Event()
        watched.store.on_read = answering.wait
        watched.clock.pass_by(REFRESH_SECONDS)
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(watched.view.renew)
            for _ in range(10):
                await checkpoint()
            answering.set()
        assert watched.store.reads == 2


async def test_calls_under_a_void_view_fail_together() -> None:
    """One read that fails ends all that wait for it, in place of one read for each in turn."""
    async with watching() as watched:
        watched.store.fails = True
        watched.clock.pass_by(CONTRACT_LIFE + 1)
        ended: list[ContractStale] = []

        async def call() -> None:
            with pytest.raises(ContractStale, match="cannot be read") as raised:
                await watched.view.renew()
            ended.append(raised.value)

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(call)
        assert (len(ended), watched.store.reads) == (20, 2)
        watched.store.fails = False
        await watched.after(AGAIN_VOID_SECONDS)
        assert watched.store.reads == 3
        assert watched.view.current.settle == 2000.0


async def test_a_call_under_a_void_view_is_refused_until_it_is_read_again() -> None:
    """Between two tries, too: `renew` never returns with a view that is too old to act on."""
    async with watching() as watched:
        watched.store.fails = True
        with pytest.raises(ContractStale):
            await watched.after(CONTRACT_LIFE + 1)
        assert watched.view.is_due()
        with pytest.raises(ContractStale, match="cannot be read"):
            await watched.view.renew()
        assert watched.store.reads == 2
        watched.store.fails = False
        await watched.after(AGAIN_VOID_SECONDS)
        assert not watched.view.is_due()


@pytest.mark.parametrize("seconds", [CONTRACT_LIFE - 1, CONTRACT_LIFE + 1])
async def test_a_read_that_a_call_gave_up_is_made_once_the_view_is_void(seconds: float) -> None:
    """A process that froze in the read wakes in a call whose time is over; the next call reads."""
    async with watching() as watched:
        watched.clock.pass_by(REFRESH_SECONDS)

        async def freeze() -> None:
            watched.clock.pass_by(seconds - REFRESH_SECONDS)
            scope.cancel()
            await checkpoint()

        watched.store.on_read = freeze
        with anyio.CancelScope() as scope:
            await watched.view.renew()
        watched.store.on_read = checkpoint
        watched.show(PENDING)
        await watched.after(0 if seconds > CONTRACT_LIFE else CONTRACT_LIFE + 1 - seconds)
        assert watched.view.contract == PENDING


async def test_another_contract_of_the_same_revision_is_taken() -> None:
    """Two operators wrote it through two regions at once: here the later write wins."""
    async with watching(PENDING) as watched:
        watched.show(replace(PENDING, coming=replace(TERMS, settle=9000.0)))
        await watched.after(REFRESH_SECONDS)
        assert watched.view.current.settle == 9000.0


async def test_calls_that_wait_for_the_contract_end_when_it_is_closed() -> None:
    """The one that reads ends with its read, the others at once after it."""
    async with watching() as watched:
        answering = anyio.Event()
        watched.store.on_read = answering.wait
        watched.clock.pass_by(REFRESH_SECONDS)
        closed: list[str] = []

        async def call() -> None:
            try:
                await watched.view.renew()
            except LedgerError as error:
                closed.append(str(error))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(call)
            for _ in range(10):
                await checkpoint()
            watched.view.close()
            answering.set()
        assert len(closed) == 2
        assert watched.store.reads == 2


def test_terms_of_settings_are_those_that_they_would_give() -> None:
    """The same settings make and obey the same contract."""
    terms: Terms = reach(settle=2000.0, shards={"visits": 4}).terms
    assert terms == TERMS


ALONE = make_terms(regions=(HOME,))


async def test_a_region_that_is_added_switches_incremental_reads_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An entry of it may arrive at any age. Calls go on, with a warning that says so, once."""
    one = {"regions": {HOME: {}}, "cache": {"incremental": True, "max_age": 7.0}}
    async with watching(Contract(terms=ALONE), **one) as watched:
        assert watched.view.current.cache.incremental
        both = replace(ALONE, regions=(HOME, AWAY))
        for contract in (
            Contract(terms=ALONE, revision=1, coming=both),
            Contract(terms=both, revision=2),
        ):
            watched.show(contract)
            await watched.after(REFRESH_SECONDS)
            cache = watched.view.current.cache
            assert (cache.incremental, cache.max_age) == (False, 7.0)
        assert caplog.text.count("cache.incremental is off from now on") == 1


async def test_incremental_reads_stay_off_once_the_other_region_is_gone() -> None:
    """What it wrote may still arrive, and what was read meanwhile was read in part."""
    one = {"regions": {HOME: LOCAL}, "cache": {"incremental": True}}
    left = replace(ALONE, lost=(AWAY,), given_up_at=START)
    async with watching(Contract(terms=left), **one) as watched:
        assert not watched.view.current.cache.incremental


async def test_a_region_that_a_pipeline_sends_records_to_may_go() -> None:
    """Its lanes wait for their home; everything else of the process goes on."""
    homes = {"field": "country", "regions": {"*": AWAY}}
    fields = {"id": "id", "version": "version", "value": "amount"}
    pipeline = {"fields": fields, "home": homes}
    async with watching(pipeline=pipeline) as watched:
        left = replace(make_terms(regions=(HOME, SOUTH)), lost=(AWAY,), given_up_at=START)
        watched.show(Contract(terms=left, revision=2))
        await watched.after(REFRESH_SECONDS)
        current = watched.view.current
        assert list(current.regions) == [HOME, SOUTH]
        assert current.pipeline.home.regions == {"*": AWAY}


async def test_a_region_that_is_added_is_reached_as_aws_has_it() -> None:
    """Also where the others have endpoints of AWS, in a VPC: no process has to stop for it."""
    endpoint = f"https://vpce-1-2.dynamodb.{HOME}.vpce.amazonaws.com"
    async with watching(Contract(terms=ALONE), regions={HOME: {"endpoint": endpoint}}) as watched:
        watched.show(Contract(terms=replace(ALONE, regions=(HOME, AWAY)), revision=2))
        await watched.after(REFRESH_SECONDS)
        reached = watched.view.current.regions
        assert (reached[HOME].endpoint, reached[AWAY].endpoint) == (endpoint, None)
