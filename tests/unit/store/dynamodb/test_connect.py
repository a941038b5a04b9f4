import pytest

from ledger.settings.groups import Region
from ledger.store.dynamodb.connect import client_options


@pytest.mark.parametrize(
    "endpoint",
    ["http://127.0.0.1:8000", "http://localhost:8000", "http://[::1]:8000", "http://a.localhost"],
)
def test_an_endpoint_on_this_machine_gets_dummy_credentials(endpoint: str) -> None:
    """A laptop without AWS credentials works, and one with them does not send them."""
    assert client_options("eu-west-1", Region(endpoint=endpoint)) == {
        "region_name": "eu-west-1",
        "endpoint_url": endpoint,
        "aws_access_key_id": "local",
        "aws_secret_access_key": "local",
    }


@pytest.mark.parametrize(
    "region",
    [
        Region(endpoint="https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com"),
        Region(endpoint="http://127.0.0.1:8000", profile="mine"),
        Region(endpoint="http://127.0.0.1.example.com"),
    ],
)
def test_other_endpoints_use_the_usual_credentials(region: Region) -> None:
    """A profile, or a host elsewhere, keeps to the SDK's search."""
    assert client_options("eu-west-1", region) == {
        "region_name": "eu-west-1",
        "endpoint_url": region.endpoint,
    }


def test_without_an_endpoint_only_the_region_is_given() -> None:
    """AWS's own endpoint is the SDK's business."""
    assert client_options("eu-west-1", Region(profile="mine")) == {"region_name": "eu-west-1"}
