from dataclasses import replace
from math import ceil

import pytest
from lab.__main__ import app
from lab.pipeline_demo.model import (
    BUSY_SHARE,
    MEASURED,
    MEASURED_RUNS,
    Load,
    MeasuredRun,
    Prices,
    needs_of,
)
from lab.pipeline_demo.model_report import model_report
from rich.console import Console
from typer.testing import CliRunner

from ledger.demo.harness.report import render

LOAD = Load(
    message_seconds=0.001, change_seconds=0.0, message_units=1.5, change_units=0, read_units=0.5
)
SECONDS_OFF_MAX, UNITS_OFF_MAX = 0.2, 0.1
"""Of what was measured on a shared machine from the model, as a share."""


@pytest.mark.parametrize("run", MEASURED_RUNS)
def test_the_model_holds_for_measured_lanes(run: MeasuredRun) -> None:
    """What a message and a change take does not depend on the number of lanes or processes."""
    seconds = MEASURED.core_seconds(run.messages, run.changes, processes=run.processes)
    assert run.seconds == pytest.approx(seconds, rel=SECONDS_OFF_MAX)
    assert run.units == pytest.approx(MEASURED.units(run.messages, run.changes), rel=UNITS_OFF_MAX)


def test_a_rate_takes_processes_by_their_share_of_a_core_and_shards_by_their_limits() -> None:
    """50,000 a second: by processes, by records, by bytes, whichever is most."""
    needs = needs_of(50_000, LOAD)
    assert needs.processes == 72  # 50,000 * 0.001 / 0.7, rounded up
    assert needs.shards == 72
    assert needs.lanes_in_process == 1
    fast = needs_of(50_000, replace(LOAD, message_seconds=0.0001))
    assert (fast.processes, fast.shards, fast.lanes_in_process) == (8, 50, 7)
    large = needs_of(50_000, replace(LOAD, message_seconds=0.0001, message_bytes=2_000))
    assert large.shards == 100
    assert BUSY_SHARE == 0.7


def test_changes_go_by_the_reduces_of_all_lanes_and_end_at_one_for_each_message() -> None:
    """Each lane reduces by itself; a message changes no more totals than it belongs to."""
    load = replace(LOAD, categories=10, reduces_second=2, levels=3, change_seconds=0.01)
    assert load.changes(1_000, 4) == 80
    assert load.changes(20, 4) == 60
    assert needs_of(1_000, load).processes == ceil((1 + 2 * 20 * 0.01) / 0.7)


def test_dollars_are_units_shards_and_cores_by_their_prices() -> None:
    """Each part is computed apart from the model's code; every region writes."""
    prices = Prices(
        write_million=1, read_million=2, shard_hour=3, put_million=4, core_hour=5, gigabyte_hour=6
    )
    needs = needs_of(1_000, LOAD, regions=2, prices=prices)
    assert (needs.write_units, needs.read_units) == (3_000, 500)
    assert needs.table_dollars == pytest.approx(3.6 * 3 * 1 + 3.6 * 0.5 * 2)
    assert needs.stream_dollars == pytest.approx(2 * 3 + 3.6 * 4)
    assert needs.process_dollars == pytest.approx(2 * (5 + 0.5 * 6))
    assert needs.dollars_hour == pytest.approx(14.4 + 20.4 + 16)
    assert needs.dollars_million == pytest.approx(50.8 / 3.6)


def test_the_needs_stand_beside_the_published_pipeline() -> None:
    """Counts, and dollars by what they are for, of an hour and of a million messages."""
    console = Console(record=True, width=120)
    report = model_report(50_000, LOAD, regions=1, messages=1_000)
    console.print(*map(render, report.sections()))
    text = console.export_text()
    for part in ("72, up to 1 lane", "500 state functions", "75,000", "together", "calculated"):
        assert part in text
    assert report.as_json()["dollars_hour"] == report.needs.dollars_hour


def test_the_command_computes_and_runs_nothing() -> None:
    """`--model 50000` needs no table."""
    ran = CliRunner().invoke(app, ["pipeline-demo", "--model", "50000"])
    assert ran.exit_code == 0, ran.output
    assert "50,000 messages a second" in ran.output


def test_an_endless_rate_is_refused() -> None:
    """In one line, as every number that is none."""
    ran = CliRunner().invoke(app, ["pipeline-demo", "--model", "inf"])
    assert str(ran.exception) == "--model inf: messages a second are a number"
