"""Runbooks of releases and of the contract's growth: formats that one knows, shards."""

from datetime import UTC, datetime, timedelta
from unittest.mock import patch

from support.runbook_runs import COUNTER, RunbookRun, Scenario, with_changes

from ledger.core import contract_item
from ledger.core.contract_item import FORMAT

GOING_BACK = "the old release is installed, if it knows the format"
AHEAD = timedelta(hours=1)


def by_an_old_release(run: RunbookRun) -> None:
    """Processes of a release that does not know the table's format, which books have raised."""
    with_changes(run)
    assert run.command("ledger table set books 'book/*'").status == 0
    earlier = patch.object(contract_item, "FORMAT", FORMAT - 1)
    earlier.start()
    run.undone.append(earlier.stop)


def stays(run: RunbookRun) -> None:
    """The old release would refuse the table, as it does at the beginning: so no way back."""
    with patch.object(contract_item, "FORMAT", FORMAT - 1):
        assert f"of format {FORMAT}" in run.command("ledger record COUNTER 1").errors


def installed(run: RunbookRun) -> None:
    """Install this release, if the processes are of an earlier one."""
    while run.undone:
        run.undone.pop()()


def shards_to_grow(run: RunbookRun) -> None:
    """A counter of one shard in the midst of merging."""
    with_changes(run)
    run.values["SINCE"] = (datetime.now(UTC) + AHEAD).isoformat(timespec="seconds")


def check_grown(run: RunbookRun) -> None:
    """A change after the date goes into one of the shards; totals are exact, and merged."""
    run.check_totals()
    shown = run.command("ledger table show --json")
    assert f'"count":8,"since":"{run.values["SINCE"]}"' in shown.out.replace(" ", "")


SCENARIOS = (
    Scenario(
        runbook="upgrade",
        values={"COUNTER": COUNTER, "FORMAT": str(FORMAT)},
        prepare=by_an_old_release,
        events={"this release is installed": installed, GOING_BACK: stays},
    ),
    Scenario(
        runbook="shards-grown",
        values={"COUNTER": COUNTER, "PATTERN": COUNTER, "COUNT": "8"},
        prepare=shards_to_grow,
        check=check_grown,
    ),
)
