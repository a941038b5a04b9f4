"""Runbooks of regions: one is down, taken out, lost for good, or the home from now on."""

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from support.runbook_runs import AWAY, COUNTER, HOME, THIRD, RunbookRun, Scenario, with_changes


def a_region_is_down(run: RunbookRun) -> None:
    """One region answers nothing; the others are written on."""
    with_changes(run)
    run.desk.world.set_outage(AWAY, on=True)
    run.record(HOME, COUNTER, 7)


def it_answers_again(run: RunbookRun) -> None:
    """End the outage."""
    run.desk.world.set_outage(run.values["DOWN"], on=False)
    run.desk.wait_replicated()


def unprotect(run: RunbookRun, region: str) -> None:
    """Take a replica's protection from deletion off, if its region answers."""
    run.client(region).update_table(TableName=run.desk.world.table, DeletionProtectionEnabled=False)


def remove(run: RunbookRun, region: str, *, through: str) -> None:
    """Remove a replica."""
    run.client(through).update_table(
        TableName=run.desk.world.table, ReplicaUpdates=[{"Delete": {"RegionName": region}}]
    )


def without(run: RunbookRun, region: str, *, home: str | None = None) -> None:
    """Take a region out of regions.yaml, as the runbook asks for."""
    left = {name: at for name, at in run.settings.regions.items() if name != region}
    run.write_settings(run.settings.replace(regions=left, home=home or run.settings.home))


def put_first(run: RunbookRun, name: str = "regions.yaml") -> None:
    """Put the new home first in a settings file."""
    target = run.values["TARGET"]
    regions = {target: run.settings.regions[target], **run.settings.regions}
    run.write_settings(run.settings.replace(regions=regions, home=target), name)


def a_home_to_be_moved(run: RunbookRun) -> None:
    """A table that merges, settings that name its home, and a copy with the new one first."""
    with_changes(run)
    put_first(run, "moved.yaml")
    with (run.desk.folder / "regions.yaml").open("a", encoding="utf-8") as file:
        file.write(f"home: {run.values['HOME']}\n")


def an_interrupted_move(run: RunbookRun) -> None:
    """A move that was announced, and whose terminal was closed."""
    with_changes(run)
    going = run.start("compactor", "move-home", run.values["TARGET"])
    run.wait_until(lambda: "comes into force in" in going.file.read_text())
    going.process.kill()
    going.process.wait()
    run.going.remove(going)


def a_region_is_lost(run: RunbookRun) -> None:
    """Of its last changes one arrived in one region of two, one nowhere."""
    lost = run.values["LOST"]
    arrived, late = (name for name in run.settings.regions if name != lost)
    with_changes(run)
    run.desk.world.pause(lost, late)
    run.record(lost, COUNTER, 11)
    while not any(total.value == run.expected[COUNTER] for total in run.totals(arrived)):
        run.sleep(0.05)
    run.desk.world.pause(lost, arrived)
    run.record(lost, COUNTER, 13, counts=False)
    run.desk.world.lose(lost)


def not_unprotected(run: RunbookRun) -> None:
    """Ask a region that is lost to take the protection off: nothing answers there."""
    with pytest.raises(BotoCoreError):
        unprotect(run, run.values["LOST"])


def not_removed(run: RunbookRun) -> None:
    """Ask for the removal of its replica: refused, as is the take-over, which says what to do."""
    lost, target = run.values["LOST"], run.values["TARGET"]
    with pytest.raises(ClientError, match="protected against deletion"):
        remove(run, lost, through=target)
    refused = run.command(f"compactor take-home {target} --lost {lost} --confirm {lost}")
    assert refused.status == 1
    assert f"aws account disable-region --region-name {lost}" in refused.errors


def disabled(run: RunbookRun) -> None:
    """Disable the region: of the account's regions the table on this machine has only this."""
    lost, target = run.values["LOST"], run.values["TARGET"]
    at = run.desk.world.control_url
    done = run.command(f"ledger local lose {lost} --dropped-after 20h --control-url {at}")
    assert done.status == 0, done.errors
    refused = run.command(f"compactor take-home {target} --lost {lost} --confirm {lost}")
    assert "REGION_DISABLED): DynamoDB takes it out by itself" in refused.errors


def it_is_dropped(run: RunbookRun) -> None:
    """Let the 20 hours pass."""
    run.desk.world.lose(run.values["LOST"], dropped_after=0.0)


def several_passes(run: RunbookRun) -> None:
    """Let the compactor bring everywhere what had arrived in part; the rest is dropped."""
    run.desk.world.heal_all()
    for _ in range(4):
        run.settle()
        run.run_pass()


LOST_REPLICA = {
    "aws dynamodb update-table --region LOST --table-name ledger"
    " --no-deletion-protection-enabled": not_unprotected,
    "aws dynamodb update-table --region TARGET --table-name ledger"
    ' --replica-updates \'[{"Delete": {"RegionName": "LOST"}}]\'': not_removed,
    "aws account disable-region --region-name LOST": disabled,
}

SCENARIOS = (
    Scenario(
        runbook="region-down",
        values={"DOWN": AWAY, "UP": HOME, "COUNTER": COUNTER},
        prepare=a_region_is_down,
        events={"the region answers again": it_answers_again},
    ),
    Scenario(
        runbook="region-removed",
        values={"LEAVES": THIRD, "STAY": f"{HOME},{AWAY}", "STAYS": HOME},
        prepare=with_changes,
        foreign={
            "aws dynamodb update-table --region LEAVES --table-name ledger"
            " --no-deletion-protection-enabled": lambda run: unprotect(run, THIRD),
            "aws dynamodb update-table --region STAYS --table-name ledger"
            ' --replica-updates \'[{"Delete": {"RegionName": "LEAVES"}}]\'': lambda run: remove(
                run, THIRD, through=HOME
            ),
        },
        events={"the region is taken out of regions.yaml": lambda run: without(run, THIRD)},
    ),
    Scenario(
        runbook="home-moved",
        values={"HOME": HOME, "TARGET": AWAY},
        prepare=a_home_to_be_moved,
        events={
            "home is taken out of every settings file": lambda run: run.write_settings(
                run.settings
            ),
            "TARGET is put first in regions.yaml": put_first,
        },
        skipped=frozenset({"Take it back"}),
    ),
    Scenario(
        runbook="home-moved",
        name="interrupted and taken back",
        values={"HOME": HOME, "TARGET": AWAY},
        prepare=an_interrupted_move,
        skipped=frozenset({"Do", "Done when"}),
    ),
    Scenario(
        runbook="home-lost",
        name="the home",
        values={"LOST": HOME, "TARGET": AWAY},
        prepare=a_region_is_lost,
        foreign=LOST_REPLICA,
        events={
            "no region lists it any more": it_is_dropped,
            "the region is taken out of regions.yaml": lambda run: without(run, HOME, home=AWAY),
            "some passes have run": several_passes,
        },
    ),
    Scenario(
        runbook="home-lost",
        name="another region",
        values={"LOST": THIRD, "TARGET": HOME},
        prepare=a_region_is_lost,
        foreign=LOST_REPLICA,
        events={
            "no region lists it any more": it_is_dropped,
            "the region is taken out of regions.yaml": lambda run: without(run, THIRD),
            "some passes have run": several_passes,
        },
    ),
)
