"""Arguments of another kind than asked for: an error of the ledger's, by value and rule."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.ledgers import make_ledger, make_settings

from compactor import Compactor
from ledger import InvalidCounter, InvalidInput, Ledger, Settings, SettingsError, Table, sync

OPENED: list[Callable[..., object]] = [
    Ledger.open,
    Table.open,
    sync.Ledger.open,
    sync.Table.open,
    Compactor,
]
NO_SETTINGS = ["regions.yaml", Path("regions.yaml"), None, 5, {}, [None], Settings]


@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize("given", NO_SETTINGS, ids=repr)
def test_what_are_no_settings_is_refused(opened: Callable[..., object], given: object) -> None:
    """The path of a file is none: the message says what reads it."""
    with pytest.raises(SettingsError) as caught:
        opened(given)
    assert "must be a Settings, from Settings.load(path)" in str(caught.value)
    assert f"got {given!r}" in str(caught.value)


@pytest.mark.parametrize("opened", OPENED[:-1])
@pytest.mark.parametrize("region", ["us-west-9", 5, [], {}, "", True])
def test_what_is_no_region_is_refused(opened: Callable[..., object], region: object) -> None:
    """Whatever was given, the message names the regions that there are."""
    with pytest.raises(SettingsError, match="is not one of the regions in the settings: us-east-1"):
        opened(make_settings(), region=region)


@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize("registry", [5, "x", [], Settings], ids=repr)
def test_what_is_no_registry_is_refused(opened: Callable[..., object], registry: object) -> None:
    """Metrics go to a registry of prometheus_client, and nowhere else."""
    with pytest.raises(InvalidInput, match="registry must be a CollectorRegistry, got"):
        opened(make_settings(), registry=registry)


@pytest.mark.parametrize("path", [5, True, b"regions.yaml", [], {}], ids=repr)
def test_what_is_no_path_is_refused(path: Any) -> None:
    """Settings are loaded from a path."""
    with pytest.raises(SettingsError, match="path must be a str or a Path, got"):
        Settings.load(path)


@pytest.mark.parametrize("many", ["record_many", "record_together", "retry", "totals"])
@pytest.mark.parametrize("given", [None, 5, 1.5, [None]], ids=repr)
async def test_what_is_no_list_is_refused(many: str, given: object) -> None:
    """A call for many says what it takes a list of, before it sends anything."""
    async with make_ledger() as book:
        with pytest.raises(InvalidInput, match="must be"):
            await getattr(book, many)(given)


@pytest.mark.parametrize("combine", [[], ["*"]], ids=repr)
@pytest.mark.parametrize("many", ["record_many", "record_together"])
@pytest.mark.parametrize("counter", [None, 5, b"c", [], {}], ids=repr)
async def test_what_is_no_counter_is_refused(counter: Any, many: str, combine: list[str]) -> None:
    """Also what no set can hold, and whatever the contract combines."""
    async with make_ledger(combine=combine) as book:
        with pytest.raises(InvalidCounter):
            await getattr(book, many)([("c", 1), (counter, 1)])
