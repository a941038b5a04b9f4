"""What the SDK's configuration asks for: each transport does it, at the same place and alike."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiobotocore.session import AioSession
from botocore.exceptions import ConnectionClosedError
from support.ledgers import HOME, make_settings
from support.scripted import done, scripted
from support.wire import PUTS, TRANSPORTS

from ledger.core.errors import SettingsError
from ledger.store.connections import open_store
from ledger.store.transports.lean_routes import place_of
from ledger.store.transports.sdk import sdk_config
from ledger.testing.clock import ManualClock

ACCOUNT = {"AWS_ACCOUNT_ID": "111122223333"}
FIPS, DUAL = {"AWS_USE_FIPS_ENDPOINT": "true"}, {"AWS_USE_DUALSTACK_ENDPOINT": "true"}
OWN = {"AWS_ENDPOINT_URL": "http://127.0.0.1:7/every"}
DYNAMODB = {"AWS_ENDPOINT_URL_DYNAMODB": "https://vpce.example:8443"}
CONFIG = """
[default]
services = mine
[services mine]
dynamodb =
  endpoint_url = http://127.0.0.1:9
"""


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Begin without what the machine says, but with credentials."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


async def sent_by_the_sdk(client: Any) -> tuple[str, str]:
    """Return the URL to which a client sends, and the scope of the signature."""
    seen: list[Any] = []

    def keep(request: Any, **_event: object) -> None:
        seen.append(request)
        raise ConnectionClosedError(endpoint_url=request.url)

    client.meta.events.register("before-send.dynamodb", keep)
    with pytest.raises(ConnectionClosedError):
        await client.get_item(TableName="t", Key={"pk": {"S": "a"}})
    said = seen[0].headers["Authorization"].decode()
    return seen[0].url, said.partition("Credential=")[2].partition(",")[0]


OTHER_ENDPOINTS: list[tuple[str, Mapping[str, str]]] = [
    ("eu-west-1", {**ACCOUNT, **DUAL}),
    ("eu-west-1", {**ACCOUNT, **FIPS}),
    ("eu-west-1", {**ACCOUNT, "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled"}),
    ("eu-west-1", OWN),
    ("eu-west-1", {**OWN, **DYNAMODB}),
    ("eu-west-1", {**OWN, **ACCOUNT, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}),
    ("us-gov-west-1", FIPS),
    ("us-iso-east-1", {}),
    ("us-east-1-fips", {}),
    ("local", {}),
]


@pytest.mark.parametrize(
    ("region", "given"),
    [
        ("eu-west-1", {}),
        ("eu-west-1", FIPS),
        ("eu-west-1", DUAL),
        ("eu-west-1", {**FIPS, **DUAL}),
        ("eu-west-1", ACCOUNT),
        ("cn-north-1", {}),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in OTHER_ENDPOINTS),
    ],
)
async def test_endpoint_and_region_of_the_signature_are_the_sdks(
    monkeypatch: pytest.MonkeyPatch, region: str, given: Mapping[str, str]
) -> None:
    """FIPS, dual stack, accounts, partitions, endpoints of one's own: as the SDK resolves them."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    config = sdk_config(request_timeout=1, connections_max=1)
    session = AioSession()
    async with session.create_client("dynamodb", region_name=region, config=config) as client:
        place = await place_of(client)
        url, scope = await sent_by_the_sdk(client)
    assert place.url.rstrip("/") == url.rstrip("/")
    assert urlsplit(place.url).scheme == urlsplit(url).scheme
    assert scope.split("/")[2] == place.region


async def test_endpoint_of_the_configuration_file_counts(tmp_path: Path) -> None:
    """`endpoint_url` under `services` of the profile, as the SDK reads it."""
    (tmp_path / "config").write_text(CONFIG)
    async with AioSession().create_client("dynamodb", region_name="eu-west-1") as client:
        assert (await place_of(client)).url == "http://127.0.0.1:9"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_endpoint_that_is_no_url_is_refused(
    monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """It is named when the store is opened: no request could be made."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "ftp://dynamodb.example")
    settings = make_settings(regions={HOME: {}}, transport=transport)
    with pytest.raises(SettingsError, match=r"ftp://dynamodb\.example.*AWS_ENDPOINT_URL"):
        await open_store(settings, HOME).__aenter__()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_application_and_trace_are_named(
    monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """The application's id stands in User-Agent; in a Lambda function the trace is a header."""
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "till\r\n 7")
    async with scripted() as server:
        settings = make_settings(regions={HOME: {"endpoint": server.endpoint}}, transport=transport)
        server.play(otherwise=done())
        async with open_store(settings, HOME, clock=ManualClock(instant=True)) as store:
            await store.write(PUTS[0])
            monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988;Parent=53\n;Sampled=1")
            await store.write(PUTS[1])
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "count")
        async with open_store(settings, HOME, clock=ManualClock(instant=True)) as store:
            await store.write(PUTS[2])
            monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=2")  # of the next invocation
            await store.write(PUTS[2])

    traces = [headers.get("X-Amzn-Trace-Id") for headers in server.headers]
    assert traces == [None, None, "Root=1-5759e988;Parent=53%0A;Sampled=1", "Root=2"]
    assert all(" app/till---7" in headers["User-Agent"] for headers in server.headers)
