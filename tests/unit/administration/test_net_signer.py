"""Signing the nets of a table: each once, as it is, and nothing that is not to be trusted."""

import base64
from dataclasses import replace
from functools import partial

import pytest
from support.ledgers import AWAY, HOME, make_settings, net

from ledger.administration.net_signer import NetSigner, NetSigning
from ledger.core.entry import Item
from ledger.core.errors import HomeMoving, InvalidInput, Throttled
from ledger.core.signatures import NetKeys
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost, NeverArrived, Raises
from ledger.store.wrappers.net_signatures import NetSigningStore
from ledger.testing.clock import ManualClock

LINE = f"one {base64.b64encode(b'k' * 32).decode()}"
KEYS = NetKeys.parse(LINE)
SETTINGS = make_settings()


def table_of(*items: Item, region: str = HOME) -> MemoryStore:
    """Return a store of these items, two a page."""
    store = MemoryStore(region, page_items_max=2)
    for item in items:
        store.table.set((item["pk"]["S"], item["sk"]["S"]), item)
    return store


async def signed(
    store: Store,
    *,
    keys: NetKeys = KEYS,
    settings: Settings = SETTINGS,
    dry_run: bool = False,
) -> NetSigning:
    """Sign the nets that a store shows."""
    signer = partial(NetSigner, keys=keys, settings=settings, clock=ManualClock())
    return await signer(NetSigningStore(store, keys), dry_run=dry_run).run()


NETS = [net(name, 5, [], version=f"v-{name}") for name in "abcde"]
ENTRY: Item = {"pk": {"S": "a"}, "sk": {"S": "1"}, "change": {"N": "1"}}


async def test_each_net_is_signed_once() -> None:
    """Those that are signed stay as they are; nothing else is written, by a dry run nothing."""
    store = table_of(ENTRY, KEYS.signed(NETS[0]), *NETS[1:])
    before = list(store.table.items())
    assert await signed(store, dry_run=True) == NetSigning(there=1, left=4)
    assert list(store.table.items()) == before
    done = await signed(store)
    assert (done, done.is_whole) == (NetSigning(there=1, signed=4), True)
    assert sorted(map(str, store.table.items())) == sorted(
        map(str, [ENTRY, *map(KEYS.signed, NETS)])
    )
    assert await signed(store) == NetSigning(there=5)


async def test_where_signatures_are_required_no_unsigned_net_is_signed() -> None:
    """All had one by then: to sign it would make a total of what whoever lacks the key wrote."""
    both = NetKeys.parse(f"two {base64.b64encode(b'2' * 32).decode()}\n{LINE}", required=True)
    store = table_of(KEYS.signed(NETS[0]), NETS[1])
    done = await signed(store, keys=both)
    assert (done.signed, done.faulty, done.is_whole) == (1, 1, False)
    assert "'b' is damaged: it has no signature" in done.faults[0]
    assert store.table.get(("a", "~net#0001")) == both.signed(NETS[0])
    assert store.table.get(("b", "~net#0001")) == NETS[1]


async def test_what_is_not_to_be_trusted_is_named_and_left() -> None:
    """A wrong signature, a digest that does not match, a generation that the contract lacks."""
    forged = {**KEYS.signed(NETS[0]), "change": {"N": "6"}}
    broken = {**NETS[1], "change": {"N": "6"}}
    beyond = net("c", 6, [], generation=7)
    store = table_of(forged, broken, beyond)
    done = await signed(store)
    assert (done.faulty, done.signed, done.is_whole) == (3, 0, False)
    assert sorted(fault.partition("damaged: ")[2][:13] for fault in done.faults) == [
        "a net change ",
        "its signature",
        "the digest do",
    ]
    assert store.table.get(("a", "~net#0001")) == forged


@pytest.mark.parametrize("version", ["v-newer", "v-a"])
async def test_a_net_that_was_merged_meanwhile_is_not_put_back(version: str) -> None:
    """It is put on condition that it is still the one that was seen, by version and digest."""
    store = table_of(NETS[0])
    newer = KEYS.signed(net("a", 9, [], version=version))

    def decide(call: FaultCall) -> Fault | None:
        if call.operation == "write":
            store.table.set(("a", "~net#0001"), newer)
        return None

    assert await signed(FaultyStore(store, decide)) == NetSigning(changed=1)
    assert store.table.get(("a", "~net#0001")) == newer


@pytest.mark.parametrize("fault", [Lost(), NeverArrived()])
async def test_a_write_without_an_answer_is_left_to_the_next_run(fault: Fault) -> None:
    """Which finds it signed, or signs it."""
    store = table_of(NETS[0])
    faulty = FaultyStore(store, lambda call: fault if call.operation == "write" else None)
    assert await signed(faulty) == NetSigning(left=1)
    done = await signed(store)
    assert (done.there + done.signed, done.is_whole) == (1, True)


async def test_what_fails_ends_the_run() -> None:
    """It is run again."""
    raises = Raises(Throttled("slow down"))
    faulty = FaultyStore(
        table_of(NETS[0]), lambda call: raises if call.operation == "write" else None
    )
    with pytest.raises(Throttled):
        await signed(faulty)


async def test_nets_are_signed_through_the_home_alone() -> None:
    """A put through another region could win over a fold of the home's by its stamp."""
    with pytest.raises(InvalidInput, match="home region us-east-1, not eu-west-1"):
        await signed(table_of(NETS[0], region=AWAY))
    moving = SETTINGS.under(replace(SETTINGS.terms, home=""), home=HOME)
    with pytest.raises(HomeMoving):
        await signed(table_of(NETS[0]), settings=moving)
