"""What the doctor tries permissions by, on AWS's own engine: it is taken, and changes nothing."""

import pytest
from support.engines import empty_table, settings_of

from ledger.administration.diagnosis.observer import look_at_all
from ledger.administration.diagnosis.permission_trials import ATTRIBUTE, trials_of
from ledger.administration.diagnosis.region_client import Looks
from ledger.administration.templates import Role
from ledger.core.entry import Item
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.reads import Scan
from ledger.store.writes import Put

NUMBER = 7
SECONDS_MAX = 60.0


async def everything(store: Store) -> list[Item]:
    """Return all items of a table that has one page of them."""
    page = await store.scan(Scan(consistent=True))
    assert page.after is None
    return sorted(page.items, key=lambda item: (item["pk"]["S"], item["sk"]["S"]))


@pytest.mark.engines("dynamodb_local")
async def test_every_trial_is_taken_and_none_changes_anything(
    dynamodb_local_settings: Settings,
) -> None:
    """For every role, in partitions with items, of which one has the attribute of the trials."""
    endpoint = dynamodb_local_settings.region(dynamodb_local_settings.home).endpoint
    assert endpoint is not None
    settings = settings_of(endpoint).replace(table="doctor", index=("*",))
    region = settings.home
    made = [trial for role in Role for trial in trials_of(role, settings, region, number=NUMBER)]
    partitions = {trial.partition for trial in made if trial.partition}
    async with open_store(settings, region) as store:
        await empty_table(store, settings.table)
        for partition in partitions:
            kept = {"pk": {"S": partition}, "sk": {"S": "kept"}, ATTRIBUTE: {"S": "kept"}}
            await store.write(Put(kept))
        before = await everything(store)
        looks = Looks(SystemClock(), NUMBER, SECONDS_MAX)
        seen = await look_at_all(settings, looks, roles=list(Role))
        tried = [one for each in seen.regions[0].tried.values() for one in each]
        unknown = {one.trial.action for one in tried if one.outcome == "unknown"}
        assert unknown == {"DescribeContinuousBackups"}  # which DynamoDB Local does not offer
        assert len([one for one in tried if one.outcome == "allowed"]) > len(partitions)
        assert await everything(store) == before
        assert len(before) == len(partitions)
