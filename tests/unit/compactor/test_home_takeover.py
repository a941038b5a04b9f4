"""What must be so before a lost region is given up."""

import pytest
from support.ledgers import AWAY, HOME, LOCAL, SOUTH

from compactor.home_takeover import at_stake, check_removed, without_lost
from ledger.core.errors import ContractChangeRefused, InvalidInput
from ledger.settings import Settings
from ledger.store.memory import MemoryStore

SETTINGS = Settings(regions=dict.fromkeys((HOME, AWAY, SOUTH), LOCAL))


@pytest.mark.parametrize(
    ("state", "does"),
    [
        ("ACTIVE", "--region {region} .* disable-region --region-name {lost}"),
        ("DELETING", "--region {region} .* disable-region --region-name {lost}"),
        ("REGION_DISABLED", "DynamoDB takes it out by itself 20 hours after"),
        ("INACCESSIBLE_ENCRYPTION_CREDENTIALS", "DynamoDB takes it out by itself 20 hours after"),
    ],
)
@pytest.mark.parametrize("asked", [0, 1])
async def test_no_remaining_region_may_list_a_lost_one(asked: int, state: str, does: str) -> None:
    """In whatever state: what it still writes would meet another compactor's work.

    The refusal says how the replica gets out of the table, also where its region does not answer.
    """
    stores = [MemoryStore(AWAY), MemoryStore(SOUTH)]
    stores[0].described, stores[1].described = {SOUTH: "ACTIVE"}, {AWAY: "ACTIVE"}
    lost = ["eu-north-1", HOME]
    await check_removed(stores, "ledger", lost)
    shows = stores[asked]
    shows.described = {**(shows.described or {}), HOME: state}
    how = does.format(region=shows.region, lost=HOME)
    asks = f"{shows.region} still lists {HOME} .* ledger .{state}.: .*{how}"
    with pytest.raises(ContractChangeRefused, match=asks):
        await check_removed(stores, "ledger", lost)


def test_the_remaining_regions_are_those_that_are_not_lost() -> None:
    """All that are named are left out, and the target becomes the home."""
    one = without_lost(SETTINGS, AWAY, [HOME])
    assert (one.home, list(one.regions)) == (AWAY, [AWAY, SOUTH])
    assert list(without_lost(SETTINGS, SOUTH, [HOME, AWAY]).regions) == [SOUTH]


@pytest.mark.parametrize("target", [HOME, AWAY, "eu-north-1"])
def test_a_target_that_is_lost_or_unknown_is_refused(target: str) -> None:
    """The message has the regions to choose from."""
    with pytest.raises(InvalidInput, match=f"must be one of {SOUTH}, got '{target}'"):
        without_lost(SETTINGS, target, [HOME, AWAY])


def test_what_is_at_stake_names_every_lost_region() -> None:
    """Before anything is asked or done."""
    assert at_stake([HOME, AWAY]).startswith(f"{HOME}, {AWAY}: given up for good.")


def test_a_pipeline_whose_records_live_in_the_lost_region_does_not_stop_the_take_over() -> None:
    """Its lanes wait for their home, or are sent elsewhere later: the table comes first."""
    fields = {"id": "id", "version": "version", "value": "amount"}
    homes = {"field": "country", "regions": {"*": HOME}}
    settings = SETTINGS.replace(pipeline={"fields": fields, "home": homes})
    assert list(without_lost(settings, AWAY, [HOME]).regions) == [AWAY, SOUTH]
