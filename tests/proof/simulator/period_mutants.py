"""Mutants of sums by period, and the code that they put in place of production code."""

from dataclasses import replace
from functools import partial
from typing import Any

from ledger.reads.collection import CollectionRead, read_net
from ledger.reads.reader import Reader
from ledger.settings import Settings
from proof.simulator.edit import Edit
from proof.simulator.mutant import Mutant
from proof.simulator.scenario import keeps_periods

_shard = Reader._shard  # noqa: SLF001


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
        (
            Edit(
                "ledger.core.periods:Periods.folded",
                "        borders = Borders.of(rule, now)\n",
                "        borders = Borders.of(rule, now)\n"
                "        changes = [(ids.earliest(now), None, change) for _, _, change in "
                "changes]\n",
            ),
        ),
        worlds=keeps_periods,
    ),
    Mutant(
        "borders-alone",
        "what has aged behind a border is put together by the write that moves it",
        "changes of one hour are partly in its sum, partly in that of its day",
        80,
        (
            Edit(
                "ledger.core.periods:Axis.behind",
                "Axis(later).added(moved)",
                "replace(self, borders=later)",
            ),
        ),
        first=12,
        worlds=keeps_periods,
    ),
)
