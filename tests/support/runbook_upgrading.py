"""Runbooks of releases and of the contract's growth: formats that one knows, shards."""

from datetime import UTC, datetime, timedelta
from unittest.mock import patch

from support.commands import Ran
from support.runbook_calls import make_places, with_archive
from support.runbook_runs import COUNTER, RunbookRun, Scenario, with_changes

from ledger.core import contract_item

GOING_BACK = "the earlier release is installed, if it knows the format"
AHEAD = timedelta(hours=1)


def by_an_earlier_release(run: RunbookRun) -> None:
    """A table with an archive, so of format 3, and processes that know up to 2."""
    make_places(run)
    with_changes(run)
    earlier = patch.object(contract_item, "FORMAT", 2)
    earlier.start()
    run.undone.append(earlier.stop)


def earlier_again(run: RunbookRun) -> None:
    """Go back to a release that knows the first format only; what follows is run by it."""
    earlier = patch.object(contract_item, "FORMAT", 1)
    earlier.start()
    run.undone.append(earlier.stop)


def stays(run: RunbookRun) -> None:
    """An earlier release would refuse the table, as it does at the beginning: so no way back."""
    assert "of format 3" in by_earlier(run).errors


def by_earlier(run: RunbookRun) -> Ran:
    """Run a command by a release that knows the first two formats."""
    with patch.object(contract_item, "FORMAT", 2):
        return run.command("ledger record COUNTER 1")


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
        name="a table of a later format",
        values={"COUNTER": COUNTER, "FORMAT": "3"},
        prepare=by_an_earlier_release,
        events={"this release is installed": installed, GOING_BACK: stays},
        given=with_archive,
    ),
    Scenario(
        runbook="upgrade",
        name="a table of the first format, and back",
        values={"COUNTER": COUNTER, "FORMAT": "1"},
        prepare=with_changes,
        events={"this release is installed": installed, GOING_BACK: earlier_again},
        skipped=frozenset({"You see"}),
    ),
    Scenario(
        runbook="shards-grown",
        values={"COUNTER": COUNTER, "PATTERN": COUNTER, "COUNT": "8"},
        prepare=shards_to_grow,
        check=check_grown,
    ),
)
