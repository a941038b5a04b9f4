"""The fixtures, as pytest offers them to somebody's tests."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

TESTS = """
import boto3
import pytest
from ledger import Ledger

def test_without_async(sync_ledger):
    sync_ledger.record("shop", 3)
    assert sync_ledger.total("shop", max_age=0).value == 3

def test_each_begins_empty(sync_ledger):
    assert sync_ledger.total("shop", max_age=0).value == 0

def test_boto3_reaches_it(ledger_settings, local_table):
    assert list(ledger_settings.regions) == ["eu-west-1", "us-west-2"]
    client = boto3.client("dynamodb", region_name="eu-west-1", aws_access_key_id="a",
        aws_secret_access_key="b", endpoint_url=local_table.endpoints["eu-west-1"])
    assert client.list_tables()["TableNames"] == [ledger_settings.table]

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_async_on_the_local_table(ledger_settings):
    async with Ledger.open(ledger_settings) as ledger:
        await ledger.record("shop", 4)
        assert (await ledger.total("shop", max_age=0)).value == 4

@pytest.mark.anyio
async def test_async_in_memory(memory_table):
    assert memory_table.settings.home == "eu-west-1"
    async with memory_table.ledger() as ledger:
        await ledger.record("shop", 5)
    assert await memory_table.merge() == 0  # a single entry waits for fold_age
"""
CONFTEST = 'pytest_plugins = ["ledger.testing.plugin"]\n'
CONFIG = """
[pytest]
ledger_regions = eu-west-1 us-west-2
"""
MOCKED = """
import asyncio
from moto import mock_aws
from ledger import Ledger, LedgerError, Settings

@mock_aws
def test_a_mock_that_reaches_boto3_alone():
    async def use():
        async with Ledger.open(Settings(regions={"eu-west-1": {}})) as ledger:
            await ledger.record("shop", 1)
    try:
        asyncio.run(use())
    except LedgerError as error:
        assert "mock_aws is active" in str(error) and "memory_table" in str(error)
    else:
        raise AssertionError("it went on")
"""


def run_pytest(folder: Path, text: str, config: str = "[pytest]") -> str:
    """Run tests of a project of its own; return what pytest says."""
    (folder / "test_mine.py").write_text(text, encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "pytest.ini").write_text(config, encoding="utf-8")
    plain = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=folder, env={**plain, "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.stdout + ran.stderr


def test_pytest_loads_none_of_it_unasked() -> None:
    """It rewrites the asserts of every module of a package that brings a plugin by itself."""
    assert not [one for one in entry_points(group="pytest11") if one.value.startswith("ledger")]


@pytest.mark.slow
def test_fixtures_need_one_word_each(tmp_path: Path) -> None:
    """Sync and async, in memory and on a local global table; regions by the configuration."""
    assert "5 passed" in run_pytest(tmp_path, TESTS, CONFIG)


@pytest.mark.tools("moto_server")
def test_under_mock_aws_opening_says_what_to_do(tmp_path: Path) -> None:
    """It would ask AWS itself, with credentials that are none."""
    assert "1 passed" in run_pytest(tmp_path, MOCKED)
