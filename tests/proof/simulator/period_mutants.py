"""Mutants of sums by period, and the code that they put in place of production code."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from ledger.core import ids
from ledger.core.periods import Axis, Borders, PeriodRule, Periods
from ledger.reads.collection import CollectionRead, read_net
from ledger.reads.reader import Reader
from ledger.settings import Settings
from proof.simulator.mutant import Mutant
from proof.simulator.scenario import keeps_periods

_folded, _shard = Periods.folded, Reader._shard  # noqa: SLF001


async def read_apart(
    self: Reader,
    partition: str,
    settings: Settings,
    *,
    consistent: bool,
    with_times: bool = False,
    **reach: Any,
) -> CollectionRead:
    """Read the sums as if they were an item of their own: from another look than the net."""
    shard = partial(_shard, self, partition, settings, consistent=consistent, **reach)
    if not with_times:
        return await shard()
    apart = await read_net(self._store, partition, consistent=consistent)
    found = await shard(with_times=True)
    net = found.collection.net
    if net is not None and apart is not None:
        found.collection.net = replace(net, periods=apart.periods)
    return found


def folded_now(
    self: Periods,
    changes: Sequence[tuple[str, str | None, Decimal]],
    rule: PeriodRule,
    now: datetime,
) -> Periods:
    """Count entries in the period of their fold."""
    key = ids.earliest(now)
    return _folded(self, [(key, None, change) for _, _, change in changes], rule, now)


def behind_unmoved(self: Axis, borders: Borders, _zone: str) -> Axis:
    """Move the borders alone, and leave the sums as they are."""
    return replace(self, borders=self.borders.later(borders))


PERIOD_MUTANTS = (
    Mutant(
        "periods-apart",
        "sums by period are part of the one net (not items of their own)",
        "they are of another moment than the net: what was merged in between is in no period",
        40,
        ((Reader, "_shard", read_apart),),
        worlds=keeps_periods,
    ),
    Mutant(
        "period-of-fold",
        "a change counts in the period of its id, or its date (not in that of its fold)",
        "what is merged later is in a later period",
        24,
        ((Periods, "folded", folded_now),),
        worlds=keeps_periods,
    ),
    Mutant(
        "borders-alone",
        "what has aged behind a border is put together by the write that moves it",
        "changes of one hour are partly in its sum, partly in that of its day",
        80,
        ((Axis, "behind", behind_unmoved),),
        worlds=keeps_periods,
    ),
)
