"""Settings made in code, as documented: what type checkers must accept, without plugins."""

from decimal import Decimal
from typing import assert_type

from ledger import (
    CacheSettings,
    CompactorSettings,
    Ledger,
    NotSent,
    OutcomeUnknown,
    PeriodSettings,
    PipelineSettings,
    Region,
    Settings,
    ShardStep,
    Table,
    WatchSettings,
    WriterSettings,
    sync,
)

settings = Settings(
    home="us-east-1",
    regions={"us-east-1": Region(), "eu-west-1": Region(endpoint="http://127.0.0.1:8000")},
    settle="20m",
    retry_horizon=120,
    transport="lean",
    cache=CacheSettings(max_age="500ms", stale_max=2),
    writer=WriterSettings(linger="2ms"),
    compactor=CompactorSettings(lease="30s", fold_age="1d"),
    shards={"hot": 4, "cold*": [ShardStep(count=1), ShardStep(count=2, since="2026-11-21T00:00Z")]},
    combine=["votes/*"],
    periods={"usage/*": PeriodSettings(zone="Europe/Berlin")},
    watches={
        "low": WatchSettings(counters="stock-*", below=10, rearm="12.5"),
        "high": {"counters": "stock-*", "above": Decimal(100)},
    },
    pipeline=PipelineSettings(reduce_every="1s", keep_states=None),
)
again = settings.replace(settle="25m", cache={"max_age": "1s"})
assert_type(again, Settings)
assert_type(again.settle, float)
assert_type(PipelineSettings(reduce_every="1s").reduce_every, float)


async def use() -> None:
    """Open a table and a ledger by settings made in code."""
    async with Table.open(settings, region="eu-west-1") as table:
        await table.ledger.record("c", 1, timeout=2.5)
    async with Ledger.open(again) as ledger:
        try:
            await ledger.record_many([("c", 1), ("d", Decimal("2.50"))], timeout=10)
        except OutcomeUnknown as error:
            await ledger.retry(error.entries, together=error.together)
        except NotSent as error:
            print(error.retryable, error.outcome)


def use_without_async() -> None:
    """The same without async."""
    with sync.Ledger.open(settings) as ledger:
        ledger.record("c", 1, key="01ARZ3NDEKTSV4RRFFQ69G5FAV", timeout=2.5)
