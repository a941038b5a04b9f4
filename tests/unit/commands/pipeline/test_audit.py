"""What `ledger pipeline audit` says of what it found."""

from decimal import Decimal

import pytest
from typer.testing import CliRunner

from ledger.commands.main import app
from ledger.commands.pipeline.audit import audit_lines
from ledger.pipeline.auditing.audit import Difference, LaneReport, Report


def test_differences_and_lanes_that_hold_back_are_named() -> None:
    """A category that differs, by how much; a lane with what it holds back; lanes at rest not."""
    report = Report(3, records=12, categories=2)
    assert audit_lines(report) == ["audit 3: 12 records, 2 categories, all exact"]
    report.differences = [Difference("risk/Delta", Decimal("2.5"), Decimal(2))]
    report.lanes = {
        "a": LaneReport("us-east-1/a", "0007"),
        "b": LaneReport("us-east-1/b", is_open=True, records=2, first="0009"),
        "c": LaneReport(
            "us-east-1/c", "0008", is_closed=True, records=1, first="0010", held_seconds=7300.5
        ),
    }
    assert audit_lines(report) == [
        "risk/Delta: total 2, states say 2.5 (0.5 missing)",
        "lane us-east-1/b (open) at its beginning, holds back 2 records from 0009",
        (
            "lane us-east-1/c (closed) at 8, holds back 1 records from 0010,"
            " last written 2 h 1 min before"
        ),
        "audit 3: 12 records, 2 categories, 1 differ",
    ]


def test_a_lane_to_close_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals cannot be closed."""
    monkeypatch.setenv("LEDGER_REGIONS", '{"us-east-1": {}}')
    result = CliRunner().invoke(app, ["pipeline", "mend", "--close"])
    assert result.exit_code != 0
    assert "--close requires LANE" in f"{result.output}{result.exception}"
