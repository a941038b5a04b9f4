"""One local global table for all acceptance tests."""

from collections.abc import Iterator

import pytest
from support.commands import Desk, open_desk

REGIONS = ["us-east-1", "eu-west-1", "ap-southeast-1"]


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Give the table, and a folder with its regions.yaml."""
    folder = tmp_path_factory.mktemp("desk")
    with open_desk(folder, regions=REGIONS, lag=0.02, jitter=0.05, seed=7) as desk:
        desk.write_settings(desk.settings())
        yield desk
