from dataclasses import replace
from datetime import UTC, datetime

import pytest
from botocore.loaders import Loader

from ledger.administration.table_plan import KEYS, PASSING, REASONS, TableView, replica_problems

HOME, OTHER, THIRD = "us-east-1", "eu-west-1", "ap-south-1"


def view(region: str, status: str = "ACTIVE", **replicas: str) -> TableView:
    """Describe a region's table; the replicas are named with underscores."""
    named = {name.replace("_", "-"): state for name, state in replicas.items()}
    return TableView(region, status, KEYS, replicas=named)


WHOLE = {
    HOME: view(HOME, eu_west_1="ACTIVE", ap_south_1="UPDATING"),
    OTHER: view(OTHER, us_east_1="ACTIVE", ap_south_1="ACTIVE"),
    THIRD: view(THIRD, us_east_1="ACTIVE", eu_west_1="ACTIVE"),
}


def test_replicas_that_replicate_are_no_problem() -> None:
    """Neither is one that is being made or changed, nor a region that has no table yet."""
    assert replica_problems(WHOLE) == ()
    assert (
        replica_problems({HOME: view(HOME, eu_west_1="CREATING"), OTHER: view(OTHER, "CREATING")})
        == ()
    )
    assert replica_problems({HOME: view(HOME), OTHER: None}) == ()


@pytest.mark.parametrize("state", sorted(REASONS))
def test_each_state_is_reported_whichever_region_says_it(state: str) -> None:
    """Home may not see what another region sees, and a region can say it of itself."""
    said = {**WHOLE, THIRD: view(THIRD, us_east_1="ACTIVE", eu_west_1=state)}
    own = {**WHOLE, OTHER: replace(WHOLE[OTHER], status=state)}
    for views in (said, own):
        [text] = replica_problems(views)
        assert text.startswith(f"the replica in eu-west-1 is {state}: ")


def test_it_says_since_when_and_how_long_there_is() -> None:
    """DynamoDB takes it out of the group 20 hours after it became inaccessible."""
    at = datetime(2026, 11, 22, 8, tzinfo=UTC)
    home = replace(view(HOME, eu_west_1="REGION_DISABLED"), inaccessible={OTHER: at})
    [text] = replica_problems({HOME: home, OTHER: None})
    assert "is REGION_DISABLED since 2026-11-22T08:00:00+00:00: " in text
    assert "after 20 hours" in text


def test_a_replica_that_has_left_is_named() -> None:
    """Its table is there and active, and the others do not count it any more."""
    views = {
        HOME: view(HOME, ap_south_1="ACTIVE"),
        OTHER: view(OTHER),
        THIRD: view(THIRD, us_east_1="ACTIVE"),
    }
    texts = replica_problems(views)
    assert any(
        text.startswith("us-east-1, ap-south-1 do not count eu-west-1 among") for text in texts
    )


def test_every_state_of_botocore_is_known() -> None:
    """A state that AWS adds is noticed here: it passes, is good, or has a reason."""
    model = Loader().load_service_model("dynamodb", "service-2")
    states = {
        state
        for shape in ("ReplicaStatus", "TableStatus")
        for state in model["shapes"][shape]["enum"]
    }
    assert states == {"ACTIVE", *PASSING, *REASONS}
