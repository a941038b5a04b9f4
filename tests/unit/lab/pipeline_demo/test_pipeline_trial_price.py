"""The price of a trial: each line computed apart, by what the shipped templates make."""

import pytest
from lab.pipeline_demo import trial_price
from lab.pipeline_demo.model import Load, Prices
from lab.pipeline_demo.model_report import model_report
from lab.pipeline_demo.trial_price import Line, TrialPrices, hours_of, trial_of
from rich.console import Console

from ledger.administration.templates import compactor_template, pipeline_template
from ledger.administration.templates.pipeline_function import MEMORY_MEGABYTES
from ledger.demo.harness.report import render
from ledger.settings import Settings

LOAD = Load(
    message_seconds=0.001, change_seconds=0.0, message_units=1.5, change_units=2, read_units=0.5
)
SETTINGS = Settings(home="us-east-1", regions={"us-east-1": {}})


def test_each_line_is_units_times_price() -> None:
    """A second a hundred messages, for a hundred seconds, in two regions: all of it by hand."""
    prices = Prices(write_million=1e6, read_million=2e6)
    more = TrialPrices(3, 4, 5, 6e6, 7, 8)
    lines = trial_of(10_000, 100, LOAD, regions=2, prices=prices, more=more)
    found: dict[str, object] = {line.name: (round(line.units, 6), line.dollars) for line in lines}
    writes = 2 * (10_000 * 1.5 + 300 * 100 * 2 + 400)  # three changes a message; a mark an event
    assert found["table: write units"] == (writes, writes)
    assert found["table: read units"] == (5_000 + 800, 2 * 5_800)
    assert found["stream: hours"] == (1, 3)
    assert found["stream: gigabytes in"] == (0.01024, pytest.approx(0.01024 * 4))
    assert found["stream: gigabytes out"] == (0.01024, pytest.approx(0.01024 * 5))
    assert found["functions: invocations"] == (460, pytest.approx(460 * 6))
    assert found["functions: gigabyte-seconds"] == (200 + 150, pytest.approx(350 * 7))
    assert found["alarms: months"] == (round(12 / 730, 6), pytest.approx(8 * 12 / 730))


def test_events_are_as_large_as_they_may_be_and_hours_are_whole() -> None:
    """At a high rate an event is full; a slow one has as many events as messages."""
    events = {
        rate: trial_of(100_000, rate, LOAD)[5].units - 60 * hours_of(100_000, rate)
        for rate in (100_000, 1)
    }
    assert events == {100_000: 200, 1: 100_000}
    assert [hours_of(n, 1) for n in (1, 3_600, 3_601)] == [1, 1, 2]


def test_it_is_that_of_the_shipped_templates() -> None:
    """Their alarms, the size of their events and of their function."""
    pipeline, compactor = pipeline_template(SETTINGS), compactor_template(SETTINGS)
    alarms = [
        one
        for template in (pipeline, compactor)
        for one in template["Resources"].values()
        if one["Type"] == "AWS::CloudWatch::Alarm"
    ]
    assert len(alarms) == trial_price.ALARMS
    defaults = {name: one.get("Default") for name, one in pipeline["Parameters"].items()}
    assert defaults["BatchRecords"] == trial_price.EVENT_RECORDS
    assert defaults["BatchSeconds"] == trial_price.EVENT_SECONDS
    assert defaults["MemoryMegabytes"] == MEMORY_MEGABYTES
    assert MEMORY_MEGABYTES / 1024 == trial_price.FUNCTION_GIGABYTES
    memory = compactor["Parameters"]["MemoryMegabytes"]["Default"]
    assert memory / 1024 == trial_price.PASS_GIGABYTES


def test_a_trial_of_the_demos_size_is_under_a_dollar(capsys: pytest.CaptureFixture[str]) -> None:
    """As the published pipeline's is said to be; the report shows each line, and their sum."""
    report = model_report(500, LOAD, regions=1, messages=20_000)
    together = sum(line.dollars for line in report.trial)
    assert 0 < together < 1
    for section in report.sections():
        Console(width=100).print(render(section))
    shown = capsys.readouterr().out
    assert all(line.name in shown for line in report.trial)
    assert f"{together:.4f}" in shown
    assert report.as_json()["trial_dollars"]["stream: hours"] == TrialPrices().stream_hour
    assert Line("x", 2, 3).dollars == 6
