"""`ledger watch` after a crossing that `ledger total` noticed."""

import json

import pytest
from support.commands import Desk


@pytest.mark.slow
def test_a_crossing_that_a_command_noticed_is_shown(desk: Desk) -> None:
    """`total` logs a crossing of the settings' watch once; `watch` lists it, and no other."""
    watches = {"low": {"counters": "shelf-*", "below": 10, "rearm": 20}}
    config = desk.write_settings(desk.settings(watches=watches), "watching.yaml")
    options = ("--config", str(config))
    assert desk.run("ledger", "record", "shelf-7", "9", *options).status == 0
    read = desk.run("ledger", "total", "shelf-7", *options)
    assert "watch 'low': 'shelf-7' is 9, below 10 (crossing 1)" in read.errors
    assert "crossing" not in desk.run("ledger", "total", "shelf-7", *options).errors
    shown = json.loads(desk.run("ledger", "watch", "--json", *options).out)
    assert shown.pop("at")
    assert shown == {
        "region": "us-east-1",
        "watch": "low",
        "counter": "shelf-7",
        "phase": "delivered",
        "crossings": 1,
        "value": "9",
    }
    assert "shelf-7" in desk.run("ledger", "watch", "low", *options).out
    assert desk.run("ledger", "watch", "other", "--json", *options).out == ""
