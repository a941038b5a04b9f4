"""A running local global table: all its parts in one event loop, in a separate thread.

The thread keeps the table's work apart from the caller's loop, so that a busy caller does not
hold up replication, and plain synchronous clients can be used beside it.
"""

import asyncio
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ledger.core.contract import Terms
from ledger.core.contract_item import (
    Contract,
    contract_item,
    contract_key,
    contract_of,
    terms_of_values,
)
from ledger.core.errors import LocalTableError
from ledger.local.engines.port import ApiError, Engine, Image
from ledger.local.expiry import Expiry
from ledger.local.front.catalog import Catalog
from ledger.local.front.control_plane import ControlPlane
from ledger.local.front.dispatch import Front
from ledger.local.front.endpoints import Listeners, control_handler, region_handler
from ledger.local.front.faults import Fault, FaultRule, Faults
from ledger.local.front.streams import Streams
from ledger.local.options import REPLICATION_WAIT_SECONDS_MAX, LocalOptions, check_delay
from ledger.local.replication.journal import Journal
from ledger.local.replication.links import Link, LinkHold, described
from ledger.local.replication.regions import Regions
from ledger.local.replication.replicator import LinkDelays, Replicator
from ledger.local.status import regions_status, replication_status
from ledger.local.supervisor import Supervisor

START_SECONDS_MAX = 30.0
RESTORE_SECONDS_MAX = 600.0
"""A start that takes over what an earlier one kept."""
STOP_SECONDS_MAX = 15.0
CLOCK_SECONDS_MAX = 86_400
"""The maximum offset of a region's clock from this machine's, either way."""

_Result = TypeVar("_Result")


class LocalServer:
    """A running local global table; every method may be called from any thread."""

    def __init__(self, options: LocalOptions) -> None:
        options.check()
        self.options = options
        self.endpoints: dict[str, str] = {}
        self.control_url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="local-global-table", daemon=True)
        self._parts: dict[str, asyncio.Future[None]] = {}
        self._listeners = Listeners()
        self._tables = Catalog(options.regions)
        self._engine = _engine(options.engine)
        self._faults = Faults(seed=options.seed, hook=options.fault)
        self._clocks: dict[str, float] = {}
        self._regions = Regions(options.regions)
        self._journal = Journal()
        self._replicator: Replicator
        self._front: Front
        self._expiry: Expiry

    def start(self) -> None:
        """Open the ports.

        Raises:
            LocalTableError: a port is taken, or the engine does not run here.
        """
        self._thread.start()
        try:
            longest = START_SECONDS_MAX if self.options.data is None else RESTORE_SECONDS_MAX
            self.run(self._open(), timeout_seconds=longest)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Close everything, and wait until all is closed; harmless if repeated."""
        if not self._thread.is_alive():
            return
        try:
            self.run(self._close(), timeout_seconds=STOP_SECONDS_MAX)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_SECONDS_MAX)

    def run(
        self, work: Coroutine[Any, Any, _Result], *, timeout_seconds: float | None = None
    ) -> _Result:
        """Run a coroutine in the server's loop and wait for it, blocking this thread.

        Raises:
            LocalTableError: the table is not running, or did not answer in time.
        """
        if not self._thread.is_alive():
            work.close()
            raise LocalTableError("the local global table is not running")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_seconds)
        except TimeoutError:
            future.cancel()
            raise LocalTableError(
                f"the local global table did not answer within {timeout_seconds} s"
            ) from None

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _open(self) -> None:
        options = self.options
        if options.data is not None:
            self._journal = Journal.open(Path(options.data))
        await self._engine.start(options.regions)
        streams = Streams(self._tables)
        self._replicator = Replicator(
            options.regions,
            self._engine,
            tables=self._tables,
            delays=LinkDelays.seeded(options.lag, options.jitter, options.seed),
            journal=self._journal,
            recorder=streams,
        )
        parts = self._tables, self._engine, self._replicator
        control_plane = ControlPlane(
            *parts, self._regions, streams, replica_seconds=options.replica_seconds
        )
        self._front = Front(*parts, control_plane, self._faults, self._regions, streams)
        supervisor = Supervisor(self._regions, *parts, changing=control_plane.changing)
        await control_plane.restore()
        self._front.restore()
        self._expiry = Expiry(self._regions, *parts, clock=self._time_of_day)
        ports = options.ports or [0] * len(options.regions)
        for region, port in zip(options.regions, ports, strict=True):
            self.endpoints[region] = await self._listeners.listen(
                port, region_handler(self._front, region, self._clocks)
            )
        self.control_url = await self._listeners.listen(
            options.control_port, control_handler(self.control)
        )
        self._parts = {
            "replication": asyncio.ensure_future(self._replicator.run()),
            "supervision": asyncio.ensure_future(supervisor.run()),
            "expiry": asyncio.ensure_future(self._expiry.run()),
        }

    def _time_of_day(self, region: str) -> float:
        return time.time() + self._clocks.get(region, 0.0)

    async def _close(self) -> None:
        await self._listeners.close()
        for part in self._parts.values():
            part.cancel()
        await asyncio.gather(*self._parts.values(), return_exceptions=True)
        await self._engine.close()
        self._journal.close()

    async def control(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a control request of `LocalGlobalTable`. Runs in the loop.

        Raises:
            LocalTableError: the request is not known, breaks a rule, or a region is unavailable.
        """
        try:
            if name != "status":
                await self._control(name, body)
        except ApiError as error:
            raise LocalTableError(error.message) from None
        return self._status()

    async def _control(self, name: str, body: Mapping[str, Any]) -> None:
        match name:
            case "pause" | "heal":
                await self._hold_links(body, held=name == "pause")
            case "lag":
                delays = self._replicator.delays
                lag, jitter = body.get("lag", delays.lag), body.get("jitter", delays.jitter)
                check_delay(lag, jitter)
                delays.lag, delays.jitter = lag, jitter
            case "wait_replicated":
                await self._wait_replicated(
                    body.get("timeout_seconds", REPLICATION_WAIT_SECONDS_MAX)
                )
            case "contract":
                await self._hold(terms_of_values(body["terms"]))
            case "clock":
                self._set_clock(body.get("region"), body.get("seconds"))
            case "outage":
                await self._set_outage(self._region(body.get("region")), body.get("on"))
            case "lose":
                await self._lose(self._region(body.get("region")), body.get("dropped_after"))
            case "reset":
                await self._reset()
            case "fault":
                self._faults.rules = [self._rule(rule) for rule in body.get("rules", ())]
            case _:
                raise LocalTableError(f"the control port offers no {name!r}")

    async def _hold(self, terms: Terms) -> None:
        """Let every replica show a contract of these terms, unless that is what they show."""
        table, regions = self.options.table, self.options.regions
        holding = [name for name in regions if table in self._tables.names(name)]
        if not holding:
            return
        shown = await self._contract(holding[0])
        if shown is not None and shown.terms == terms and shown.coming is None:
            return
        # The next even revision: in force, and later than a change that may be pending.
        revision = 0 if shown is None else shown.revision + 2 - shown.revision % 2
        contract = Contract(terms=terms, revision=revision)
        await self._replicator.place(table, contract_item(contract), holding)

    async def _contract(self, region: str) -> Contract | None:
        item = await self._contract_item(region)
        return None if item is None else contract_of(item)

    async def _contract_item(self, region: str) -> Image | None:
        partition, sort_key = contract_key(generation=1)
        key = {"pk": {"S": partition}, "sk": {"S": sort_key}}
        request = {"TableName": self.options.table, "Key": key, "ConsistentRead": True}
        return (await self._engine.call(region, "GetItem", request)).body.get("Item")

    async def _reset(self) -> None:
        table, regions = self.options.table, self.options.regions
        holding = [name for name in regions if table in self._tables.names(name)]
        contract = await self._contract_item(holding[0]) if holding else None
        await self._front.reset()
        self._regions.restarts.clear()
        if contract is not None:
            await self._replicator.place(table, contract, holding)

    async def _set_outage(self, region: str, on: object) -> None:
        if not isinstance(on, bool):
            raise LocalTableError(f"on must be true or false, got {on!r}")
        if region in self._regions.lost:
            raise LocalTableError(f"{region} is lost for good: it has no outage that could end")
        links = self._links_of(region)
        if on:
            self._regions.outages.add(region)
            for link in links:
                await link.hold(LinkHold.OUTAGE)
            return
        self._regions.outages.discard(region)
        for link in links:
            if not self._regions.outages & {link.source, link.target}:
                link.release(LinkHold.OUTAGE)

    async def _lose(self, region: str, dropped_after: object) -> None:
        seconds = dropped_after
        if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
            raise LocalTableError(f"dropped_after must be 0 seconds or more, got {seconds!r}")
        if not {*self.options.regions} - {*self._regions.lost, region}:
            raise LocalTableError(f"{region} is the last region that is not lost")
        self._regions.lose_for_good(region, dropped_after=seconds, now=time.time())
        for link in self._links_of(region):
            await link.end()

    def _links_of(self, region: str) -> list[Link]:
        return [link for link in self._replicator.links if region in (link.source, link.target)]

    async def _hold_links(self, body: Mapping[str, Any], *, held: bool) -> None:
        for link in self._links(body):
            if held:
                await link.hold(LinkHold.PAUSED)
            else:
                link.release(LinkHold.PAUSED)

    def _set_clock(self, region: object, seconds: object) -> None:
        name = self._region(region)
        if not isinstance(seconds, int | float) or not abs(seconds) <= CLOCK_SECONDS_MAX:
            raise LocalTableError(
                f"seconds must be between -{CLOCK_SECONDS_MAX:,} and {CLOCK_SECONDS_MAX:,},"
                f" got {seconds!r}"
            )
        self._clocks[name] = float(seconds)

    def _region(self, name: object) -> str:
        if name not in self.options.regions:
            names = ", ".join(self.options.regions)
            raise LocalTableError(f"region must be one of {names}, got {name!r}")
        return str(name)

    def _links(self, body: Mapping[str, Any]) -> list[Link]:
        """Return the link that a request names, or all links if it names none."""
        source, target = body.get("source"), body.get("target")
        if source is None and target is None:
            return list(self._replicator.links)
        pair = self._region(source), self._region(target)
        if source == target:
            raise LocalTableError(f"{source} does not replicate to itself: name two regions")
        return [self._replicator.link(*pair)]

    def _rule(self, content: Mapping[str, Any]) -> FaultRule:
        """Return the fault rule that a request describes."""
        probability = content.get("probability", 1.0)
        if not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
            raise LocalTableError(f"probability must be between 0 and 1, got {probability!r}")
        try:
            kind = Fault(content.get("kind", ""))
        except ValueError:
            raise LocalTableError(
                f"fault must be one of {', '.join(Fault)}, got {content.get('kind')!r}"
            ) from None
        operations = _named("operation", content.get("operations", ()), self._front.operations)
        regions = _named("region", content.get("regions", ()), self.options.regions)
        return FaultRule(kind, probability, operations, regions)

    async def _wait_replicated(self, timeout_seconds: float) -> None:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._replicator.wait_replicated()
        except TimeoutError:
            held = ", ".join(
                f"{link.source} -> {link.target} ({_why(link)})"
                for link in self._replicator.links
                if not link.idle
            )
            raise LocalTableError(
                f"not replicated within {timeout_seconds:g} s: items wait on {held}"
            ) from None

    def _status(self) -> dict[str, Any]:
        return {
            "regions": list(self.options.regions),
            "engine": self.options.engine,
            "table": self.options.table,
            "endpoints": self.endpoints,
            "control_url": self.control_url,
            "data": None if self.options.data is None else str(self.options.data),
            "seed": self.options.seed,
            "clocks": dict(self._clocks),
            **replication_status(self._replicator),
            **regions_status(self._regions),
            "expired": self._expiry.deleted,
            "stopped": self._stopped(),
            "fault_rules": [rule.describe() for rule in self._faults.rules],
            "faults": self._faults.injected.total(),
            "faults_by_kind": dict(self._faults.injected),
        }

    def _stopped(self) -> dict[str, str]:
        """Return which parts have ended, each with the error that ended it."""
        return {
            name: described(part.exception() or RuntimeError("it has ended"))
            for name, part in self._parts.items()
            if part.done() and not part.cancelled()
        }


def _why(link: Link) -> str:
    if link.holds:
        return ", ".join(sorted(link.holds))
    error = next((failure.error for failure in link.failures), None)
    return f"{len(link.failures)} fail: {error}" if error else "on their way"


def _engine(name: str) -> Engine:
    # Imported when chosen: each does without what the other needs.
    if name == "memory":
        from ledger.local.engines.memory.engine import MemoryEngine  # noqa: PLC0415

        return MemoryEngine()
    from ledger.local.engines.dynoxide import DynoxideEngine  # noqa: PLC0415

    return DynoxideEngine()


def _named(what: str, names: object, known: Sequence[str]) -> frozenset[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise LocalTableError(f"{what}s of a fault must be a list of names, got {names!r}")
    for name in names:
        if name not in known:
            raise LocalTableError(f"{what} must be one of {', '.join(known)}, got {name!r}")
    return frozenset(names)
