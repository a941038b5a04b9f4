"""`ledger lease` as a user runs it, on a local global table."""

import json
import sys

import pytest
from support.commands import Desk

pytestmark = pytest.mark.slow

SHOWN = 'echo "$LEDGER_LEASE_NAME $LEDGER_LEASE_EPOCH"; exit 3'


def test_a_command_runs_under_a_lease(desk: Desk) -> None:
    """Its output and status are the command's; afterwards the lease is listed as released."""
    ran = desk.run_process("ledger", "lease", "run", "nightly", "--", "sh", "-c", SHOWN)
    assert (ran.status, ran.errors) == (3, "")
    name, epoch = ran.out.split()
    assert name == "nightly"
    listed = desk.run("ledger", "lease", "list", "--json")
    (found,) = [one for one in map(json.loads, listed.out.splitlines()) if one["lease"] == name]
    assert (found["owner"], found["epoch"], found["region"]) == (None, int(epoch), "us-east-1")
    assert "nightly" in desk.run("ledger", "lease", "list").out
    shown = desk.run("ledger", "lease", "show", "nightly", "--watch")
    assert shown.status == 0
    assert f"epoch: {epoch}\n" in shown.out
    assert shown.out.endswith("alive: no heartbeat in a whole lease\n")


def test_a_command_is_not_run_while_another_is(desk: Desk) -> None:
    """A command within a command of the same lease: 75, and why, on standard error."""
    inner = [
        sys.executable,
        "-m",
        "ledger",
        "lease",
        "run",
        "twice",
        "--wait",
        "0",
        "--",
        "echo",
        "x",
    ]
    ran = desk.run_process("ledger", "lease", "run", "twice", "--", *inner)
    assert (ran.status, ran.out) == (75, "")
    assert "lease 'twice' is held by" in ran.errors


def test_a_command_under_a_lease_uses_the_ledger(desk: Desk) -> None:
    """The variables of the lease are no settings, and none of the child's is refused for them."""
    inner = [sys.executable, "-m", "ledger", "record", "leased", "1"]
    ran = desk.run_process("ledger", "lease", "run", "records", "--", *inner)
    assert (ran.status, ran.errors) == (0, "")
    assert ran.out.startswith("leased: 1 recorded")


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (("run", "x", "--grace", "20", "--", "true"), 2, "--grace must be under half of --lease"),
        (("run", "x", "--lease", "-1", "--", "true"), 2, "--lease must be over 0"),
        (("run", "x", "--lease", "nan", "--", "true"), 2, "--lease must be over 0"),
        (("run", "", "--", "true"), 2, "name of a lease must have 1 to 1,024 bytes, got ''"),
        (("run", "~x", "--", "true"), 2, "must not begin with '~'"),
        (("show", "never-held"), 1, "it was never held, or is deleted"),
    ],
)
def test_what_is_wrong_is_one_line(
    desk: Desk, arguments: tuple[str, ...], status: int, reason: str
) -> None:
    """An error names the value and the rule, and the status says whose it is."""
    ran = desk.run("ledger", "lease", *arguments)
    assert ran.status == status, ran
    assert reason in ran.errors
    assert ran.errors.count("\n") == 1
