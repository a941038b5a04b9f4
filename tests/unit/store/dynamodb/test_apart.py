"""Two regions are never reached at one endpoint, whoever names it."""

from pathlib import Path

import pytest

from ledger.core.errors import SettingsError
from ledger.settings import Settings
from ledger.store.dynamodb.apart import STREAM, TABLE, check_apart

EAST, WEST = "us-east-1", "eu-west-1"
URL = "http://127.0.0.1:8000"
VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the SDK a configuration of its own, empty at first."""
    for name in (*VARIABLES, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "config"
    path.write_text("")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(path))
    return path


def settings(**endpoints: str | None) -> Settings:
    """Return settings of two regions, each with or without an endpoint of its own."""
    east, west = endpoints.get("east"), endpoints.get("west")
    return Settings(home=EAST, regions={EAST: {"endpoint": east}, WEST: {"endpoint": west}})


@pytest.mark.parametrize("region", [EAST, WEST])
@pytest.mark.parametrize("variable", VARIABLES[:2])
def test_a_variable_of_the_sdk_names_no_two_regions(
    variable: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold for both; the error names it, and both regions."""
    monkeypatch.setenv(variable, URL)
    with pytest.raises(SettingsError, match=rf"{variable} .*{URL}.*us-east-1|eu-west-1"):
        check_apart(settings(), region)


@pytest.mark.parametrize(
    "text",
    [
        f"[default]\nendpoint_url = {URL}\n",
        f"[default]\nservices = mine\n[services mine]\ndynamodb =\n  endpoint_url = {URL}\n",
    ],
    ids=["profile", "services"],
)
def test_a_configuration_file_names_no_two_regions(text: str, config: Path) -> None:
    """Neither the profile's endpoint nor that of its `services` section."""
    config.write_text(text)
    with pytest.raises(SettingsError, match="`endpoint_url` of the SDK's configuration"):
        check_apart(settings(), EAST)


@pytest.mark.parametrize(
    "other", [URL, f"{URL}/", "http://localhost:8000", "HTTP://127.0.0.1:8000"]
)
def test_the_settings_name_no_endpoint_twice(other: str) -> None:
    """However it is spelled."""
    with pytest.raises(SettingsError, match="`endpoint` in `regions`"):
        check_apart(settings(east=URL, west=other), WEST)


def test_what_one_region_alone_takes_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable beside another region's own endpoint is of one region, as is any of a lone one."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", URL)
    check_apart(settings(east="http://127.0.0.1:8001"), EAST)
    check_apart(settings(east="http://127.0.0.1:8001"), WEST)
    check_apart(Settings(regions={EAST: {}}), EAST)


def test_the_stream_has_a_variable_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feed of a region is not read from another one's stream."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", URL)
    check_apart(settings(), EAST, service=TABLE)
    with pytest.raises(SettingsError, match="DYNAMODB_STREAMS"):
        check_apart(settings(), EAST, service=STREAM)


def test_what_the_sdk_ignores_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """`AWS_IGNORE_CONFIGURED_ENDPOINT_URLS` leaves each region at AWS's own endpoint."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", URL)
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    check_apart(settings(), EAST)
