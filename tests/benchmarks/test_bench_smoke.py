"""`lab bench` in small: every part runs, and units and requests are those of the design."""

import csv
import json
import signal
import sys
from pathlib import Path

import anyio
import pytest
from lab.__main__ import app
from lab.bench import archive, budgets, cases, hot_counter, life, scale
from lab.bench.report import NOTE, VERSION, BenchReport
from lab.bench.rounds import Round, Task
from lab.bench.scale_stages import STAGES
from pydantic import TypeAdapter
from support.killing import all_ended, running
from typer.testing import CliRunner

SECONDS = "1"
STARTED_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05


def read(path: Path) -> BenchReport:
    """Read a report from its JSON file."""
    return TypeAdapter(BenchReport).validate_json(path.read_bytes())


def bench(*options: str) -> str:
    """Run the command as a user would; returns what it printed."""
    result = CliRunner().invoke(
        app,
        ["bench", "--seconds", SECONDS, "--rounds", "1", "--no-pin", *options],
        catch_exceptions=False,
        env={"COLUMNS": "160"},
    )
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.slow
def test_the_report(tmp_path: Path) -> None:
    """The chosen cases are there with baseline, ratio and units, as table, JSON and CSV."""
    path, rows = tmp_path / "figures.json", tmp_path / "figures.csv"
    words = ("--cases", "group commit, lean", "--cases", "total, lean")
    shown = bench(*words, "--json", str(path), "--csv", str(rows))
    found = read(path)
    results = {result.name: result for result in found.results}
    ours = results["group commit, lean"]
    assert ours.baseline == cases.PUT
    assert 1 <= ours.figures["units_per_work"] < 1.1  # a few hints to the compactor
    for one in results.values():
        assert one.figures["work_per_second"] > 0
        assert len(one.rounds) == 1
        assert ("times_baseline" in one.figures) == (one.baseline is not None)
    assert results["total, lean"].figures["requests_per_second"] > 0
    assert NOTE in " ".join(shown.split())
    assert [row["case"] for row in csv.DictReader(rows.read_text().splitlines())] == [*results]
    assert json.loads(path.read_text())["version"] == VERSION


@pytest.mark.slow
async def test_a_change_s_life() -> None:
    """A change costs little over 2 units in a region, merged as usual over 3; a total one read.

    In small folds it costs more.
    """
    sizes = {"counters": 4, "entries": 250, "rounds": 1, "regions": 2, "settle": 8.0}
    small = {**sizes, "entries": 20, "settings": {"compactor": {"fold_max": 20, "fold_min": 1}}}
    ours, folds, usual = [
        await run(Round(Task("", 0.0, options)))
        for run, options in ((life.ledger, sizes), (life.ledger, small), (life.usual, sizes))
    ]
    units = [measured.units / measured.work for measured in (ours, folds, usual)]
    assert 2.0 < units[0] < units[1] < 3.0 < units[2]
    assert units[0] < 2.2
    assert ours.extra["requests of a merged total"] == 1
    assert ours.extra["read units of a merged total"] <= 3


@pytest.mark.slow
async def test_limits_are_measured() -> None:
    """A spend writes its entry and a part of a grant's item; one item takes a unit each time."""
    options = {"callers": 50, "away_seconds": 0.0, "settings": {"compactor": {"hint_every": 0}}}
    plain, spent, item = [
        await run(Round(Task("", 0.5, options)))
        for run in (budgets.record, budgets.spend, budgets.item)
    ]
    assert plain.units == plain.work
    assert item.units == item.work
    assert spent.work <= spent.units < spent.work * 1.2


@pytest.mark.slow
async def test_one_counter_on_a_local_table() -> None:
    """Two processes write in items that they share, and every region has all of it, merged."""
    (case,) = cases.chosen(["one counter, 50,000/s, local table, 100 a call"])
    found = await hot_counter.on_table(Round(Task("", 0.5, {**case.options, "rate": 4_000})))
    assert 0 < found.work == 100 * found.calls <= 2_000
    assert found.extra["changes of a unit"] > 99
    assert found.units <= found.calls + 10  # a few hints to the compactor


@pytest.mark.slow
async def test_an_archived_change_s_life() -> None:
    """An archive costs a change a hundredth of a write unit, and its folds two requests a place."""
    sizes = {"counters": 2, "entries": 250, "rounds": 1, "regions": 2, "settle": 8.0}
    plain, kept = [
        await life.ledger(Round(Task("", 0.0, {**sizes, "archive": has_archive})))
        for has_archive in (False, True)
    ]
    assert kept.units / kept.work - plain.units / plain.work < 0.02
    assert "archive: PUTs" not in plain.extra
    assert 1 <= kept.extra["archive: PUTs"] == kept.extra["archive: GETs"] <= 2
    assert 5 < kept.extra["archive: bytes of a change"] < 40


@pytest.mark.slow
async def test_an_archive_alone() -> None:
    """All entries are read back in order and verified; a larger archive takes no more memory."""
    sizes = {"counters": 1, "size": 100, "has_notes": True}
    small, large = [
        await archive.stages(Round(Task("", 0.0, {**sizes, "entries": entries})))
        for entries in (2_000, 60_000)
    ]
    assert (small.work, large.work, large.extra["objects"]) == (2_000, 60_000, 600)
    assert large.extra["history: requests"] == 600
    assert 30 < large.extra["bytes of an entry"] < 60
    for stage in archive.STAGES:
        assert large.extra[f"{stage}: peak MB"] - small.extra[f"{stage}: peak MB"] < 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "boto3 batch_write_item",
        "record_many, 25 a call",
        "merged totals, 50",
        "1,000 merged",
        "cached totals",
        pytest.param("SDK for JavaScript", marks=pytest.mark.tools("sdk_v3")),
    ],
)
def test_beside_others(case: str, tmp_path: Path) -> None:
    """Other clients, and totals of many counters: what arrived or was read is right."""
    path = tmp_path / "figures.json"
    bench("--cases", case, "--json", str(path))
    results = [result for result in read(path).results if result.baseline is not None]
    assert [result.failed or result.skipped for result in results] == [None]
    assert results[0].figures["times_baseline_cpu"] > 0


@pytest.mark.long
@pytest.mark.engines("dynoxide")
async def test_a_rung_of_the_ladder() -> None:
    """Counters by Zipf's law: each stage does its whole work, and merging costs what it should."""
    (rung,) = cases.chosen(["1,000 counters"])
    sizes = {"counters": 60, "hottest": 600, "settle": 2.0, "settings": cases.LEAN}
    found = await scale.ladder(Round(Task("", 0.0, {**rung.options, **sizes})))
    written = sum(max(1, 600 // rank) for rank in range(1, 61))
    folded = sum(600 // rank for rank in range(1, 31))  # 20 entries and more
    stages = {name: found.extra[f"{name}: work"] for name in STAGES}
    assert found.work == stages["write"] == stages["search"] == written
    assert stages["merge"] == folded
    assert stages["read before"] == stages["read after"] == len(scale.ranks_read(60))
    assert 1.0 <= found.extra["write: write units"] / written < 1.2
    assert 1.0 < found.extra["merge: write units"] / folded < 1.5
    assert found.extra["read after: read units"] < found.extra["read before: read units"]


def has(folder: Path, pattern: str) -> bool:
    """Return whether a folder has something of a pattern."""
    return any(folder.glob(pattern))


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [signal.SIGINT, signal.SIGKILL])
async def test_an_interrupted_round_removes_what_it_made(
    stopped: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table and compactors end, and their folders are gone, however the command ends."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = [sys.executable, "-m", "lab", "bench", "--cases", cases.ONE_COMPACTOR]
    async with running(words, tmp_path) as command:
        with anyio.fail_after(STARTED_SECONDS_MAX):
            while not has(tmp_path, "ledger-lab-*/compactor-0/compactor.log"):
                assert command.process.poll() is None, command.said()
                await anyio.sleep(POLL_SECONDS)
        command.process.send_signal(stopped)
        await command.ends()
        with anyio.fail_after(STARTED_SECONDS_MAX):
            while has(tmp_path, "ledger-lab-*"):  # noqa: ASYNC110 (the kernel sends no event)
                await anyio.sleep(POLL_SECONDS)
    await all_ended(tmp_path)


def test_what_fits_nothing_is_refused() -> None:
    """A word that names no case is an error that names the groups."""
    result = CliRunner().invoke(app, ["bench", "--cases", "speed of light"])
    assert result.exit_code == 1
    assert "groups are" in str(result.exception)


@pytest.mark.tools("matplotlib")
def test_the_picture(tmp_path: Path) -> None:
    """A picture of the bars is drawn."""
    path = tmp_path / "figures.svg"
    bench("--cases", "record, one caller", "--picture", str(path))
    assert "record, one caller" in path.read_text()


@pytest.mark.slow
def test_an_overload(tmp_path: Path) -> None:
    """With more callers than can be served the memory is compared, early with late."""
    path = tmp_path / "figures.json"
    bench("--cases", "overload", "--json", str(path))
    results = {result.name: result for result in read(path).results}
    further = results["20,000 callers, lean"].further
    assert 0 < further["MB, first fifth"] <= 1.1 * further["MB, last fifth"]
