from decimal import Decimal
from importlib.resources import files

from support.clock import START
from support.ledgers import HOME

from ledger.core.capacity import item_size
from ledger.core.entry import entry_id, entry_item
from ledger.core.values import Entry
from ledger.primitives.counters import METHODS
from ledger.settings import Settings

READ_UNIT_BYTES = 4096

PAGE = (files("ledger.primitives.counters") / "README.md").read_text(encoding="utf-8")


def test_every_method_is_on_the_page() -> None:
    """The table and the sections know every method of the registry."""
    for method in METHODS:
        assert f"`{method}`" in PAGE


def test_the_figures_about_random_sort_keys_follow_from_entries_and_settings() -> None:
    """Size of an entry, read units of a fold in order of time, and of all that is not settled."""
    settings = Settings(regions={HOME: {}})
    entry = Entry("customer1-balance", str(entry_id(START, 2**63)), Decimal(3), "eu-west-1")
    size = item_size(entry_item(entry))
    young = 1_000 * settings.settle
    in_order = settings.compactor.fold_max * size / READ_UNIT_BYTES
    in_none = young * size / READ_UNIT_BYTES
    assert f"{young / 1e6:.1f} million young entries of {size} bytes" in PAGE
    assert f"a fold of {settings.compactor.fold_max:,} takes: {in_order:.0f} read units" in PAGE
    assert f"{in_none:,.0f} units a region and visit" in PAGE
