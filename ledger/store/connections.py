"""Opening the stores of regions: the transport that the settings name, metered."""

import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import localcontext
from functools import cache, partial
from pathlib import Path
from random import Random

from ledger.core.amounts import GIVEN
from ledger.core.errors import LedgerError, SettingsError
from ledger.core.signatures import NetKeys
from ledger.runtime.aws_session import open_session
from ledger.runtime.clock import Clock, SystemClock, system_random
from ledger.runtime.files import read_bounded
from ledger.runtime.foreign import FOREIGN
from ledger.runtime.gc import freed_later
from ledger.runtime.loops import running_loop
from ledger.runtime.metrics import Metrics
from ledger.runtime.threads import ThreadedCall
from ledger.runtime.tracing.choice import tracing_of
from ledger.settings import Settings
from ledger.settings.groups import SignatureSettings
from ledger.store.dynamodb.apart import check_apart
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.connect import client_options
from ledger.store.dynamodb.errors import from_botocore
from ledger.store.dynamodb.store import DynamoStore
from ledger.store.dynamodb.transport import Transport
from ledger.store.port import Store
from ledger.store.retrier import Retrier
from ledger.store.retry import RetryBudget
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.wrappers.net_signatures import NetSigningStore

CONNECTIONS_MAX = 64
KEYS_BYTES_MAX = 64 * 1024


@asynccontextmanager
async def open_store(
    settings: Settings,
    region: str,
    *,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    randomness: Random | None = None,
) -> AsyncIterator[Store]:
    """Open the table of one region; the connections are closed at the end.

    Raises:
        SettingsError: the region is not in the settings, `tracing` needs an extra, or the file of
            keys for net changes cannot be read.
        AccessDenied: the profile does not exist.
        LedgerError: the event loop is not asyncio's, which the connections need; or moto's
            `mock_aws` is active, which does not reach them.
    """
    running_loop()
    keys = (
        await _reading_keys(settings.signatures).result() if settings.signatures.are_made else None
    )
    if settings.region(region).endpoint is None:
        _refuse_mock(region)
    clock, metrics = clock or SystemClock(), metrics or Metrics(None)
    async with AsyncExitStack() as stack:
        try:
            transport = await stack.enter_async_context(
                open_transport(settings, region, clock=clock)
            )
        except FOREIGN as error:
            raise from_botocore(error, region=region, table=settings.table) from error
        retrier = Retrier(
            clock=clock,
            randomness=randomness or system_random(),
            budget=RetryBudget(),
            on_retry=lambda operation, cause: metrics.retry(region, operation, cause),
        )
        client = TableClient(
            transport=transport,
            region=region,
            table=settings.table,
            retrier=retrier,
            watch=ClockWatch(
                clock, on_change=lambda offset: metrics.clock_offset(region, offset.middle)
            ),
            # To connect, or wait for a free connection, and to be answered.
            request_seconds_max=2 * settings.request_timeout,
        )
        store = _wrapped(DynamoStore(client), settings, metrics=metrics, clock=clock)
        yield store if keys is None else NetSigningStore(store, keys)


@cache
def _reading_keys(given: SignatureSettings) -> ThreadedCall[NetKeys | None]:
    return ThreadedCall(partial(net_keys, given), what="the read of the keys for net changes")


def net_keys(given: SignatureSettings) -> NetKeys | None:
    """Return the keys by which net changes are signed and checked; None if the settings name none.

    Raises:
        SettingsError: the file cannot be read, the variable is not set, or there are no such keys.
    """
    if not given.are_made:
        return None
    if given.keys_env is None:
        named = f"signatures.keys {given.keys}"
    else:
        named = f"signatures.keys_env {given.keys_env}"
    try:
        if given.keys_env is None:
            path = Path(given.keys or "")
            text = read_bounded(path, KEYS_BYTES_MAX, what="file of keys").decode()
        else:
            text = os.environ[given.keys_env]
        return NetKeys.parse(text, required=given.required)
    except UnicodeDecodeError:
        raise SettingsError(f"{named}: it is not UTF-8") from None
    except KeyError:
        raise SettingsError(f"{named}: the variable is not set") from None
    except LedgerError as error:
        raise SettingsError(f"{named}: {error}") from None


def _wrapped(store: Store, settings: Settings, *, metrics: Metrics, clock: Clock) -> Store:
    """Return the store metered, and traced if the settings say so."""
    tracing = tracing_of(settings.tracing)
    if tracing is None:
        return MeteredStore(store, metrics=metrics, clock=clock)
    from ledger.store.wrappers.tracer import TracedStore, say_units  # noqa: PLC0415 (an extra)

    on_units = partial(say_units, settings.table)
    return TracedStore(
        MeteredStore(store, metrics=metrics, clock=clock, on_units=on_units),
        tracing=tracing,
        table=settings.table,
        endpoint=settings.region(store.region).endpoint,
    )


def _refuse_mock(region: str) -> None:
    """Refuse to reach AWS while a test assumes that it is mocked.

    `mock_aws` replaces botocore's sending; these connections do not all use it, and would go to AWS
    itself, with invalid credentials.
    """
    moto = sys.modules.get("moto.core.models")
    if moto is not None and getattr(getattr(moto, "MockAWS", None), "_mocks_active", False):
        raise LedgerError(
            "moto's mock_aws is active, but does not intercept this library: it would reach AWS in"
            f" {region}; test with ledger.testing (its fixtures memory_table and local_table),"
            " or with moto's server as the region's `endpoint`"
        )


@asynccontextmanager
async def open_stores(
    settings: Settings,
    regions: Iterable[str] | None = None,
    *,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    randomness: Random | None = None,
) -> AsyncIterator[dict[str, Store]]:
    """Open the table of each of these regions, by default of every region of the settings.

    Raises:
        SettingsError: a region is not in the settings.
        AccessDenied: a profile does not exist.
    """
    async with AsyncExitStack() as stack:
        yield {
            region: await stack.enter_async_context(
                open_store(settings, region, metrics=metrics, clock=clock, randomness=randomness)
            )
            for region in (settings.regions if regions is None else regions)
        }


@asynccontextmanager
async def open_transport(
    settings: Settings, region: str, *, clock: Clock
) -> AsyncIterator[Transport]:
    """Open the transport that the settings name, to one region.

    Raises:
        The SDK's own (`ledger.runtime.foreign`): the profile does not exist.
        SettingsError: the SDK's configuration names an invalid endpoint, one for several regions,
            or certificates that cannot be read.
    """
    # They take longer to import than all the rest, and commands that send nothing do not need them.
    from ledger.store.transports.sdk import SdkTransport, sdk_config, watch  # noqa: PLC0415
    from ledger.store.transports.trust import check_configured  # noqa: PLC0415

    check_apart(settings, region)
    described = settings.region(region)
    options = client_options(region, described)
    config = sdk_config(request_timeout=settings.request_timeout, connections_max=CONNECTIONS_MAX)
    async with AsyncExitStack() as stack:
        stack.enter_context(freed_later())
        session = open_session(described.profile)
        with localcontext(GIVEN):  # the SDK calculates with a date when it reads credentials
            opening_client = session.create_client("dynamodb", config=config, **options)
            client = await stack.enter_async_context(opening_client)
        await check_configured(session, client)
        watch(client)
        sdk = SdkTransport(client)
        if settings.transport == "aiobotocore":
            yield sdk
            return
        from ledger.store.transports.lean import open_lean  # noqa: PLC0415

        opening = open_lean(
            session,
            client,
            options,
            request_timeout=settings.request_timeout,
            connections_max=CONNECTIONS_MAX,
            now=clock.now,
            otherwise=sdk,
        )
        async with opening as lean:
            yield lean
