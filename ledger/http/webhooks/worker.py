"""The worker that delivers webhooks: one process at a time, in the home region, under a lease.

Of each webhook, in turns::

    position ── page of the feed after its cursor ──> changes: each entry is sent, or a dead letter
                                                 └──> crossings: decided once, kept as `due`
             ── what is due is sent, or a dead letter ── position moved, if it is still that one

The position moves once all of a page is sent or kept, by a write on condition of the one that was
read. So nothing is lost: a worker that dies repeats at most a page, under the same ids; one whose
lease was over cannot move the position. A crossing is decided by the state machine of watches
(`ledger.watches`), so once, by any worker, and is kept before it counts as delivered there.
"""

import logging
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import httpx

from ledger.core.errors import FeedBehind, LeaseLost, LedgerError, StoreError
from ledger.core.values import Entry
from ledger.core.watches import Crossing, Phase, Watch
from ledger.http.webhooks.events import TRIES_MAX, Ended, HookEvent, of_crossing, of_entry
from ledger.http.webhooks.hooks import Hook
from ledger.http.webhooks.metrics import WebhookMetrics
from ledger.http.webhooks.progress_items import DUE, HookPosition, ProgressItems, new_stamp
from ledger.http.webhooks.sender import TRY_SECONDS_MAX, EventSender, Sent
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import LeaseGrant
from ledger.reads.feed.page import FeedPage
from ledger.runtime.services import Services
from ledger.runtime.tasks import background_tasks, run_all
from ledger.session.ledger import Ledger, live_settings, store_here
from ledger.watches.crossings import CrossingDecider
from ledger.watches.watcher import read_watch_states

LEASE = "webhooks"
PAGE_MAX = 100
"""Entries of a page, beside the rest of the last item's, fewer than 1,000: what a worker that dies
may send again, and what it holds in memory."""
AT_ONCE = 8
"""Counters of a page whose events are sent at the same time; those of one go in order."""
POLL_SECONDS = 1.0
AGAIN_SECONDS = 10.0
"""After an error of the table."""
SAVE_SECONDS = 60.0
"""After so long without an event the position is saved: a cursor of a day ago is too old."""
STREAM_KEEPS = timedelta(hours=23)
"""How long what arrived can be read, by a margin."""
BEHIND = timedelta(hours=1)
"""How much of what was delivered is sent again where a cursor no longer holds."""
log = logging.getLogger("ledger.http.webhooks")


class Worker:
    """Delivers the webhooks of one file, through a ledger of the home region that is open."""

    def __init__(
        self,
        ledger: Ledger,
        hooks: Sequence[Hook],
        sender: EventSender,
        *,
        lease: Lease,
        services: Services,
        metrics: WebhookMetrics,
    ) -> None:
        self._ledger = ledger
        self._hooks = hooks
        self._sender = sender
        self._lease = lease
        self._services = services
        self._clock = services.clock
        self._metrics = metrics

    async def run(self) -> None:
        """Deliver for ever, while no other process does.

        Raises:
            LedgerError: a secret cannot be used, or its file was not read within a bound.
        """
        while True:
            try:
                async with self._lease.held(None) as outcome:
                    if isinstance(outcome, LeaseGrant):
                        await self._while_held()
            except (LeaseLost, StoreError) as error:
                log.warning("webhooks wait: %s", error)
                await self._clock.sleep(AGAIN_SECONDS)

    async def _while_held(self) -> None:
        self._metrics.led(hook.name for hook in self._hooks)
        try:
            async with background_tasks() as tasks:
                for hook in self._hooks:
                    await self._sender.secrets(
                        hook
                    )  # one that is none is told before anything is sent
                    tasks.start_soon(self._followed, hook)
                await self._lease.lost.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._metrics.left()

    async def _followed(self, hook: Hook) -> None:
        """Deliver one webhook."""
        delivery = HookDelivery(
            self._ledger, hook, self._sender, services=self._services, metrics=self._metrics
        )
        while True:
            try:
                await delivery.step()
            except LeaseLost:
                raise
            except LedgerError as error:
                log.warning("webhook %s waits: %s", hook.name, error)
                await self._clock.sleep(AGAIN_SECONDS)


class HookDelivery:
    """The delivery of one webhook, by the process that holds the lease."""

    def __init__(
        self,
        ledger: Ledger,
        hook: Hook,
        sender: EventSender,
        *,
        services: Services,
        metrics: WebhookMetrics,
    ) -> None:
        self._ledger = ledger
        self._hook = hook
        self._sender = sender
        self._clock = services.clock
        self._random = services.randomness
        self._metrics = metrics
        store = store_here(ledger)
        self._kept = ProgressItems(store, hook.name)
        self._store = store
        self._watch = hook.watch
        self._decider = CrossingDecider(
            store,
            partial(ledger.total, max_age=0),
            settings=live_settings(ledger),
            services=services,
        )
        self._position: HookPosition | None = None
        self._is_down = False
        """Whether the last event was given up: until one is taken each is tried once."""

    async def step(self) -> None:
        """Deliver a page, or wait: for a moment, or for longer if the webhook is disabled.

        Raises:
            LeaseLost: another process delivers it.
            LedgerError: it could not be done; the next step begins where this one did.
        """
        if self._position is None:
            self._position = await self._begun()
        position = self._position
        self._metrics.is_disabled(self._hook.name, disabled=position.disabled is not None)
        if position.disabled is not None:
            log.warning("webhook %s is disabled: %s", self._hook.name, position.disabled)
            self._position = None  # it may be enabled meanwhile
            await self._clock.sleep(SAVE_SECONDS)
            return
        page = await self._page(position)
        now = self._clock.now()
        disabled = await self._taken(page.entries) or await self._send_due()
        if disabled:
            # Of this page nothing counts as sent: once it is enabled, it goes on from here.
            await self._move(replace(position, disabled=disabled))
            self._metrics.is_disabled(self._hook.name, disabled=True)
            return
        is_old = position.saved is None or now - position.saved >= timedelta(seconds=SAVE_SECONDS)
        if page.entries or page.more or is_old or position.cursor is None:
            await self._move(replace(position, cursor=page.cursor, saved=now))
        self._metrics.reached(self._hook.name, _reached(page, now).timestamp())
        if not page.entries and not page.more:
            await self._clock.sleep(POLL_SECONDS)

    async def _move(self, wanted: HookPosition) -> HookPosition:
        """Put a position in place of the one that this delivery knows, and return it."""
        seen = self._position or HookPosition()
        self._position = await self._kept.move(seen, wanted, stamp=new_stamp(self._random))
        return self._position

    async def _begun(self) -> HookPosition:
        """Return the position, once what a worker that died had decided is kept as due.

        When a new webhook begins is kept before anything is sent: the next worker begins there too.
        """
        position = await self._kept.position()
        if not position.stamp:
            position = await self._move(HookPosition(saved=self._clock.now()))
        if position.saved is not None:
            self._metrics.reached(self._hook.name, position.saved.timestamp())
        if self._watch is not None and position.disabled is None:
            async for counter, state in read_watch_states(self._store, self._watch.name):
                if state.phase is Phase.CROSSED:
                    await self._look(self._watch, counter)
        return position

    async def _page(self, position: HookPosition) -> FeedPage:
        """Return the next page; that of a new webhook from when it began."""
        feed = partial(self._ledger.feed_page, limit=PAGE_MAX)
        now = self._clock.now()
        begun = position.saved or now
        if position.cursor is None and now - begun < STREAM_KEEPS:
            return await feed(since=begun)
        why = "no page was delivered since it began"
        if position.cursor is not None:
            try:
                return await feed(after=position.cursor)
            except FeedBehind as error:
                why = str(error)
        # The home was moved, or nothing was delivered for a day: what may be lost is said.
        since = begun - BEHIND
        self._metrics.fell_behind(self._hook.name)
        log.error(
            "webhook %s: events from %s on may be sent again, and are lost if the table's stream"
            " has no more of them: %s", self._hook.name, since.isoformat(), why,
        )  # fmt: skip
        return await feed(since=since)

    async def _taken(self, entries: Sequence[Entry]) -> str | None:
        """Deal with the entries of a page; return why the webhook is to be disabled, if it is."""
        by_counter: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            if self._hook.takes(entry):
                by_counter[entry.counter].append(entry)
        if self._watch is not None:
            jobs = [partial(self._look, self._watch, counter) for counter in by_counter]
        else:
            jobs = [partial(self._send_all, events) for events in by_counter.values()]
        found = await run_all(jobs, at_once=AT_ONCE) if jobs else []
        return next(filter(None, found), None)

    async def _look(self, watch: Watch, counter: str) -> str | None:
        """Decide whether a total crossed; a crossing is kept as due before it counts as told."""

        async def keep(crossing: Crossing) -> None:
            await self._kept.put_due(of_crossing(self._hook.name, crossing))

        looked = await self._decider.look(watch, counter, [keep])
        if looked.state.phase is Phase.CROSSED:
            # Another worker had begun to keep it, or this one failed: once that is old, look again.
            raise StoreError(f"crossing {looked.state.number} of {counter!r} is not kept yet")
        return None

    async def _send_all(self, entries: Sequence[Entry]) -> str | None:
        for entry in entries:
            if disabled := await self._send(of_entry(self._hook.name, entry)):
                return disabled
        return None

    async def _send_due(self) -> str | None:
        async for event in self._kept.due():
            if disabled := await self._send(event):
                return disabled
            await self._kept.forget(f"{DUE}{event.id}")
        return None

    async def _send(self, event: HookEvent) -> str | None:
        """Send an event; one that is not taken becomes a dead letter.

        Returns why the webhook is to be disabled, if the receiver wants no more.
        """
        tries = 1 if self._is_down else TRIES_MAX
        sent = await self._sender.send(self._hook, event, tries_max=tries)
        self._is_down = sent.ended is Ended.FAILED
        if sent.ended is Ended.GONE:
            return f"the receiver answered 410 at {self._clock.now().isoformat()}"
        if sent.ended is Ended.FAILED:
            await self._kept.put_dead(event, said_of(sent), self._clock.now())
            self._metrics.gave_up(self._hook.name)
        return None


def _reached(page: FeedPage, now: datetime) -> datetime:
    """Return until when all is delivered; if more follows, when the page's last entry was made."""
    last = page.entries[-1].at if page.entries and page.more else None
    return last or now


def said_of(sent: Sent) -> str:
    """Return in a few words how sending ended."""
    return f"{sent.said} (tried {sent.tries} times)"


@asynccontextmanager
async def senders(
    *,
    services: Services,
    metrics: WebhookMetrics,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[EventSender]:
    """Open what sends events: no proxies, cookies and redirects; the sender bounds each try.

    Certificates are checked by `tls`, by default by httpx's authorities.
    """
    # A connection is to an address, and was checked for one name: another name at that address
    # never gets it.
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=0)
    async with httpx.AsyncClient(
        verify=tls or httpx.create_ssl_context(trust_env=False),
        limits=limits,
        trust_env=False,
        follow_redirects=False,
        timeout=TRY_SECONDS_MAX,
    ) as http:
        yield EventSender(http, services=services, metrics=metrics)
