"""Regions that write at once: changes and sales while they are cut off from each other."""

from functools import partial

from ledger.lab.compare.ground import Ground
from ledger.lab.compare.report import Apart, Options, Sold
from ledger.lab.compare.workload import Cast, Told, share
from ledger.primitives.counters import METHODS
from ledger.runtime.tasks import run_all

STOCK_SHARE = 8
"""The stock is the number of changes divided by this."""
BUYERS_PER_PIECE = 2


async def write_apart(ground: Ground, method: str, options: Options) -> Apart:
    """Let a writer of each region make its part before they meet; nothing else goes wrong."""
    cast = Cast(ground, method, "apart", options.seed)
    await cast.writer("first", is_sure=True).add(1)
    await ground.heal()
    ground.cut()
    try:
        each = options.changes // len(ground.stores)
        await _in_every_region(ground, cast, each, change=1)
    finally:
        await ground.heal()
    values = {region: await cast.value(region) - 1 for region in ground.stores}
    return Apart(cast.told.applied, values)


async def sell(ground: Ground, method: str, options: Options) -> Sold:
    """Let twice as many buyers as pieces come to one region, with writes lost."""
    cast = _shop(ground, method, "sale", options)
    stock = await _stock(ground, cast, options)
    buyers = [cast.writer(f"buyer {place}") for place in range(options.writers)]
    await share(buyers, stock * BUYERS_PER_PIECE, _sale(method))
    return _sold(stock, stock * BUYERS_PER_PIECE, cast.told)


async def sell_apart(ground: Ground, method: str, options: Options) -> Sold:
    """Let twice as many buyers as pieces come to each region while they are cut off."""
    cast = _shop(ground, method, "sale-apart", options, lost=0.0)
    stock = await _stock(ground, cast, options)
    ground.cut()
    try:
        each = stock * BUYERS_PER_PIECE
        await _in_every_region(ground, cast, each, change=_sale(method))
    finally:
        await ground.heal()
    return _sold(stock, each * len(ground.stores), cast.told)


async def _in_every_region(ground: Ground, cast: Cast, each: int, *, change: int) -> None:
    """Let a writer of each region make so many changes: within it, nobody is in the way."""
    jobs = [
        partial(share, [cast.writer("writer", region)], each, change) for region in ground.stores
    ]
    await run_all(jobs, at_once=len(jobs))


def _shop(
    ground: Ground, method: str, name: str, options: Options, lost: float | None = None
) -> Cast:
    limits: tuple[tuple[str, int], ...] = (("minimum", 0),)
    if method == "slots":  # a set is filled up to its maximum
        limits = (("maximum", _pieces(options)),)
    if not METHODS[method].has_thresholds:
        limits = ()
    share_lost = options.lost if lost is None else lost
    return Cast(ground, method, name, options.seed, lost=share_lost, limits=limits)


async def _stock(ground: Ground, cast: Cast, options: Options) -> int:
    """Bring the pieces, one by one, and wait until every region has them."""
    pieces = _pieces(options)
    if cast.method != "slots":
        await share([cast.writer("supplier", is_sure=True)], pieces)
    await ground.heal()
    return pieces


def _pieces(options: Options) -> int:
    return max(1, options.changes // STOCK_SHARE)


def _sale(method: str) -> int:
    return 1 if method == "slots" else -1


def _sold(stock: int, buyers: int, told: Told) -> Sold:
    return Sold(stock, buyers, told.applied, told.unknown)
