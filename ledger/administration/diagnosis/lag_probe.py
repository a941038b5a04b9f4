"""The lag of each ordered pair of regions, by a write in each region: `ledger doctor --probe`.

An item is put in each region under `~doctor`, with the attribute of time to live in case this
process ends, and every other region is read until it shows the item. The time from the answer to
the put to the answer that shows it is the lag, to `POLL_SECONDS`. In the end the items are deleted
where they were put.

An item costs two write units in every region, for its put and its delete, and each look half a read
unit. The policies of writer and reader allow all of it: the put, a batch of one delete, queries.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial

import anyio

from ledger.administration.diagnosis.observations import FailedLook, LagObservation
from ledger.administration.diagnosis.region_client import NotingTransport, failed, look_within
from ledger.core.entry import Item, Key
from ledger.core.keys import DOCTOR_PARTITION, EXPIRES
from ledger.runtime.clock import Clock
from ledger.runtime.foreign import FOREIGN
from ledger.runtime.tasks import run_all
from ledger.store.dynamodb.requests import batch_request, query_request, write_request
from ledger.store.reads import Query
from ledger.store.writes import Delete, Put

POLL_SECONDS = 0.1
KEPT = timedelta(days=1)
"""How long an item is kept if its process ended before deleting it."""
CLEAR_SECONDS_MAX = 5.0


async def probe_lag(
    transports: Mapping[str, NotingTransport],
    *,
    table: str,
    clock: Clock,
    number: int,
    seconds_max: float,
) -> list[LagObservation]:
    """Return the lag of each ordered pair of these regions; None where it exceeds the limit."""
    jobs = [
        partial(_from, source, transports, table, clock, number, seconds_max)
        for source in transports
    ]
    return [lag for found in await run_all(jobs, at_once=len(jobs)) for lag in found]


async def _from(
    source: str,
    transports: Mapping[str, NotingTransport],
    table: str,
    clock: Clock,
    number: int,
    seconds_max: float,
) -> list[LagObservation]:
    key: Key = (DOCTOR_PARTITION, f"probe#{number}#{source}")
    expires = int((clock.now() + KEPT).timestamp())
    item: Item = {"pk": {"S": key[0]}, "sk": {"S": key[1]}, EXPIRES: {"N": str(expires)}}
    targets = [region for region in transports if region != source]
    put = partial(transports[source].send, *write_request(Put(item), table))
    try:
        written = await look_within(put, region=source, table=table, seconds_max=seconds_max)
        if isinstance(written, FailedLook):
            return [LagObservation(source, target, None, written.text) for target in targets]
        jobs = [
            partial(_shown, source, target, transports[target], table, key, clock, seconds_max)
            for target in targets
        ]
        return await run_all(jobs, at_once=len(jobs))
    finally:
        with anyio.move_on_after(CLEAR_SECONDS_MAX, shield=True):
            with suppress(*FOREIGN):
                await transports[source].send(
                    "batch_write_item", batch_request([Delete(key)], table)
                )


async def _shown(
    source: str,
    target: str,
    transport: NotingTransport,
    table: str,
    key: Key,
    clock: Clock,
    seconds_max: float,
) -> LagObservation:
    """Return how long it takes, from now on, until a region shows an item.

    If a region answers with errors to the end, the measurement failed.
    """
    put_at = clock.monotonic()
    request = query_request(
        Query(key[0], first=key[1], last=key[1], limit=1, consistent=False), table
    )
    wrong = ""
    with anyio.move_on_after(seconds_max):
        while True:
            try:
                answer = await transport.send("query", request)
            except FOREIGN as error:
                wrong = failed(error, region=target, table=table).text
            else:
                wrong = ""
                if answer["Items"]:
                    return LagObservation(source, target, clock.monotonic() - put_at)
            await clock.sleep(POLL_SECONDS)
    return LagObservation(source, target, None, wrong)
