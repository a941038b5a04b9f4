import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from compactor import aws_lambda
from compactor.aws_lambda import STOP_MARGIN_SECONDS, handler, metric_line, run_bounded
from compactor.job import Compactor
from compactor.report import CompactorReport
from ledger.administration.templates import compactor_template
from ledger.administration.templates.scheduled_job import PASS_SECONDS_MAX
from ledger.core.errors import SettingsError, Unreachable
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings

SETTINGS = Settings(home="us-east-1", regions={"us-east-1": {}})
REPORT = CompactorReport(folds=2, merged=40, deleted=30, collections=3, backlog=7, seconds=21.5)


@dataclass
class LambdaContext:
    """What Lambda hands in."""

    function_name: str = "compactor-function"
    milliseconds: int = PASS_SECONDS_MAX * 1000

    def get_remaining_time_in_millis(self) -> int:
        """Give the time that the test wants to be left."""
        return self.milliseconds


class _Job(Compactor):
    """A job whose pass ends at once, or fails, or goes on until it is told to stop."""

    answer: CompactorReport | Exception | None = REPORT

    async def run_once(
        self,
        *,
        stop: anyio.Event | None = None,
        wait_seconds: float | None = None,  # noqa: ARG002 (as the job has it)
        search: bool = False,  # noqa: ARG002 (the same)
    ) -> CompactorReport:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        assert stop is not None
        await stop.wait()
        return CompactorReport(is_whole=False)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[_Job]:
    """Give the handler a job under the test's control, and a regions.yaml of its own."""
    config = tmp_path / "regions.yaml"
    config.write_text("home: us-east-1\nregions:\n  us-east-1:\n", encoding="utf-8")
    monkeypatch.setenv("LEDGER_CONFIG", str(config))
    monkeypatch.setattr(aws_lambda, "Compactor", _Job)
    monkeypatch.setattr(_Job, "answer", REPORT)
    return _Job


def test_the_handler_gives_the_report_as_json(job: type[_Job]) -> None:
    """Lambda gets the report of the pass as something that it can turn into JSON."""
    assert job.answer is REPORT
    answer = json.loads(json.dumps(handler({"from": "scheduler"}, LambdaContext())))
    assert (answer["led"], answer["folds"], answer["merged"]) == (True, 2, 40)
    assert answer["seconds"] == 21.5


def test_a_failed_pass_is_an_error_of_the_function(
    job: type[_Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the pass raises is raised to Lambda as it is, so that the alarm counts it."""
    monkeypatch.setattr(job, "answer", Unreachable("us-east-1 does not answer"))
    with pytest.raises(Unreachable, match="us-east-1"):
        handler({}, LambdaContext())


@pytest.mark.usefixtures("job")
def test_wrong_settings_are_an_error_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not there is an error of the invocation, named."""
    monkeypatch.setenv("LEDGER_CONFIG", "no/such/regions.yaml")
    with pytest.raises(SettingsError, match="no/such/regions"):
        handler({}, LambdaContext())


def test_a_pass_is_stopped_before_lambda_ends_it(
    job: type[_Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no more than the margin left a pass is told to stop, and still reports."""
    monkeypatch.setattr(job, "answer", None)
    answer = handler({}, LambdaContext(milliseconds=int(STOP_MARGIN_SECONDS * 1000)))
    assert answer["is_whole"] is False


async def test_a_pass_that_ends_in_time_leaves_no_timer() -> None:
    """The timer that would stop a pass goes with the pass."""
    with anyio.fail_after(60):
        assert await run_bounded(_Job(SETTINGS), 3_600.0) is REPORT


def test_the_margin_lies_within_the_time_of_the_function() -> None:
    """The function's timeout leaves a pass most of its time, and a stop more than a hold."""
    resources = compactor_template(SETTINGS)["Resources"]
    timeout = resources["Function"]["Properties"]["Timeout"]
    assert SETTINGS.observation_delay + SETTINGS.write_deadline < STOP_MARGIN_SECONDS < timeout / 2


@pytest.mark.parametrize(
    ("report", "leading"),
    [
        (REPORT, 1),
        (CompactorReport(led=False, leader="another"), 0),
        (CompactorReport(unreadable="eu-west-1"), 0),
        (CompactorReport(problems=["damaged"]), 0),
    ],
)
def test_only_a_pass_that_led_and_ended_well_breaks_the_silence(
    report: CompactorReport, leading: int
) -> None:
    """The metric behind the alarm on silence counts neither waiting nor troubled passes."""
    line = metric_line(report, function_name="f", now=SystemClock().now())
    assert json.loads(line)["LeadingPasses"] == leading


@pytest.mark.parametrize("crossings", [0, 2])
def test_crossings_are_a_metric_where_there_are_some(crossings: int) -> None:
    """CloudWatch charges for each metric that is written, so a table without watches has none."""
    report = CompactorReport(crossings=crossings)
    line = metric_line(report, function_name="f", now=SystemClock().now())
    assert json.loads(line).get("Crossings", 0) == crossings
    assert ("Crossings" in line) == bool(crossings)


@pytest.mark.parametrize(
    ("name", "terms", "report"),
    [
        ("ArchiveAlarm", {"archive": ["s3://kept"]}, CompactorReport(archive_waits=3)),
        ("BooksNearlyFullAlarm", {"books": ["book/*"]}, CompactorReport(accounts_bytes=3)),
        ("FullBooksAlarm", {"books": ["book/*"]}, CompactorReport(books_full=["a", "b", "c"])),
        ("GrantsAlarm", {"budgets": {"key/*": {}}}, CompactorReport(grants_waiting=3)),
    ],
)
def test_what_waits_is_a_metric_with_an_alarm(
    name: str, terms: dict[str, Any], report: CompactorReport
) -> None:
    """The alarm is there where the contract has such counters, the metric where there are some."""
    now = SystemClock().now()
    said = metric_line(report, function_name="f", now=now)
    alarm = compactor_template(SETTINGS.replace(**terms))["Resources"][name]["Properties"]
    assert json.loads(said)[alarm["MetricName"]] == 3
    assert alarm["MetricName"] not in metric_line(REPORT, function_name="f", now=now)
    assert name not in compactor_template(SETTINGS)["Resources"]


def test_the_metric_is_the_one_that_the_alarm_watches(
    job: type[_Job], capsys: pytest.CaptureFixture[str]
) -> None:
    """The log line names the namespace, metric and dimension of the alarm on silence."""
    assert job.answer is REPORT
    handler({}, LambdaContext())
    line: dict[str, Any] = json.loads(capsys.readouterr().out)
    [described] = line["_aws"]["CloudWatchMetrics"]
    alarm = compactor_template(SETTINGS)["Resources"]["SilentAlarm"]["Properties"]
    assert described["Namespace"] == alarm["Namespace"]
    assert alarm["MetricName"] in {metric["Name"] for metric in described["Metrics"]}
    assert described["Dimensions"] == [[each["Name"] for each in alarm["Dimensions"]]]
    assert line["FunctionName"] == "compactor-function"
    assert all(metric["Name"] in line for metric in described["Metrics"])


def test_the_handler_is_the_one_that_the_image_names() -> None:
    """The image's command names a module and function that are there."""
    dockerfile = Path(__file__).parents[3] / "deploy" / "container" / "Dockerfile"
    assert 'CMD ["compactor.aws_lambda.handler"]' in dockerfile.read_text(encoding="utf-8")
    module, _, name = "compactor.aws_lambda.handler".rpartition(".")
    assert getattr(sys.modules[module], name) is handler
