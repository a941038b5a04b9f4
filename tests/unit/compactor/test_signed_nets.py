"""Where nets are signed a search checks them: forged ones are found, and those still to sign."""

import base64
from dataclasses import replace
from decimal import Decimal

import pytest
from support.compacting import World
from support.ledgers import HOME

from compactor.report import CompactorReport
from compactor.status import passes_of, print_status, status_fields, status_in
from ledger.core.entry import Item, net_item
from ledger.core.fold import collect
from ledger.core.signatures import NetKeys, signed_text

ONE, TWO = (f"{name} {base64.b64encode(name.encode() * 16).decode()}" for name in ("k1", "k2"))
OPTIONAL = NetKeys.parse(ONE)
REQUIRED = NetKeys.parse(ONE, required=True)
NET = ("counter", "~net#0001")


async def merged(world: World, keys: NetKeys | None, *, counter: str = "counter") -> None:
    """Merge a counter in passes by these keys, until nothing of it is left to do."""
    await world.settled(entries=6, counter=counter)
    one = world.instance("merging", keys=keys)
    for _ in range(4):
        await world.run_once(one)
    assert not world.shown(HOME, counter).entries


async def searched(world: World, keys: NetKeys) -> CompactorReport:
    """Search once, by a process of its own."""
    return await world.run_once(world.instance("searching", keys=keys))


async def test_a_search_counts_the_nets_by_their_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """The report, the metric, the status, and what the doctor judges by."""
    world = World()
    await merged(world, None, counter="old")
    await merged(world, OPTIONAL, counter="new")
    await merged(world, NetKeys.parse(f"{TWO}\n{ONE}"), counter="newest")
    one = world.instance("one", keys=NetKeys.parse(f"{TWO}\n{ONE}"))
    expected = {"": 1, "k1": 1, "k2": 1}
    assert (await world.run_once(one)).nets_signed == expected
    assert {key: one.metric("compactor_signed_nets", key=key) for key in expected} == expected
    status = await status_in(one.stores, one.compactor.settings)
    now = world.clock.now()
    assert status_fields(status, now=now)["last_search"]["nets_signed"] == expected
    print_status(status, now=now)
    shown = " ".join(capsys.readouterr().out.split())
    assert "of the net changes 1 by 'k1', 1 by 'k2' are signed, 1 are not" in shown
    seen = passes_of(status.passes, one.compactor.settings, status.lease, now=now)
    assert seen.nets_signed == expected


async def test_without_keys_nothing_is_counted() -> None:
    """And nothing is read for it."""
    world = World()
    await merged(world, None)
    one = world.instance()
    assert (await world.run_once(one)).nets_signed == {}
    assert one.metric("compactor_signed_nets", key="") is None


def forged(net: Item) -> Item:
    """Return a net of a writer's making in place of one, with a right digest."""
    found = collect([net]).net
    assert found is not None
    return net_item(replace(found, change=Decimal(10**6)), net["pk"]["S"])


@pytest.mark.parametrize(
    ("keys", "is_signed", "why"),
    [(REQUIRED, False, "it has no signature"), (OPTIONAL, True, "written or changed without")],
)
async def test_a_search_finds_a_forged_net_where_nothing_is_due(
    keys: NetKeys,
    is_signed: bool,  # noqa: FBT001
    why: str,
) -> None:
    """Its counter may be idle for good: no entry would bring a visit there."""
    world = World()
    await merged(world, keys)
    right = world.regions.replicas[HOME].table.get(NET)
    assert right is not None
    made = {**forged(right), **({"signature": right["signature"]} if is_signed else {})}
    world.regions.put(HOME, made)
    world.regions.deliver()
    report = await searched(world, keys)
    assert why in report.quarantined["counter"]
    assert report.nets_signed == {}
    assert world.regions.replicas[HOME].table.get(NET) == made
    world.regions.put(HOME, right)
    world.regions.deliver()
    report = await searched(world, keys)
    assert (report.damaged, report.nets_signed) == (0, {"k1": 1})


def test_what_is_said_of_signed_nets() -> None:
    """By key; where none is signed, too."""
    assert signed_text({"": 3}) == "none are signed, 3 are not"
    assert signed_text({"k2": 1200, "k1": 1}) == "1 by 'k1', 1,200 by 'k2' are signed, 0 are not"
