"""Watches of the settings: bounds are exact, and a watch that makes no sense is refused."""

from decimal import Decimal
from typing import Any

import pytest
import yaml
from support.setting_files import SMALL, settings, written

from ledger.core.errors import SettingsError
from ledger.core.watches import Watch
from ledger.settings import Settings
from ledger.settings.groups import WATCHES_MAX


def watch(**values: Any) -> Settings:
    """Return settings with one watch."""
    return settings(watches={"low": {"counters": "stock-*", **values}})


@pytest.mark.parametrize("bound", [10, "10", "1e1", Decimal(10)])
def test_a_bound_is_an_amount(bound: object) -> None:
    """Whole, text or Decimal: the watch in code is the same."""
    made = watch(below=bound, rearm="20.50").watches["low"].named("low")
    assert made == Watch.of("low", "stock-*", below=10, rearm=Decimal("20.5"))


def test_a_watch_is_read_from_a_file_and_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable changes the bound alone; what is written out can be read again."""
    written(SMALL + 'watches: {low: {counters: "stock-*", below: 10}}\n')
    monkeypatch.setenv("LEDGER_WATCHES__LOW__BELOW", "7.5")
    read = Settings.load()
    assert read.watches["low"].below == Decimal("7.5")
    text = yaml.safe_dump(read.model_dump(mode="json", include={"watches", "regions"}))
    assert Settings(**yaml.safe_load(text)).watches == read.watches


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "watches.low is .*: a watch has one bound, either below or above"),
        ({"below": 1, "above": 2}, "watches.low is .*: a watch has one bound"),
        ({"below": 10, "rearm": 9}, r"watches.low is .*: rearm \(9\) must not be below the bound"),
        ({"above": 0.5}, r"watches.low.above is 0.5: .*such as \"9.99\", got the float 0.5"),
        ({"above": True}, "watches.low.above is True: amount must be an int"),
        ({"below": "few"}, "watches.low.below is 'few': amount must be a decimal number"),
        ({"below": 1, "until": 2}, "watches.low.until"),
        ({"below": 1, "counters": ""}, "watches.low.counters"),
    ],
)
def test_a_wrong_watch_is_refused(values: dict[str, Any], named: str) -> None:
    """The message names the watch, the value and the rule."""
    with pytest.raises(SettingsError, match=named):
        watch(**values)


def test_there_are_not_too_many_watches() -> None:
    """Every total that is read is compared with those that match."""
    many = {f"w{number}": {"counters": "c", "below": 1} for number in range(WATCHES_MAX + 1)}
    with pytest.raises(SettingsError, match="watches"):
        settings(watches=many)
