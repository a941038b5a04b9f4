"""The handle of a local global table: start it, disturb its replication, wait for it."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import TypeAdapter, ValidationError

from ledger.administration.table import Patience, create_table
from ledger.core.contract import CONTRACT_LIFE
from ledger.core.contract_item import terms_to_values
from ledger.core.errors import LocalTableError, SettingsError
from ledger.local.front.faults import Fault, FaultHook, FaultRule
from ledger.local.options import REPLICATION_WAIT_SECONDS_MAX, LocalOptions
from ledger.local.process import Control, control_by_http, start_child, stop_child
from ledger.runtime.supervisor import ForkOwner
from ledger.settings import Settings
from ledger.settings.fields import LIVES_OF_A_HOLD
from ledger.settings.groups import Seconds

if TYPE_CHECKING:
    from ledger.local.server import LocalServer

CREATE_POLL_SECONDS = 0.05
SHORTEST_SECONDS = 1e-6
CONTRACT_LIFE_SETTLES = 5.0
"""With short durations a change of the contract should not take minutes either."""
_NO_ROOM = "a retry that arrives after its entry was merged would be counted twice"
_SECONDS: TypeAdapter[float] = TypeAdapter(Seconds)


class LocalGlobalTable:
    """DynamoDB endpoints for several regions on 127.0.0.1, with replication as AWS documents it.

    Each item replicates on its own, asynchronously, in any order; the last writer wins; conditions
    and transactions see the local replica only. `start` runs it in a thread of this process,
    `spawn` in a child process, `connect` finds one that runs already: all return this same object.
    Another task than the one that entered such a block may leave it. A fork has no part in the
    thread of `start`: it uses the endpoints, or `connect(world.control_url)`.
    """

    def __init__(self, control: Control, status: Mapping[str, Any]) -> None:
        self._control = control
        self.regions: tuple[str, ...] = tuple(status["regions"])
        self.endpoints: dict[str, str] = dict(status["endpoints"])
        self.control_url: str = status["control_url"]
        self.table: str = status["table"]

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        *,
        regions: Sequence[str],
        lag: float = 0.05,
        jitter: float = 0.2,
        seed: int = 7,
        engine: str = "memory",
        table: str = "ledger",
        ports: Sequence[int] | None = None,
        control_port: int = 0,
        create: bool = True,
        replica_seconds: float = 0.2,
        data: str | Path | None = None,
        fault: FaultHook | None = None,
    ) -> AsyncIterator["LocalGlobalTable"]:
        """Run a local global table in a thread of this process.

        An item arrives in another region `lag` plus up to `jitter` seconds after its write, drawn
        from `seed`. `create` makes the table, with a replica in every region; each takes
        `replica_seconds` to become active. `fault` chooses what goes wrong with each request. The
        folder `data` keeps tables, items and what is on its way for a later start; without it
        nothing is kept.

        Raises:
            LocalTableError: an option is wrong, a port is taken, or the engine is not there.
        """
        options = LocalOptions(
            regions=tuple(regions),
            lag=lag,
            jitter=jitter,
            seed=seed,
            engine=engine,
            table=table,
            ports=tuple(ports or ()),
            control_port=control_port,
            replica_seconds=replica_seconds,
            data=data,
            fault=fault,
        )
        server = await anyio.to_thread.run_sync(_server, options)
        try:
            await anyio.to_thread.run_sync(server.start)
            world = cls(_control_in_process(server), server.run(server.control("status", {})))
            if create:
                await world._create()
            yield world
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(server.stop)

    @classmethod
    @asynccontextmanager
    async def spawn(
        cls, *, regions: Sequence[str], **options: Any
    ) -> AsyncIterator["LocalGlobalTable"]:
        """Run a local global table in a child process; options as for `start`, but no `fault`.

        The child ends with the block, and with this process, however it ends.

        Raises:
            LocalTableError: it did not start.
        """
        if options.get("fault") is not None:
            raise LocalTableError(
                "a fault function cannot be passed to a child process: use `faults`"
            )
        if options.get("data") is not None:
            options["data"] = str(options["data"])
        wanted = {"regions": list(regions), **options}
        process, status = await anyio.to_thread.run_sync(start_child, wanted)
        try:
            yield cls(control_by_http(status["control_url"]), status)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(stop_child, process)

    @classmethod
    def connect(cls, control_url: str) -> "LocalGlobalTable":
        """Return a local global table that runs already.

        Raises:
            LocalTableError: none answers there.
        """
        control = control_by_http(control_url)
        status = control("status", {})
        try:
            return cls(control, status)
        except (KeyError, TypeError, ValueError):
            raise LocalTableError(
                f"{control_url} answers, but not as the control of a local global table:"
                " give the control URL that `ledger local up` printed"
            ) from None

    def settings(self, **overrides: Any) -> Settings:
        """Return settings for this table, its first region home; `overrides` are any fields.

        Durations that are not given follow the given ones as far as the rules between them ask.
        What a table's contract holds is written into this table's, in all regions at once: a
        table in the cloud would take 21 minutes for it (`ledger table set`).

        Raises:
            SettingsError: an override breaks a rule, or `settle` leaves no room for others.
        """
        given: dict[str, Any] = {
            "table": self.table,
            "home": self.regions[0],
            "regions": {
                region: {"endpoint": endpoint} for region, endpoint in self.endpoints.items()
            },
            "compactor": {},
            **overrides,
        }
        if isinstance(given["compactor"], Mapping):
            # A table this small is searched in each pass, so nothing has to wait for a hint.
            given["compactor"] = {"scan_every": 0, **given["compactor"]}
        settings = Settings(**{**_fitting_durations(overrides), **given})
        self._control("contract", {"terms": terms_to_values(settings.terms)})
        return settings

    def pause(self, source: str, target: str) -> None:
        """Hold replication from `source` to `target`; nothing arrives once this returns.

        Raises:
            LocalTableError: no such pair of regions.
        """
        self._control("pause", {"source": source, "target": target})

    def heal(self, source: str, target: str) -> None:
        """Resume replication from `source` to `target`, with all that was held.

        Raises:
            LocalTableError: no such pair of regions.
        """
        self._control("heal", {"source": source, "target": target})

    def heal_all(self) -> None:
        """Resume replication between all regions."""
        self._control("heal", {})

    def set_lag(self, lag: float, jitter: float | None = None) -> None:
        """Change the delay of everything written from now on; `jitter` stays if not given.

        Raises:
            LocalTableError: a value is out of range.
        """
        body = {"lag": lag} if jitter is None else {"lag": lag, "jitter": jitter}
        self._control("lag", body)

    def set_clock(self, region: str, seconds: float) -> None:
        """Let a region's clock be this many seconds ahead of this machine's, below 0 behind.

        Its answers' `Date` shows it; the times of signatures are not checked.

        Raises:
            LocalTableError: no such region, or more than a day.
        """
        self._control("clock", {"region": region, "seconds": seconds})

    def set_outage(self, region: str, *, on: bool) -> None:
        """Cut a region off, or end that: it answers 503, nothing replicates to or from it.

        What was on its way waits, and goes on when the outage ends.

        Raises:
            LocalTableError: no such region.
        """
        self._control("outage", {"region": region, "on": on})

    def lose(self, region: str, *, dropped_after: float | None = None) -> None:
        """Let a region answer nothing any more, for good; what was on its way is lost.

        Its replica stays listed, and cannot be removed, since a removal is carried out in its
        region. With `dropped_after` the region is disabled for the account, too: others describe
        it so, and drop its replica by themselves so many seconds later; DynamoDB takes 20 hours.

        Raises:
            LocalTableError: no such region, or the last one; the seconds are below 0.
        """
        self._control("lose", {"region": region, "dropped_after": dropped_after})

    def reset(self) -> None:
        """Delete all items in all regions, and all that are on their way.

        Tables stay, as does the contract of this one; so do lag, pauses, outages, clocks, faults.

        Raises:
            LocalTableError: a region is unavailable.
        """
        self._control("reset", {})

    def faults(
        self,
        kind: Fault | None,
        *,
        probability: float = 1.0,
        operations: Iterable[str] = (),
        regions: Iterable[str] = (),
    ) -> None:
        """Inject a fault into this share of requests from now on; None ends all faults.

        Raises:
            LocalTableError: the probability is out of range, or an operation or region unknown.
        """
        if kind is None:
            self.set_faults(())
        else:
            for name, given in (("operations", operations), ("regions", regions)):
                if isinstance(given, str):
                    raise LocalTableError(f"{name} must be a list of names, got {given!r}")
            covered = frozenset(operations), frozenset(regions)
            self.set_faults([FaultRule(kind, probability, *covered)])

    def set_faults(self, rules: Iterable[FaultRule]) -> None:
        """Inject these faults from now on, and no others; the first rule to hit counts.

        Raises:
            LocalTableError: a probability is out of range, or an operation or region is unknown.
        """
        self._control("fault", {"rules": [rule.describe() for rule in rules]})

    async def wait_replicated(self, timeout: float = 60.0) -> None:  # noqa: ASYNC109 (no cancelling)
        """Wait until every replicated change has been applied, or dropped for a later one.

        Raises:
            LocalTableError: `timeout` seconds have passed, or a paused pair holds items that long.
        """
        seconds = min(timeout, REPLICATION_WAIT_SECONDS_MAX)
        await anyio.to_thread.run_sync(
            self._control, "wait_replicated", {"timeout_seconds": seconds}
        )

    def status(self) -> dict[str, Any]:
        """Return endpoints, delays, the state of regions and links, and counts so far.

        `failures` are items that cannot be delivered, `unavailable` regions whose tables are
        gone, `restarts` what came back and what was lost.
        """
        return self._control("status", {})

    async def _create(self) -> None:
        patience = Patience(poll_seconds=CREATE_POLL_SECONDS)
        make = partial(create_table, self.settings(), patience=patience)
        await anyio.to_thread.run_sync(make)
        await anyio.to_thread.run_sync(self.settings)


def _server(options: LocalOptions) -> "LocalServer":
    from ledger.local.server import LocalServer  # noqa: PLC0415 (heavy: users of real regions do without)

    return LocalServer(options)


def _control_in_process(server: "LocalServer") -> Control:
    owner = ForkOwner()

    def control(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        owner.check()
        return server.run(server.control(name, body))

    return control


def _fitting_durations(given: Mapping[str, Any]) -> dict[str, float]:
    """Return the skew and the lifetime of signatures that leave room for the given durations.

    All regions of a local table share one clock and check no signature, so both may be short; the
    other durations follow from `settle` and `observation_delay` as in any settings.
    """

    def seconds(name: str, otherwise: float) -> float:
        try:
            return _SECONDS.validate_python(given[name]) if name in given else otherwise
        except ValidationError:  # `Settings` reports what is wrong with it
            return otherwise

    def default(name: str) -> float:
        return float(Settings.model_fields[name].default)

    if "settle" not in given:
        return {}  # it follows from the others
    settle = seconds("settle", 0.0)
    horizon = seconds("retry_horizon", settle / 2)
    room = settle - horizon
    if room <= 0:
        least = f"retry_horizon ({horizon:g} s)" if "retry_horizon" in given else "0 s"
        raise SettingsError(f"settle ({settle:g} s) must exceed {least}: {_NO_ROOM}")
    held = LIVES_OF_A_HOLD * seconds("observation_delay", default("observation_delay"))
    life = max(min(CONTRACT_LIFE, CONTRACT_LIFE_SETTLES * settle), held)
    fitted = {"contract_life": life, "clock_skew": min(default("clock_skew"), room / 100)}
    fitted["signature_lifetime"] = min(default("signature_lifetime"), 0.95 * room * 0.99)
    return {
        name: max(value, SHORTEST_SECONDS) for name, value in fitted.items() if name not in given
    }
