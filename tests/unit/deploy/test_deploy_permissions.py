import ast
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import botocore.session
import pytest
from prometheus_client import CollectorRegistry
from support.budgets import granted as granted_rights
from support.budgets import spend_item
from support.ledgers import make_writer
from support.permissions import (
    HOME,
    OTHER,
    SETTINGS,
    STATEMENTS,
    Call,
    Recorder,
    RecordingStore,
    assert_just_enough,
    granted,
    is_like,
)
from support.pipeline_calls import run_the_pipeline

from compactor.home_takeover import check_removed
from compactor.indexer import Indexer
from compactor.job import Compactor
from compactor.metrics import CompactorMetrics
from compactor.observation import lease_name
from compactor.records import put_records
from compactor.slices import member_name
from ledger.administration import table
from ledger.administration.templates import Role, policy
from ledger.budgets.budget import Hold
from ledger.budgets.grant_closing import RegionViews, resolve_expired
from ledger.budgets.rights import GrantName, Holder, key_of, rights_item
from ledger.budgets.spend_record import spend_of
from ledger.contract.contract_writer import ContractWriter
from ledger.contract.open_regions import OpenOthers
from ledger.core import once
from ledger.core.contract_item import Contract, contract_item, contract_key
from ledger.core.entry import GRANT, SPENDING_ATTRIBUTES, entry_item
from ledger.core.hints import HINT_PARTITIONS
from ledger.core.ids import EntryId
from ledger.core.index import ONLY_LISTED, IndexPlace, attributes_of
from ledger.core.keys import DOCTOR_PARTITION, EXPIRES, LEASE_PARTITION
from ledger.core.values import Entry
from ledger.http.webhooks.events import HookEvent
from ledger.http.webhooks.progress_items import DUE, HookPosition, ProgressItems
from ledger.http.webhooks.worker import LEASE as WORKER_LEASE
from ledger.primitives.counters import METHODS, MarkerCounter
from ledger.primitives.leases import Lease, LeaseTerms
from ledger.primitives.leases.lease import LeaseOptions
from ledger.primitives.leases.lease_rules import LeaseRecord, lease_key, record_item
from ledger.primitives.leases.queries import list_leases
from ledger.primitives.sequences import CounterSequence, SortKeySequence
from ledger.primitives.versions import ConditionGuard, Event, LockGuard
from ledger.primitives.versions.lock import GuardOptions
from ledger.reads.feed.dynamodb import StreamsClient
from ledger.runtime.clock import SystemClock
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import (
    Action,
    Deletes,
    Put,
)
from ledger.table import Table
from ledger.testing.clock import START, ManualClock
from ledger.writes.entry_plan import Change
from ledger.writes.imports.file_format import Form
from ledger.writes.imports.importer import Importer
from ledger.writes.imports.source import open_source
from ledger.writes.imports.survey import StopSign, survey

PIPELINE_OWN = ("~state~T1", "~pipeline~us-east-1/trades")
"""Partition keys of the pipeline."""
WATCHES_OWN = ("~watch~low", "~budget~key/42")
"""Partition keys of watches and budgets."""
WRITES = (
    *("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"),
    *("PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"),
)
METHODS_OWN = (
    "~count~0~c",
    "~count-marker~c",
    "~sequence~s",
    "~sequence~~item~t",
    "~version~v",
    "~lease~l",
)
"""Partition keys of the other methods."""
INDEX_OWN = ("~index-0", "~index-3")
"""Partition keys of the index."""
INDEXED = SETTINGS.replace(index=("*",))
LEASE_TERMS = LeaseTerms(lease_seconds=5.0, heartbeat_seconds=2.0)
ADDED_FOR_REPLICAS = {"CreateTableReplica"}
"""Asked of anyone who adds a replica, beside the request itself."""


async def until(condition: Callable[[], Awaitable[bool]], *, tries_max: int = 50) -> None:
    """Try again and again until a condition holds."""
    for _ in range(tries_max):
        if await condition():
            return
    raise AssertionError(f"not reached in {tries_max} tries")


async def write_all(store: RecordingStore) -> None:
    """Write in every way that a caller has."""
    async with Ledger(
        SETTINGS,
        region=store.region,
        given=GivenConnections(store=store),
    ) as ledger:
        await ledger.record("customer1-balance", 3, note="refund")
        await ledger.record("customer2-balance", Decimal("-1.50"))
        await ledger.record_many([(f"counter-{number}", number) for number in range(1, 60)])
        await ledger.record_together([("customer1-balance", -5), ("customer2-balance", 5)])
        await ledger.describe("customer1-balance", {"owner": store.region})


async def probe(recorder: Recorder) -> None:
    """Put and delete what `ledger doctor --probe` does, in each region."""
    for region in (HOME, OTHER):
        key = (DOCTOR_PARTITION, "probe#1")
        item = {"pk": {"S": key[0]}, "sk": {"S": key[1]}, EXPIRES: {"N": "1"}}
        await recorder.store(region).write(Put(item))
        await recorder.store(region).write_batch(Deletes(key[0], [key[1]]))


async def read_all(store: RecordingStore) -> None:
    """Read in every way that a caller has."""
    async with Ledger(
        INDEXED,
        region=store.region,
        given=GivenConnections(store=store),
    ) as ledger:

        async def has_left_a_hint() -> bool:
            await SystemClock().sleep(SETTINGS.settle)
            await ledger.total("customer1-balance", max_age=0)
            return bool(ledger.metrics.hints.labels(store.region, "left")._value.get())

        await until(has_left_a_hint)
        _ = [entry async for entry in ledger.history("customer1-balance")]
        _ = [counter async for counter in ledger.counters(described=True, exact=True)]
        assert await ledger.description("customer1-balance") == {"owner": HOME}


async def use_all_methods(store: RecordingStore) -> None:
    """Count, number, guard and lead in every way that there is."""
    services = Services.of()
    for name, method in METHODS.items():
        if name != "collection":
            counter = method.make(cast("Store", store), name, services=services)
            await counter.add(1, token="t")
            await counter.add(1, token="t")
            await counter.value()
            if name != "slots":
                await counter.reconcile(counted=5)
    orders = CounterSequence(store, "orders", kept_seconds=60, services=services)
    await orders.next()
    await orders.next(token="cart-1")
    tickets = SortKeySequence(store, "tickets", services=services)
    await tickets.append({"title": {"S": "first"}})
    for _ in range(2):
        await tickets.append_many([{"title": {"S": "second"}}] * 2, token="mail-1")
    await tickets.read(1)
    await ConditionGuard(store, services=services).handle(Event("customer-7", 1), [])
    guard = LockGuard(
        store,
        owner="here",
        services=services,
        options=GuardOptions(terms=LEASE_TERMS, failures_max=1),
    )
    await guard.handle(Event("customer-8", 1), handled)
    await guard.dead_letters.failed(Event("customer-8", 2), "why")
    await ConditionGuard(store, services=services).dead_letters.failed(
        Event("customer-9", 1), "why"
    )
    letters = [letter async for letter in guard.dead_letters.letters()]
    assert await guard.dead_letters.release(letters[0].event)
    lease = Lease(store, "nightly", owner="here", terms=LEASE_TERMS, services=services)
    async with lease.held():
        await lease.heartbeat(data={"page": {"N": "1"}})
        await lease.transact([Put({"pk": {"S": "~lease~nightly"}, "sk": {"S": "notes"}})])
    once = LeaseOptions(delete_on_release=True)
    async with Lease(
        store, "once", owner="here", terms=LEASE_TERMS, services=services, options=once
    ).held():
        pass


async def handled(_: Event, lease: Lease) -> list[Action]:
    """Handle an event for as long as a heartbeat takes."""
    await lease.heartbeat()
    return []


def is_entry_or_hint(call: Call) -> bool:
    """Return whether a call is of the ledger itself."""
    return all(not is_like(partition, ["~*"]) for partition in call.partitions)


async def test_the_writer_has_just_enough() -> None:
    """Every call of writing is allowed, in any region, and nothing beyond them is."""
    recorder = Recorder()
    await recorder.read_contract(HOME, OTHER)
    keyed = [Change("customer1-balance", 1, key=f"order-{number}", at=START) for number in (1, 2)]
    for region in (HOME, OTHER):
        await write_all(recorder.store(region))
        await make_writer(recorder.store(region)).record_many(keyed)
    await probe(recorder)
    assert_just_enough(Role.WRITER, recorder.calls, [HOME, OTHER])


async def test_the_reader_has_just_enough() -> None:
    """Every call of reading is allowed, in any region, and nothing beyond them is."""
    recorder = Recorder()
    await write_all(recorder.store(HOME))
    recorder.calls.clear()
    await recorder.read_contract(HOME, OTHER)
    for region in (HOME, OTHER):
        await read_all(recorder.store(region))
    assert_just_enough(Role.READER, recorder.calls, [HOME, OTHER])


async def test_the_watcher_has_just_enough_beside_the_reader() -> None:
    """A reader elsewhere decides a crossing through home, and needs nothing more for it."""
    recorder = Recorder()
    away, home = (recorder.store(region) for region in (OTHER, HOME))
    async with Ledger(
        SETTINGS,
        region=OTHER,
        given=GivenConnections(store=away, home=home),
    ) as ledger:
        await ledger.record("stock-7", 9)
        recorder.calls.clear()
        ledger.watch("stock-*", below=10, call=lambda _: None)
        await ledger.total("stock-7")
    calls = [call for call in recorder.calls if call.region == HOME]
    assert_just_enough(Role.WATCHER, calls, [HOME, OTHER])
    assert granted(Role.WATCHER, OTHER) == set()


def test_the_follower_has_just_enough_beside_the_reader() -> None:
    """What the feed asks of the stream, of the table's own in every region, and nothing else."""
    asked = {name.title().replace("_", "") for name in vars(StreamsClient) if name[0] != "_"}
    (statement,) = policy(SETTINGS, Role.FOLLOWER)["Statement"]
    assert set(statement["Action"]) == {f"dynamodb:{action}" for action in asked}
    assert [name.partition(":table/")[2] for name in statement["Resource"]] == [
        f"{SETTINGS.table}/stream/*" for _ in SETTINGS.regions
    ]


async def test_the_notifier_has_just_enough_beside_the_others() -> None:
    """What a worker of webhooks keeps, and its lease, at home alone."""
    recorder = Recorder()
    store = recorder.store(HOME)
    kept, event = ProgressItems(store, "erp"), HookEvent("msg_1", b"{}")
    at = await kept.move(await kept.position(), HookPosition("f1"), stamp="s")
    await kept.move(at, at, stamp="t")
    await kept.put_due(event)
    assert [each async for each in kept.due()] == [event]
    await kept.forget(f"{DUE}{event.id}")
    await kept.put_dead(event, "500", START)
    assert [letter.said async for letter in kept.dead()] == ["500"]
    lease = Lease(store, WORKER_LEASE, owner="here", terms=LEASE_TERMS, services=Services.of())
    async with lease.held():
        await lease.heartbeat()
    assert_just_enough(Role.NOTIFIER, recorder.calls, [HOME, OTHER])
    assert granted(Role.NOTIFIER, OTHER) == set()


async def test_the_corrector_has_just_enough_beside_the_others() -> None:
    """What reversing and reconciling ask beyond recording and reading: all regions, and records."""
    recorder = Recorder()
    home, other = recorder.store(HOME), recorder.store(OTHER)
    async with Ledger(
        SETTINGS,
        region=HOME,
        given=GivenConnections(store=home, others={OTHER: other}),
    ) as ledger:
        entry = await ledger.record("shelf", 3)
        recorder.calls.clear()
        assert await ledger.reverse(entry) == await ledger.reverse(entry)
        for _ in range(2):
            await ledger.reconcile("shelf", counted=2, token="t")
    mine = [policy(SETTINGS, role) for role in (Role.WRITER, Role.READER)]
    its = policy(SETTINGS, Role.CORRECTOR)
    assert all(any(call.is_allowed(each) for each in (*mine, its)) for call in recorder.calls)
    needed = [call for call in recorder.calls if call.is_allowed(its)]
    assert_just_enough(Role.CORRECTOR, needed, [HOME, OTHER])
    assert not [call for call in needed if call.is_allowed(mine[0])]


@pytest.mark.parametrize("attribute", ["reverses", "token", "~expires", "merged", "digest"])
@pytest.mark.parametrize("action", ["PutItem", "BatchWriteItem", "PartiQLInsert", "UpdateItem"])
def test_who_records_names_attributes_of_entries_alone(action: str, attribute: str) -> None:
    """Of no role that records does an entry expire, stand for a call, or become a net change."""
    call = Call(action, HOME, ("customer1-balance",), attributes=("pk", "sk", "change", attribute))
    recording = (Role.WRITER, Role.STRICT_WRITER, Role.SPENDER, Role.IMPORTER)
    for role in (*recording, Role.PIPELINE, Role.AUDIT):
        assert not call.is_allowed(policy(SETTINGS, role)), role


@pytest.mark.parametrize("partition", ["~reverse~c", "~reconcile~c", "~reconcile-latest~c"])
@pytest.mark.parametrize("action", WRITES)
def test_records_are_written_by_those_who_correct_merge_and_rebuild(
    action: str, partition: str
) -> None:
    """No other role forges one, with whatever attributes."""
    for names in (("pk", "sk"), ("pk", "sk", "change", "entry")):
        call = Call(action, HOME, (partition,), attributes=names)
        may = {role for role in Role if call.is_allowed(policy(SETTINGS, role))}
        trusted = {Role.CORRECTOR, Role.COMPACTOR, Role.ARCHIVIST, Role.ADMINISTRATOR}
        assert may <= trusted


@pytest.mark.parametrize("action", WRITES)
def test_nothing_under_a_counter_expires(action: str) -> None:
    """Whoever writes there, but the administrator, names the attribute of the time to live not."""
    call = Call(action, HOME, ("c",), attributes=("pk", "sk", "change", "~expires"))
    assert {role for role in Role if call.is_allowed(policy(SETTINGS, role))} <= {
        Role.ADMINISTRATOR
    }


@pytest.mark.parametrize("partition", ["~newroom~x", "~zeta"])
@pytest.mark.parametrize("action", WRITES)
def test_a_partition_that_the_ledger_may_add_is_nobodys(action: str, partition: str) -> None:
    """Who may write under counters may not write there, though no list names it."""
    call = Call(action, HOME, (partition,), attributes=("pk", "sk", "change"))
    may = {role for role in Role if call.is_allowed(policy(SETTINGS, role))}
    assert may <= {Role.ADMINISTRATOR}


def opening(stores: Mapping[str, Store]) -> OpenOthers:
    """Return an opening of stores that are open already."""
    return lambda: nullcontext(stores)


async def test_the_importer_has_just_enough(tmp_path: Path) -> None:
    """Every call of an import that is repeated is allowed, and nothing beyond them is."""
    path = tmp_path / "changes.csv"
    path.write_text("counter,change\n" + "a,1\nb,2\n" * 120, encoding="utf-8")
    recorder, settings = Recorder(), SETTINGS.replace(combine=["b"])
    await recorder.read_contract(HOME)
    for forgetful in (False, True):
        store = recorder.store(HOME, forgetful=forgetful)
        others: dict[str, Store] = {OTHER: recorder.store(OTHER, forgetful=forgetful)}
        with open_source(str(path)) as source:
            surveyed = await survey(source, Form(), settings, stop=StopSign())
            assert surveyed is not None
            importer = Importer(store, settings, others=opening(others), services=Services.of())
            report = await importer.run(source, surveyed)
    assert report.rows_there == 240
    assert_just_enough(Role.IMPORTER, recorder.calls, [HOME, OTHER])
    assert granted(Role.IMPORTER, OTHER) == {"Query"}


async def share(recorder: Recorder) -> None:
    """Let two compactors share the slices, and take those of one that died."""
    compactor = SETTINGS.compactor.model_copy(update={"lease": 0.3})
    settings = SETTINGS.replace(compactor=compactor)
    name = f"{lease_name(settings)}/{member_name('dead', 1)}"
    beat = LeaseRecord(name, "dead", "1", 0.1, 1, HOME, partition=LEASE_PARTITION)
    recorder.table.set(lease_key(name), record_item(beat))
    stores = {region: recorder.store(region) for region in (HOME, OTHER)}
    registries = [CollectorRegistry() for _ in range(2)]
    both = [Compactor(settings, stores=stores, registry=registry) for registry in registries]
    stop = anyio.Event()

    async def are_at_work() -> bool:
        await anyio.sleep(0.05)
        led = [registry.get_sample_value("compactor_slices") for registry in registries]
        return recorder.table.get(lease_key(name)) is None and led == [32, 32]

    async with anyio.create_task_group() as group:
        for one in both:
            group.start_soon(partial(one.run_every, 0.05, stop=stop))
        await until(are_at_work, tries_max=400)
        stop.set()


async def follow_former_generations(store: Store) -> None:
    """Let an indexer delete what a lost home put, one item and several."""
    metrics = CompactorMetrics.of(CollectorRegistry())
    indexer = Indexer(store, generation=2, clock=ManualClock(), metrics=metrics)
    for counters in (["a"], ["b", "c"]):
        places = [IndexPlace(counter, 0, 1) for counter in counters]
        state = attributes_of(ONLY_LISTED, START)
        for key in (place._replace(generation=at).key for place in places for at in (1, 2)):
            await store.write(Put({"pk": {"S": key[0]}, "sk": {"S": key[1]}, **state}))
        await indexer.met([place.key for place in places])
        found = await store.get_each([Get(place.key) for place in places])
        assert not any(found.items)


async def keep_budgets(recorder: Recorder) -> None:
    """Resolve a hold of each region that has expired, with the rights that it was paid from."""
    terms = SETTINGS.replace(budgets={"key/*": {}}).terms
    stores: dict[str, Store] = {region: recorder.store(region) for region in (HOME, OTHER)}
    regions = RegionViews(stores, terms, ManualClock())
    for region in (HOME, OTHER):
        holder = Holder(region)
        rights = granted_rights(holder, 10, at=START - timedelta(hours=1))
        entry = spend_item(
            4, GrantName(holder, 2), at=START - timedelta(hours=1), hold=1, counter="key/42"
        )
        recorder.table.set(key_of("key/42", holder), rights_item(rights, "key/42"))
        recorder.table.set(("key/42", entry["sk"]["S"]), entry)
        hold = spend_of(entry)
        assert hold is not None
        assert await resolve_expired(regions, ("key/42", hold.id), hold)


async def keep_records(recorder: Recorder) -> None:
    """Put the record of a reversal that came without it."""
    suffix = once.suffix_of(once.reversal_key("c", str(EntryId(7, 7))))
    reversal = Entry("c", str(EntryId(8, suffix)), Decimal(-1), reverses=str(EntryId(7, 7)))
    recorder.table.set(("c", reversal.id), entry_item(reversal))
    await put_records(recorder.store(HOME), "c", [reversal.id])
    assert recorder.table.get(once.reversal_key("c", str(EntryId(7, 7)))) is not None


async def test_the_compactor_has_just_enough() -> None:
    """Every call of merging is allowed, at home and elsewhere, and nothing beyond them is."""
    recorder = Recorder()
    await write_all(recorder.store(HOME))
    recorder.calls.clear()
    await recorder.read_contract(HOME)
    stores = {region: recorder.store(region) for region in (HOME, OTHER)}
    settings = INDEXED.replace(watches={"busy": {"counters": "counter-*", "above": 0}})
    contract = contract_item(Contract(terms=settings.terms))
    recorder.table.set(contract_key(generation=1), contract)
    compactor, deleted = Compactor(settings, stores=stores), 0

    async def has_deleted_all() -> bool:
        nonlocal deleted
        deleted += (await compactor.run_once()).deleted
        return deleted == 63

    await until(has_deleted_all)
    again = make_writer(Recorder(table=recorder.table).store(HOME))
    await again.record_many([Change(f"counter-{number}", 1) for number in range(1, 20)])

    async def has_merged_more() -> bool:
        return (await Compactor(settings, stores=stores).run_once()).merged > 1

    await until(has_merged_more)
    await share(recorder)
    await follow_former_generations(stores[HOME])
    await keep_budgets(recorder)
    await keep_records(recorder)
    assert_just_enough(Role.COMPACTOR, recorder.calls, [HOME, OTHER])


@pytest.mark.parametrize(
    "partition",
    [
        *("~contract", "~lease", "~import", "~scan"),
        *(*METHODS_OWN, *PIPELINE_OWN, *WATCHES_OWN, *INDEX_OWN),
    ],
)
@pytest.mark.parametrize("action", ["PutItem", "BatchWriteItem", "PartiQLInsert"])
def test_a_writer_cannot_touch_what_is_reserved(action: str, partition: str) -> None:
    """Neither alone nor beside an entry can a writer write a lease, a marker, a cursor, a state."""
    document = policy(SETTINGS, Role.WRITER)
    assert Call(action, OTHER, ("customer1-balance",)).is_allowed(document)
    assert Call(action, OTHER, ("~3~customer1-balance",)).is_allowed(document)
    assert not Call(action, OTHER, (partition,)).is_allowed(document)
    assert not Call(action, OTHER, ("customer1-balance", partition)).is_allowed(document)


async def test_the_operator_has_just_enough() -> None:
    """The contract is changed through home, leases are listed there; it is seen anywhere."""
    recorder = Recorder()
    stores = {region: recorder.store(region) for region in (HOME, OTHER)}
    operator = ContractWriter(stores, clock=ManualClock(instant=True))
    await operator.establish(SETTINGS.terms)
    await operator.change(lambda contract: replace(contract.terms, settle=60.0))
    await operator.withdraw(await operator.newest())
    await check_removed(stores.values(), SETTINGS.table, ["eu-north-1"])
    assert [lease async for lease in list_leases(stores[HOME])] == []
    assert_just_enough(Role.OPERATOR, recorder.calls, [HOME, OTHER])


def test_no_other_role_writes_the_contract() -> None:
    """But the administrator, who fills replicas: no role of a running process can."""
    writers = {
        role
        for role in Role
        for action in ("PutItem", "BatchWriteItem", "UpdateItem", "DeleteItem")
        if Call(action, HOME, ("~contract",)).is_allowed(policy(SETTINGS, role))
    }
    assert writers == {Role.OPERATOR, Role.ADMINISTRATOR}
    # Those are beside others.
    beside = {Role.RECOVERY, Role.FOLLOWER, Role.NOTIFIER, Role.SERVICE, Role.SPENDER}
    beside |= {Role.CORRECTOR}
    for role in set(Role) - beside:
        assert Call("Query", HOME, ("~contract",)).is_allowed(policy(SETTINGS, role)), role


async def test_users_of_the_other_methods_have_just_enough() -> None:
    """Every call of counters, sequences, guards and leases is allowed, and nothing beyond them."""
    recorder = Recorder()
    await recorder.read_contract(HOME)
    await use_all_methods(recorder.store(HOME))
    calls = [call for call in recorder.calls if not is_entry_or_hint(call)]
    assert_just_enough(Role.METHODS, calls, [HOME])
    assert granted(Role.METHODS, OTHER) == set()


async def test_markers_in_a_table_of_their_own_need_that_table_alone_beside() -> None:
    """The policy names the other table too, for two actions on the keys of counts, at home."""
    recorder, settings = Recorder(), SETTINGS.replace(marker_table="money-markers")
    await recorder.read_contract(HOME)
    await use_all_methods(recorder.store(HOME))
    counter = MarkerCounter(
        cast("Store", recorder.store(HOME)),
        "stock",
        services=Services.of(),
        marker_table="money-markers",
    )
    await counter.add(1, token="t")
    await counter.lookup("t")
    calls = [call for call in recorder.calls if not is_entry_or_hint(call)]
    assert_just_enough(Role.METHODS, calls, [HOME], settings)
    assert [call for call in calls if not call.is_allowed(policy(SETTINGS, Role.METHODS))]
    for role in set(Role) - {Role.METHODS, Role.ADMINISTRATOR}:
        assert "money-markers" not in str(policy(settings, role))
    for statement in policy(settings, Role.ADMINISTRATOR)["Statement"][:2]:
        assert len(statement["Resource"]) == 4  # two tables in two regions


async def test_no_item_of_the_ledger_expires_but_markers_and_counts_of_failures() -> None:
    """The attribute of the time to live is on these, and on nothing else that any part writes."""
    recorder = Recorder()
    await write_all(recorder.store(HOME))
    await use_all_methods(recorder.store(HOME))
    await Compactor(SETTINGS, stores={HOME: recorder.store(HOME)}).run_once()
    expiring = {
        partition
        for partition, items in recorder.table.partitions.items()
        if any("~expires" in item for item in items.values())
    }
    assert len(recorder.table.partitions) > 60
    allowed = ("~count-marker~", "~sequence~~number~", "~version~~failures~")
    assert {one for one in allowed if any(name.startswith(one) for name in expiring)} == {*allowed}
    assert all(partition.startswith(allowed) for partition in expiring)


@pytest.mark.parametrize(
    "partition", ["~contract", "~lease", "~import", "~scan", "customer1-balance"]
)
def test_users_of_the_other_methods_touch_nothing_else(partition: str) -> None:
    """Neither the compactor's lease nor an entry can be written, alone or beside their own."""
    document = policy(SETTINGS, Role.METHODS)
    for own in METHODS_OWN:
        assert Call("PutItem", HOME, (own,)).is_allowed(document)
        assert not Call("PutItem", HOME, (own, partition)).is_allowed(document)
        assert not Call("PutItem", OTHER, (own,)).is_allowed(document)
    assert not Call("PutItem", HOME, (partition,)).is_allowed(document)


async def test_the_pipeline_has_just_enough() -> None:
    """Every call of a lane in either region is allowed, and nothing beyond them is."""
    recorder = Recorder()
    await recorder.read_contract(HOME, OTHER)
    stores = {region: recorder.store(region, forgetful=True) for region in (HOME, OTHER)}
    for totals in ("sums", "entries"):
        for region in stores:
            await run_the_pipeline(stores, region, SETTINGS, other=OTHER, totals=totals)
    assert_just_enough(Role.PIPELINE, recorder.calls, [HOME, OTHER])


@pytest.mark.parametrize(
    "partition", ["~contract", "~lease", "~import", "~scan", *METHODS_OWN, *WATCHES_OWN]
)
def test_the_pipeline_touches_nothing_of_others(partition: str) -> None:
    """Neither a lease, a marker, a cursor nor what other methods keep can be written by it."""
    document = policy(SETTINGS, Role.PIPELINE)
    assert Call("PutItem", OTHER, ("risk/Delta",)).is_allowed(document)
    assert not Call("PutItem", OTHER, (partition,)).is_allowed(document)
    assert not Call("DeleteItem", OTHER, ("risk/Delta",)).is_allowed(document)


def test_a_request_that_names_no_key_passes_no_condition_on_keys() -> None:
    """`ForAllValues` is true of no keys at all; `Null` closes that gap."""
    document = policy(SETTINGS, Role.WRITER)
    assert not Call("PutItem", HOME).is_allowed(document)


def test_the_compactor_writes_no_more_than_budgets_elsewhere() -> None:
    """Outside the home region it reads, keeps rights and resolves holds, and puts no entry."""
    reads, writes = {"BatchGetItem", "GetItem", "Query"}, {"PutItem", "UpdateItem"}
    assert granted(Role.COMPACTOR, OTHER) == reads | writes
    document = policy(SETTINGS, Role.COMPACTOR)
    assert not Call("PutItem", OTHER, ("key/42",)).is_allowed(document)
    note = Call("UpdateItem", OTHER, ("key/42",), attributes=("pk", "sk", "note"))
    assert not note.is_allowed(document)


async def test_the_spender_has_just_enough() -> None:
    """Spends, holds and limits, in any region, through home and those that have the rights."""
    recorder = Recorder()
    settings = SETTINGS.replace(
        budgets={"key/*": {}}, write_deadline=5.0, retry_horizon=6.0, settle=30.0
    )
    stores: dict[str, Store] = {region: recorder.store(region) for region in (HOME, OTHER)}
    for region in (HOME, OTHER):
        others = {name: store for name, store in stores.items() if name != region}
        table = Table(
            settings,
            region=region,
            given=GivenConnections(store=stores[region], others=others),
        )
        async with table:
            budget = table.budget("key/42")
            if region == HOME:
                await budget.create(1_000)
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(budget.spend, 1)
            hold = await budget.hold(5, expires=60)
            assert isinstance(hold, Hold)
            await hold.settle(3)
            await budget.raise_limit(5, id=region)
    as_writer = {"~contract", *HINT_PARTITIONS}
    calls = [call for call in recorder.calls if not as_writer & {*call.partitions}]
    assert_just_enough(Role.SPENDER, calls, [HOME, OTHER])
    assert [call for call in calls if not call.is_allowed(policy(SETTINGS, Role.WRITER))]


@pytest.mark.parametrize("attribute", SPENDING_ATTRIBUTES)
@pytest.mark.parametrize("action", ["PutItem", "BatchWriteItem", "PartiQLInsert", "UpdateItem"])
def test_a_writer_names_no_grant(action: str, attribute: str) -> None:
    """What an entry says of the grant that paid for it, and of a hold, is a spender's alone.

    But that of a reversal, by which rights are given back: the corrector's.
    """
    call = Call(action, HOME, ("key/42",), attributes=("pk", "sk", "change", attribute))
    for role in set(Role) - {Role.SPENDER}:
        is_trusted = role in {Role.COMPACTOR, Role.RECOVERY, Role.ARCHIVIST, Role.ADMINISTRATOR}
        is_apart = role in {Role.IMPORTER, Role.PIPELINE, Role.AUDIT}
        gives_back = role is Role.CORRECTOR and (action, attribute) == ("PutItem", GRANT)
        if not (is_trusted or is_apart or gives_back):
            assert not call.is_allowed(policy(SETTINGS, role)), role
    rights = Call(action, HOME, ("~budget~key/42",))
    assert not rights.is_allowed(policy(SETTINGS, Role.WRITER))


def test_a_policy_for_one_region_names_no_other() -> None:
    """A writer that runs in one region gets its replica only."""
    document = policy(SETTINGS, Role.WRITER, region=OTHER)
    resources = {each for statement in document["Statement"] for each in statement["Resource"]}
    assert resources == {"arn:aws:dynamodb:eu-west-1:111122223333:table/money"}


def test_the_administrator_may_call_what_making_the_table_calls() -> None:
    """The administrator holds each call of `ledger table create`, but not deletion."""
    tree = ast.parse(inspect.getsource(table))
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    called = {name for name in operations("dynamodb") if snake(name) in named}
    assert {"CreateTable", "DescribeTable", "UpdateContinuousBackups"} <= called
    document = policy(SETTINGS, Role.ADMINISTRATOR)
    [making] = [each for each in document["Statement"] if each["Sid"] == "MakeTheTable"]
    held = {action.removeprefix("dynamodb:") for action in making["Action"]}
    assert held == (called - {"DeleteTable"}) | ADDED_FOR_REPLICAS


@pytest.mark.parametrize("role", list(Role))
def test_every_action_is_one_of_dynamodb(role: Role) -> None:
    """No policy names an action that does not exist."""
    known = {*operations("dynamodb"), *operations("dynamodbstreams")}
    known |= {*ADDED_FOR_REPLICAS, *STATEMENTS.values(), "ConditionCheckItem"}
    assert granted(role, HOME) <= known


def operations(service: str) -> set[str]:
    """Give the names of a service's operations."""
    model = botocore.session.get_session().get_service_model(service)
    return set(model.operation_names)


def snake(operation: str) -> str:
    """Give an operation as boto3 names its method."""
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in operation)[1:]
