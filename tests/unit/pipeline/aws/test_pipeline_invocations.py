from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from support.ledgers import AWAY, HOME, make_services
from support.pipelines import (
    BOTH_HOMES,
    POISON,
    map_items,
    message,
    pipeline_settings,
    shown,
    truth,
)
from support.stream_events import (
    ARRIVED,
    LANE,
    Event,
    event_of,
    kinesis_records,
    number,
    recorded,
)
from support.tiers import few_fast

from ledger.core.errors import AccessDenied, LedgerError, LeftOut, SettingsError
from ledger.pipeline.aws.invocations import LANES_MAX, LOOK_SECONDS, Invocations, values_of
from ledger.pipeline.aws.stream_events import DELETED, KINESIS_DIGITS
from ledger.pipeline.core import lane_state
from ledger.pipeline.core.items import position_key, state_key
from ledger.pipeline.core.lane_state import lane_state_of
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import Decide, Fault, FaultCall, FaultyStore, Late, Lost, Raises
from ledger.store.writes import Action, Outcome
from ledger.testing.clock import ManualClock

CRASH = Raises(AccessDenied("killed"))
FAULTS_SHARE = 0.2
RAWS = [
    message(f"T{record}", version, 100 * record + version)
    for version in (1, 2)
    for record in range(6)
]
RECORDS = kinesis_records(RAWS)


@dataclass
class Kept:
    """Stores in memory, made faulty by a decision that a test can change, and a list of letters."""

    stores: dict[str, MemoryStore] = field(
        default_factory=lambda: {name: MemoryStore(name) for name in (HOME, AWAY)}
    )
    letters: DeadLetterList = field(default_factory=DeadLetterList)
    decide: Decide = lambda _call: None
    given: Settings = field(default_factory=pipeline_settings)
    opened: list[str] = field(default_factory=list)
    faulty: list[FaultyStore] = field(default_factory=list)
    in_stream: Sequence[str] = ()
    looked: list[str] = field(default_factory=list)

    async def store(self, region: str) -> Store:
        """Return the store of a region."""
        self.opened.append(region)
        store = FaultyStore(self.stores[region], self._decided)
        self.faulty.append(store)
        return store

    async def settings(self, region: str) -> Settings:
        """Return settings that no contract changes."""
        assert region in self.stores
        return self.given

    def _decided(self, call: FaultCall) -> Fault | None:
        return self.decide(call)

    async def land(self, draw: Random) -> None:
        """Let some of the requests that are in flight land."""
        for store in self.faulty:
            while store.in_flight and draw.random() < 0.5:
                await store.land()

    async def following(self, region: str, lane: str, position: str) -> str | None:
        """Return the first of the stream's records after a position."""
        assert (region, lane) == (HOME, LANE)
        self.looked.append(position.lstrip("0"))
        return next((one for one in self.in_stream if one > position), None)

    async def dead_letters(self, region: str) -> DeadLetterList:
        """Return the list."""
        del region
        return self.letters

    @property
    def shown(self) -> Mapping[str, Any]:
        """The totals at home."""
        return shown(self.stores[HOME].table)

    @property
    def committed(self) -> str:
        """The lane's committed sequence number."""
        item = self.stores[HOME].table.get(position_key(f"{HOME}/{LANE}"))
        return lane_state_of(item).position.lstrip("0")


def environment(
    kept: Kept, *, metrics: PipelineMetrics | None = None, **pipeline: Any
) -> Invocations:
    """Return one environment of the function: what it remembers, it remembers until it ends."""
    settings = kept.given = pipeline_settings(**pipeline)
    return Invocations(settings, kept, services=make_services(), metrics=metrics)


async def again(lambda_: Invocations, records: Sequence[Event], seconds: float = 60) -> str | None:
    """Hand in records; returns the first sequence number that must come again, if any."""
    failures = (await lambda_.answer(event_of(records), seconds=seconds)).response
    named = [one["itemIdentifier"] for one in failures["batchItemFailures"]]
    assert len(named) <= 1
    return named[0] if named else None


async def deliver(
    hand_in: Callable[[Sequence[Event]], Awaitable[str | None]],
    records: Sequence[Event],
    sizes: Callable[[], int],
) -> None:
    """Hand in all records as Lambda does: from the first that failed on, until all are through."""
    place = 0
    for _ in range(1_000):
        if place == len(records):
            return
        batch = records[place : place + sizes()]
        with suppress(LedgerError):
            failed = await hand_in(batch)
            numbers = [one["kinesis"]["sequenceNumber"] for one in batch]
            place += len(batch) if failed is None else numbers.index(failed)
    raise AssertionError("the records never get through")


async def test_an_event_is_in_the_totals_when_it_is_answered() -> None:
    """Records are counted once, poison is kept with lane and position, nothing comes again."""
    kept = Kept()
    raws = [*RAWS, POISON]
    assert await again(environment(kept), kinesis_records(raws)) is None
    assert kept.shown == truth(raws)
    assert map_items(kept.stores[HOME].table) == []
    (letter,) = kept.letters.letters
    assert (letter.lane, letter.raw) == (f"{HOME}/{LANE}", POISON)
    assert letter.position.lstrip("0") == number(len(RAWS)) == kept.committed


async def test_items_of_a_table_are_records() -> None:
    """New images count by version, a delete is a dead letter, and the window's state is kept."""
    kept = Kept()
    answer = await environment(kept).answer(recorded("dynamodb_window"), seconds=60)
    assert answer.response == {"state": {}, "batchItemFailures": []}
    assert {name: str(total) for name, total in kept.shown.items()} == {
        "risk/Delta": "12.5",
        "desk/EMEA/A": "12.5",
    }
    assert [letter.reason for letter in kept.letters.letters] == [DELETED]
    end = await environment(kept).answer(recorded("dynamodb_window_end"), seconds=60)
    assert end.response == {"state": {"seen": 2}, "batchItemFailures": []}


async def test_the_first_record_not_committed_is_named_and_nothing_before_is_repeated() -> None:
    """What was committed before a failure is not handed in again; what follows is, once."""
    kept = Kept()
    lambda_ = environment(kept, batch_max=3, in_flight=1)
    commits = 0

    def third_commit_fails(call: FaultCall) -> Fault | None:
        nonlocal commits
        commits += call.operation == "transact" and call.size > 1
        return CRASH if commits >= 3 else None

    kept.decide = third_commit_fails
    failed = await again(lambda_, RECORDS)
    assert failed is not None
    place = [record["kinesis"]["sequenceNumber"] for record in RECORDS].index(failed)
    assert 0 < place < len(RECORDS)
    assert kept.committed == number(place - 1)
    kept.decide = lambda _call: None
    assert await again(lambda_, RECORDS[place:]) is None
    assert kept.shown == truth(RAWS)


async def test_what_is_committed_and_not_added_up_comes_again() -> None:
    """If reduce fails, the last record is named: its shard may never have another one."""
    kept = Kept()
    lambda_ = environment(kept)
    transactions = 0

    def reduce_fails(call: FaultCall) -> Fault | None:
        nonlocal transactions
        transactions += call.operation == "transact"
        return CRASH if transactions > 1 else None

    kept.decide = reduce_fails
    assert await again(lambda_, RECORDS) == number(len(RECORDS) - 1)
    assert kept.shown == {}
    assert map_items(kept.stores[HOME].table) != []
    kept.decide = lambda _call: None
    assert await again(lambda_, RECORDS[-1:]) is None
    assert kept.shown == truth(RAWS)
    assert map_items(kept.stores[HOME].table) == []


async def test_an_event_of_which_nothing_is_committed_is_an_error() -> None:
    """Lambda counts it, so the alarm on errors goes by it; the same event again is well."""
    kept = Kept()
    lambda_ = environment(kept)
    kept.decide = lambda call: CRASH if call.operation == "transact" else None
    with pytest.raises(AccessDenied):
        await again(lambda_, RECORDS)
    kept.decide = lambda _call: None
    assert await again(lambda_, RECORDS) is None
    assert kept.shown == truth(RAWS)


async def test_time_that_runs_out_is_told() -> None:
    """Without time an event fails whole, whatever of it is in states."""
    kept = Kept()
    lambda_ = environment(kept)
    with pytest.raises(LedgerError, match="not brought in within 0 s"):
        await again(lambda_, RECORDS, seconds=0)
    assert await again(lambda_, RECORDS) is None
    assert kept.shown == truth(RAWS)


@pytest.mark.parametrize("seed", few_fast(range(12), fast=3))
async def test_batches_cut_anew_end_exact(seed: int) -> None:
    """Whatever fails, however often, and however records are divided then, totals are the truth.

    Environments come and go; some requests are lost, some land late, some kill the invocation.
    """
    draw = Random(seed)  # noqa: S311 (repeatable)
    versions = [(f"T{draw.randrange(8)}", draw.randrange(1, 5)) for _ in range(60)]
    raws = [message(record, version, 7 * version**3) for record, version in versions]
    kept = Kept()
    kept.decide = lambda _call: (
        draw.choice((CRASH, Lost(), Late())) if draw.random() < FAULTS_SHARE else None
    )
    alive = [environment(kept, batch_max=5)]
    sizes = []

    async def hand_in(records: Sequence[Event]) -> str | None:
        if draw.random() < 0.3:
            alive.append(environment(kept, batch_max=draw.choice((2, 5, 50)), in_flight=3))
        await kept.land(draw)
        sizes.append(len(records))
        return await again(draw.choice(alive), records)

    await deliver(hand_in, kinesis_records(raws), lambda: draw.randrange(1, 12))
    assert kept.shown == truth(raws)
    assert map_items(kept.stores[HOME].table) == []
    assert sum(sizes) > len(raws)  # something came again


async def test_events_of_the_past_change_nothing() -> None:
    """A mapping that starts over hands in what is in the totals: divided otherwise, no matter."""
    kept = Kept()
    await again(environment(kept), RECORDS)
    before = dict(kept.stores[HOME].table.partitions)
    for size in (1, 5, len(RECORDS)):
        for start in range(0, len(RECORDS), size):
            assert await again(environment(kept), RECORDS[start : start + size]) is None
    assert kept.shown == truth(RAWS)
    assert dict(kept.stores[HOME].table.partitions) == before


async def given_up(kept: Kept) -> list[Event]:
    """Let states take an event in that is then given up; returns what follows it."""
    kept.decide = lambda call: CRASH if call.operation == "transact" else None
    with pytest.raises(AccessDenied):
        await again(environment(kept), RECORDS[:6])
    kept.decide = lambda _call: None
    assert kept.stores[HOME].table.get(state_key("T1")) is not None
    return kinesis_records([*RAWS[:6], message("T9", 1, 9)])[6:]


async def test_a_lane_does_not_pass_what_was_begun_and_given_up() -> None:
    """Lambda goes on after a batch that it gave up: refused, until the batch comes again."""
    kept = Kept()
    rest = await given_up(kept)
    for _ in range(2):
        with pytest.raises(LeftOut, match=number(0)):
            await again(environment(kept), rest)
    assert kept.committed == ""
    lambda_ = environment(kept)
    for records in (RECORDS[:6], rest):
        assert await again(lambda_, records) is None
    assert kept.shown == truth([*RAWS[:6], message("T9", 1, 9)])


async def test_without_the_mark_what_was_given_up_would_be_lost() -> None:
    """The mutant: the lane goes on, and records sent again change nothing any more."""
    kept = Kept()
    with patch.object(lane_state, "joined", lambda _known, _committed, asked: asked):
        rest = await given_up(kept)
        lambda_ = environment(kept)
        for records in (rest, RECORDS[:6]):
            assert await again(lambda_, records) is None
        resent = kinesis_records([b"{}"] * 7 + RAWS[:6])[7:]
        assert await again(lambda_, resent) is None
    assert kept.shown == truth([message("T9", 1, 9)])


async def test_what_the_position_passed_unseen_is_a_dead_letter() -> None:
    """A second mapping goes ahead of the first: what it skipped is kept, with the reason."""
    kept = Kept()
    for records in (RECORDS[::2], RECORDS[1::2]):
        assert await again(environment(kept), records) is None
    passed = RAWS[1:-1:2]
    assert kept.shown == truth([*RAWS[::2], RAWS[-1]])  # of the second batch only the last
    assert {letter.raw for letter in kept.letters.letters} == set(passed)
    assert all("parallelization factor" in letter.reason for letter in kept.letters.letters)
    for lane in ("replayed", "twice"):
        records = kinesis_records([letter.raw for letter in kept.letters.letters], shard=lane)
        assert await again(environment(kept), records) is None
    assert kept.shown == truth(RAWS)


@pytest.mark.parametrize("is_cut_off", [True, False])
async def test_of_two_batches_of_a_shard_at_once_none_is_passed_over(*, is_cut_off: bool) -> None:
    """The commit of later records is refused where earlier ones were begun after them."""
    kept, began = Kept(), list[str]()
    raws = [message(f"T{number}", 1, number + 1) for number in range(12)]
    records = kinesis_records(raws)
    first, second = records[:6], records[6:]

    class Beside(MemoryStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            if not began:
                began.append("first")
                if is_cut_off:
                    kept.decide = lambda call: CRASH if call.operation == "transact" else None
                with suppress(AccessDenied):
                    await again(environment(kept), first)
                kept.decide = lambda _call: None
            return await super().transact(actions, token=token)

    kept.stores[HOME] = Beside(HOME, kept.stores[HOME].table)
    if is_cut_off:
        with pytest.raises(LeftOut):
            await again(environment(kept), second)
        assert kept.committed == ""
    else:
        assert await again(environment(kept), second) is None
    for batch in (first, second):
        assert await again(environment(kept), batch) is None
    assert kept.shown == truth(raws)
    assert kept.letters.letters == []


async def test_two_regions_are_reached_and_opened_once() -> None:
    """States go to their records' homes, whichever region's stream brings them."""
    kept = Kept()
    lambda_ = environment(kept, home=BOTH_HOMES)
    raws = [message("E1", 1, 5), message("T1", 1, 7)]
    records = kinesis_records(raws, stream=f"arn:aws:kinesis:{AWAY}:111122223333:stream/records")
    assert await again(lambda_, records) is None
    assert await again(lambda_, records) is None
    assert kept.opened == sorted([HOME, AWAY])
    assert kept.stores[AWAY].table.get(state_key("E1"))
    assert kept.stores[HOME].table.get(state_key("T1"))
    assert shown(kept.stores[AWAY].table) == truth(raws)


async def test_a_few_lanes_are_remembered() -> None:
    """An environment keeps the lanes that it saw last, and their records' states with them."""
    kept = Kept()
    lambda_ = environment(kept)
    shards = [f"shardId-{place:012d}" for place in range(LANES_MAX + 1)]
    for shard in (*shards, shards[-1], shards[0]):
        assert await again(lambda_, kinesis_records(RAWS[:1], shard=shard)) is None
    assert len(kept.opened) == LANES_MAX + 2
    assert kept.shown == truth(RAWS[:1])


async def test_what_is_done_is_counted() -> None:
    """Doubled, stale and dead records are told apart, and requests made again."""
    kept, metrics = Kept(), PipelineMetrics()
    lambda_ = environment(kept, metrics=metrics)
    raws = [message("T1", 2, 5), message("T1", 1, 4), message("T1", 2, 5), POISON]
    answer = await lambda_.answer(event_of(kinesis_records(raws)), seconds=60)
    assert (len(answer.records), answer.again) == (4, 0)
    last = answer.records[-1].at
    assert last is not None
    assert last.timestamp() == ARRIVED
    assert values_of(metrics) == {"Duplicates": 1, "Stale": 1, "DeadLetters": 1, "Retried": 0}


async def test_settings_without_categories_are_refused_at_once() -> None:
    """A function that could count nothing does not begin."""
    with pytest.raises(SettingsError, match="categories"):
        environment(Kept(), categories=[])


@pytest.mark.parametrize("first", [0, 3, 8, 9])
async def test_a_mapping_that_begins_behind_what_is_committed_leaves_nothing_out(
    first: int,
) -> None:
    """One at LATEST, say: what the stream has in between is found when the lane begins."""
    kept = Kept(in_stream=[number_.zfill(KINESIS_DIGITS) for number_ in map(number, range(12))])
    assert await again(environment(kept), RECORDS[:8]) is None
    assert kept.looked == []
    last = kept.committed
    records = RECORDS[first : first + 3]
    if first <= 8:
        assert await again(environment(kept), records) is None
        assert kept.looked == ([last] if first == 8 else [])
        return
    with pytest.raises(LeftOut, match=r"(?s)has come to .* goes on at .* replace the event source"):
        await again(environment(kept), records)
    assert kept.committed == last
    assert await again(environment(kept), RECORDS[8:]) is None
    assert kept.shown == truth(RAWS)


async def test_only_a_stream_of_kinesis_is_looked_into() -> None:
    """A table's stream is not read by the function."""
    kept, event = Kept(), recorded("dynamodb_window")
    for records in (event["Records"][:1], event["Records"][1:]):
        await environment(kept).answer({**event, "Records": records}, seconds=60)
    assert kept.looked == []


async def test_a_lane_is_looked_at_now_and_then() -> None:
    """Not each time that it begins, as those of many shards do with most of their events."""
    kept, clock = Kept(), ManualClock(instant=True)
    assert await again(environment(kept), RECORDS[:2]) is None
    lambda_ = Invocations(kept.given, kept, services=make_services(clock))
    others = [kinesis_records([message("T1", 9, 1)], shard=f"s{n}") for n in range(LANES_MAX)]
    for start in (2, 4, 6):
        assert await again(lambda_, RECORDS[start : start + 2]) is None
        if start == 4:
            clock.pass_by(LOOK_SECONDS)
        for records in others:  # which take its place among the lanes that are remembered
            assert await again(lambda_, records) is None
    assert len(kept.looked) == 2
