"""Every call of a budget has the contract renewed first, if that is due.

A view of the contract that is too old lets nothing be signed. A process may make one kind of call
for hours, so each kind renews it: `Hold.settle` once did not, and failed for good. Of light holds
the grants are tended, which renews it, too.
"""

from pathlib import Path

import pytest
from support.ledgers import HOME, make_settings, seeded
from support.pipelines import FIELDS
from support.public_calls import all_made_of, calls

from ledger import InvalidInput, Settings, Table
from ledger.core.errors import ContractStale
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.testing.clock import ManualClock

CALLS = {
    name: call
    for name, call in calls().items()
    if name.partition(".")[0] in {"Budget", "Budgets", "Hold"}
}
NOT_YET_READ = "the contract is to be read"


async def is_renewed_by(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """Return whether a call asks for the contract before anything else; None if it is refused."""
    settings = make_settings(
        index=("*",),
        periods={"*": {"zone": "UTC"}},
        budgets={"key/*": {"credits": True}},
        books=("book/*",),
        pipeline={"fields": FIELDS, "categories": ["desk/{Desk}"]},
    )
    table = Table(
        settings,
        region=HOME,
        given=GivenConnections(store=MemoryStore(HOME)),
        services=Services.of(clock=ManualClock(instant=True), randomness=seeded()),
    )

    is_due = False

    async def renew(_: Settings) -> None:
        if is_due:
            raise ContractStale(NOT_YET_READ)

    monkeypatch.setattr(Settings, "renew", renew)
    async with table, all_made_of(table, folder) as made:
        is_due = True
        try:
            found = await CALLS[name](made)
        except ContractStale as error:
            return str(error) == NOT_YET_READ
        except InvalidInput:
            return None
        finally:
            is_due = False
        errors = found if isinstance(found, list) else [found]
        return any(isinstance(error, ContractStale) for error in errors)


def test_the_calls_are_found() -> None:
    """By looking, so that a new one is among them."""
    assert {"Budget.spend", "Budgets.hold", "Hold.settle", "Hold.void", "Hold.extend"} <= {*CALLS}


@pytest.mark.parametrize("name", sorted(CALLS))
async def test_it_renews_the_contract(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is asked of the table."""
    assert await is_renewed_by(name, tmp_path, monkeypatch) is not False
