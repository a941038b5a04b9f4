"""`ledger counters`, `top` and `describe`, as a user calls them."""

import json
import time
from typing import Any

import pytest
from support.commands import Desk, Ran

pytestmark = pytest.mark.slow

LONG = "usage/" + "x" * 120


def objects(ran: Ran) -> list[dict[str, Any]]:
    """Return the JSON lines of a command that succeeded."""
    assert ran.status == 0, ran.errors
    return [json.loads(line) for line in ran.out.splitlines()]


def test_counters_are_listed_and_described(desk: Desk) -> None:
    """After a merge by prefix, page by page, whole names and digits; the top; descriptions."""
    quick = desk.settings(
        settle=2.0,
        observation_delay=0.05,
        retry_horizon=1.0,
        compactor={"fold_min": 1, "lease": 10, "heartbeat": 0.5, "scan_every": 0},
        index=("usage/*",),
    )
    desk.write_settings(quick, "quick.yaml")
    amounts = {LONG: "12345678901234567890.123456789", "usage/b": "-5", "usage/[c]": "7"}
    for counter, amount in amounts.items():
        assert desk.run("ledger", "record", counter, amount).status == 0
    desk.wait_replicated()
    for _ in range(6):
        time.sleep(quick.settle / 2)
        ran = desk.run("compactor", "run", "--once", "--config", "quick.yaml")
        assert ran.status == 0, ran.errors
        found = objects(desk.run("ledger", "counters", "usage/", "--json"))
        if [one["count"] for one in found] == [1, 1, 1]:
            break
    assert {one["counter"]: one["value"] for one in found} == amounts
    assert [one["counter"] for one in found] == ["usage/[c]", "usage/b", LONG]
    assert not any(one["exact"] or "description" in one for one in found)

    page = desk.run("ledger", "counters", "usage/", "--limit", "1")
    assert "continue with --after 'usage/[c]'" in page.out
    rest = desk.run("ledger", "counters", "usage/", "--after", "usage/b")
    shown = "".join(line.replace(" ", "") for line in rest.out.splitlines())
    assert shown.count("x") == 120
    assert "usage/[c]" not in rest.out

    top = objects(desk.run("ledger", "top", "usage/", "-n", "2", "--exact", "--json"))
    assert [one["counter"] for one in top] == [LONG, "usage/[c]"]
    assert all(one["exact"] for one in top)
    least = desk.run("ledger", "top", "usage/", "--smallest", "-n", "1")
    assert "usage/b" in least.out
    assert "merged changes only" in least.out
    assert "merged changes only" not in desk.run("ledger", "top", "usage/", "--exact").out

    described = desk.run("ledger", "describe", "usage/b", "owner=team-7", "limit=5=6")
    assert described.out.splitlines() == ["limit=5=6", "owner=team-7"]
    removed = objects(desk.run("ledger", "describe", "usage/b", "--remove", "limit", "--json"))
    assert removed == [
        {"counter": "usage/b", "region": "us-east-1", "description": {"owner": "team-7"}}
    ]
    listed = objects(desk.run("ledger", "counters", "usage/b", "--described", "--json"))
    assert [one["description"] for one in listed] == [{"owner": "team-7"}]
    assert "owner=team-7" in desk.run("ledger", "counters", "usage/", "--described").out

    unlisted = "'other' are not indexed: the contract's index has 'usage/*'"
    for words, rule, status in (
        (("counters", "other"), unlisted, 1),
        (("top", "other"), unlisted, 1),
        (("describe", "usage/b", "owner"), "must be NAME=VALUE", 2),
        (("describe", "usage/b", "a=1", "--remove", "a"), "'a' is both set and removed", 2),
        (("archive", "sweep"), "has no archive", 1),
    ):
        refused = desk.run("ledger", *words)
        assert (refused.status, rule in " ".join(refused.errors.split())) == (status, True), refused
    desk.settings()
