"""What passes leave in the table for `compactor status`."""

import json
import logging
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry
from support.compacting import Instance, World, compactor_settings
from support.failing import always
from support.ledgers import HOME, WEST

from compactor.metrics import CompactorMetrics
from compactor.pass_history import (
    FAILED,
    MEMBER_KEPT,
    RECORD_SECONDS,
    SEARCHED,
    SUCCEEDED,
    TEXT_MAX,
    PassHistory,
    PassRecord,
    Recorder,
    recorded_passes,
    shortened,
)
from compactor.report import CompactorReport
from compactor.slices import HEAD
from compactor.status import CompactorStatus, print_status, status_fields, status_in
from ledger.core import keys
from ledger.core.errors import AccessDenied, Unreachable
from ledger.store.port import Store
from ledger.store.wrappers.faults import Raises

LEASE = f"compactor@{HOME}"
UNREADABLE = Raises(Unreachable("cut off"))


async def records(world: World) -> dict[tuple[str, str], PassRecord | None]:
    """Return what home shows, by member and kind."""
    found = await recorded_passes(world.regions.replicas[HOME], LEASE)
    return {(recorded.member, recorded.kind): recorded.record for recorded in found}


def cut_off(instance: Instance, region: str) -> None:
    """Let a process read nothing of a region any more."""
    instance.faults[region] = lambda _call: UNREADABLE


async def test_a_pass_leaves_what_it_did() -> None:
    """Its report, its process, its time; and what the search found, with the oldest of it."""
    world = World()
    made = await world.settled(entries=6)
    one = world.instance("one")
    began = world.clock.now()
    report = await world.run_once(one)
    found = await records(world)
    assert set(found) == {(HEAD, SUCCEEDED), (HEAD, SEARCHED)}
    record = found[HEAD, SUCCEEDED]
    assert record is not None
    assert record == found[HEAD, SEARCHED]
    assert record.owner == "one"
    assert began < record.ended <= world.clock.now()
    assert record.report == report
    assert (report.folds, report.merged, report.backlog) == (1, 6, 6)
    oldest = min(made).at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert report.oldest == oldest
    assert record.lag_seconds[HOME] == 0


async def test_a_failed_pass_does_not_hide_the_last_success() -> None:
    """Both are there, and the newest is the one that failed."""
    world = World()
    await world.settled(entries=6)
    one = world.instance("one")
    await world.run_once(one)
    succeeded = (await records(world))[HEAD, SUCCEEDED]
    await world.settled(entries=6)
    cut_off(one, WEST)
    report = await world.run_once(one)
    assert report.unreadable == WEST
    found = await recorded_passes(world.regions.replicas[HOME], LEASE)
    status = CompactorStatus("t", LEASE, {}, {}, found)
    assert [(recorded.kind, recorded.member) for recorded in status.newest] == [(FAILED, HEAD)]
    assert status.last_success == succeeded
    assert status.last_search == succeeded
    now = world.clock.now()
    shown = json.loads(json.dumps(status_fields(status, now=now), default=str))
    assert shown["passes"][0]["outcome"] == "waiting"
    assert succeeded is not None
    age = (now - succeeded.ended).total_seconds()
    assert shown["last_success"]["age_seconds"] == pytest.approx(age)


async def test_with_home_down_passes_are_not_said_to_be_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing that could be read has one: that is not known; once home answers, it is."""
    world = World()
    one, settings = world.instance("one"), compactor_settings()
    cut_off(one, HOME)
    status = await status_in(one.stores, settings)
    print_status(status, now=world.clock.now())
    shown = capsys.readouterr().out
    assert f"passes cannot be read: {HOME}" in shown
    assert "no pass is recorded" not in shown
    one.faults.clear()
    print_status(await status_in(one.stores, settings), now=world.clock.now())
    assert "no pass is recorded" in capsys.readouterr().out
    await world.run_once(one)
    world.regions.deliver()
    cut_off(one, HOME)
    print_status(await status_in(one.stores, settings), now=world.clock.now())
    assert "the last pass that succeeded ended at" in capsys.readouterr().out


async def test_what_prevents_recording_fails_no_pass(caplog: pytest.LogCaptureFixture) -> None:
    """A role without the right: it is counted each time, and said once by a process."""
    world, registry = World(), CollectorRegistry()
    denied, _table = always(Raises(AccessDenied("no")))
    one = recorder(world, store=denied, metrics=CompactorMetrics.of(registry))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await one.record(HEAD, CompactorReport(), drain_seconds=0, lag_seconds={})
            await world.clock.advance(RECORD_SECONDS)
    (said,) = caplog.records
    assert "cannot be recorded" in said.message
    assert registry.get_sample_value("compactor_errors_total", {"kind": "AccessDenied"}) == 3


def recorder(
    world: World, *, store: Store | None = None, metrics: CompactorMetrics | None = None
) -> Recorder:
    """Return what records passes at home."""
    return Recorder(
        store or world.regions.replicas[HOME],
        LEASE,
        owner="one",
        clock=world.clock,
        metrics=metrics or CompactorMetrics.of(None),
    )


async def test_passes_that_end_alike_are_recorded_once_a_minute() -> None:
    """Another end, or another seat, is recorded at once."""
    world, report = World(), CompactorReport()
    one = recorder(world)

    async def record(member: str = HEAD, *, merged: int, waits: str = "") -> None:
        report.merged, report.waits = merged, waits
        await one.record(member, report, drain_seconds=0, lag_seconds={})

    async def shown(member: str = HEAD, kind: str = SUCCEEDED) -> int:
        record = (await records(world))[member, kind]
        assert record is not None
        return record.report.merged

    await record(merged=1)
    await world.clock.advance(RECORD_SECONDS - 1)
    await record(merged=2)
    assert await shown() == 1
    await record(merged=3, waits="clock")
    assert (await shown(), await shown(kind=FAILED)) == (1, 3)
    await record(merged=4)
    assert await shown() == 4
    await record("process/a/1", merged=5)
    assert await shown("process/a/1") == 5
    await world.clock.advance(RECORD_SECONDS)
    await record("process/a/1", merged=6)
    assert (await shown("process/a/1"), await shown()) == (6, 4)


async def test_only_records_of_passing_members_expire() -> None:
    """The head's last pass is of interest however long ago it was."""
    world = World()
    for member in (HEAD, "process/a/1"):
        await recorder(world).record(member, CompactorReport(), drain_seconds=0, lag_seconds={})
    items = {item["sk"]["S"]: item for item in world.regions.replicas[HOME].table.items()}
    assert keys.EXPIRES not in items[f"{LEASE}/{HEAD}/{SUCCEEDED}"]
    at = int(items[f"{LEASE}/process/a/1/{SUCCEEDED}"][keys.EXPIRES]["N"])
    assert at == int((world.clock.now() + MEMBER_KEPT).timestamp())


async def test_falling_behind_has_no_time_to_drain() -> None:
    """JSON has no infinity."""
    world = World()
    await recorder(world).record(
        HEAD, CompactorReport(), drain_seconds=float("inf"), lag_seconds={WEST: 0.5}
    )
    record = (await records(world))[HEAD, SUCCEEDED]
    assert record is not None
    assert record.drain_seconds is None
    assert record.lag_seconds == {WEST: 0.5}


@pytest.mark.parametrize(
    "record",
    [
        None,
        {"N": "1"},
        {"S": "{"},
        {"S": "{}"},
        {"S": '{"owner":"a","ended":"2026-01-01T00:00:00","report":{}}'},
    ],
)
async def test_what_cannot_be_read_is_shown_as_such(record: dict[str, str] | None) -> None:
    """Another release's, or edited by hand: the status is shown without it."""
    world = World()
    item = {"pk": {"S": keys.PASS_PARTITION}, "sk": {"S": f"{LEASE}/{HEAD}/{SUCCEEDED}"}}
    if record is not None:
        item["record"] = record
    world.regions.put(HOME, item)
    found = await recorded_passes(world.regions.replicas[HOME], LEASE)
    assert found == [PassHistory(HEAD, SUCCEEDED, None)]
    status = CompactorStatus("t", LEASE, {}, {}, found)
    fields = status_fields(status, now=datetime(2026, 1, 1, tzinfo=UTC))
    assert fields["passes"] == [{"member": HEAD, "error": "of another release"}]
    assert fields["last_success"] is None


async def test_another_home_has_records_of_its_own() -> None:
    """Like its lease: an item written through two regions would keep the later write alone."""
    world = World()
    await recorder(world).record(HEAD, CompactorReport(), drain_seconds=0, lag_seconds={})
    assert await recorded_passes(world.regions.replicas[HOME], f"compactor@{WEST}") == []


def test_a_record_stays_small() -> None:
    """However many collections are damaged, and however long the reasons are."""
    report = CompactorReport(problems=["p" * 10_000] * 1_000, waits="w" * 10_000)
    for number in range(1_000):
        report.quarantine(f"counter-{number}", "q" * 10_000)
    short = shortened(report)
    assert len(str(short)) < 10 * TEXT_MAX
    assert (short.damaged, short.is_success, short.outcome) == (1_000, False, "waiting")


async def test_a_search_in_parts_finds_the_oldest_of_its_part() -> None:
    """Several collections: the oldest entry of all of them; younger ones are none."""
    world = World()
    old = await world.settled(entries=4, counter="b")
    await world.settled(entries=4, counter="a")
    world.write(entries=2, counter="c")
    world.regions.deliver()
    report = await world.run_once(world.instance())
    assert report.backlog == 8
    assert report.oldest == str(min(old)).partition("#")[0]
