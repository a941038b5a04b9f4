"""What follows a soak beside its load: the feed, live totals, histories, and requests refused."""

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

import anyio
import httpx

from lab.faults.workload import Workload
from lab.soak.report import SoakProgress
from lab.soak.service import UNREAD, URL, Service
from ledger.core.values import Entry
from ledger.demo.harness.checker import Violation
from ledger.demo.harness.digit_tags import TaggedChange, amount, describe_counts, digits

FEED_LIMIT = 1_000
FEED_SECONDS_MAX = 60.0
"""How long the last entries may take to come, once all is at rest."""
LIVE_COUNTERS = 20
LIVE_EVERY_SECONDS = 0.5
LIVE_SECONDS = 20.0
HISTORY_PAUSE_SECONDS = 2.0
REFUSED_PAUSE_SECONDS = 3.0
PAUSE_SECONDS = 0.5
EVER = 1e12
"""A read that may be so stale has to count nothing."""


@dataclass(slots=True)
class FeedFollower:
    """Follows all entries as they reach a region, from instance to instance."""

    service: Service
    region: str
    progress: SoakProgress
    seen: dict[TaggedChange, str] = field(default_factory=dict)

    async def run(self) -> None:
        """Follow until cancelled; a page that cannot be had is asked for again by its cursor."""
        cursor: str | None = None
        while True:
            try:
                async for page in self.service.ledger.feed(after=cursor, limit=FEED_LIMIT):
                    cursor = page.cursor
                    for entry in page.entries:
                        self.take(entry)
            except UNREAD:
                self.progress.followed["feed: asked again"] += 1
                await self.progress.clock.sleep(PAUSE_SECONDS)

    def take(self, entry: Entry) -> None:
        """Take an entry, and check that its changes come under no other id."""
        its, counter = self.progress, entry.counter
        its.followed["feed: entries"] += 1
        for number in digits(entry.change):
            known = self.seen.setdefault((counter, number), entry.id)
            if known != entry.id:
                text = f"change {number} of {counter} comes as {known} and as {entry.id}"
                its.add(its.checker.violation("feed", text, counter))

    async def check(self) -> None:
        """Check that every acknowledged change has come."""
        clock, checker = self.progress.clock, self.progress.checker
        give_up = clock.monotonic() + FEED_SECONDS_MAX
        while missing := [entry for entry in checker.acknowledged() if entry not in self.seen]:
            if clock.monotonic() > give_up:
                counter, number = missing[0]
                text = f"{len(missing)} never came in {self.region}: first {number} of {counter}"
                self.progress.add(checker.violation("feed", text, counter))
                return
            await clock.sleep(PAUSE_SECONDS)
        self.progress.checked.append(
            f"feed of {self.region}: all {len(self.seen):,} changes came, each under one id"
        )


@dataclass(frozen=True, slots=True)
class Followers:
    """What else is asked in one region."""

    service: Service
    region: str
    workload: Workload
    progress: SoakProgress
    random: Random
    read_only_token: str

    async def follow_live(self) -> None:
        """Follow some counters by server-sent events, and check each total; then others."""
        while True:  # until cancelled
            names = {self.workload.counter_to_read() for _ in range(LIVE_COUNTERS)}
            with anyio.move_on_after(LIVE_SECONDS):
                try:
                    totals = self.service.ledger.live_totals(names, every=LIVE_EVERY_SECONDS)
                    async for total in totals:
                        self.check_live(total.counter, total.value)
                except UNREAD:
                    self.progress.followed["live: asked again"] += 1
            await self.progress.clock.sleep(PAUSE_SECONDS)

    def check_live(self, counter: str, value: Decimal) -> None:
        """Check a total as it came: it may be of any age, but counts nothing twice."""
        its, checker = self.progress, self.progress.checker
        read = checker.begin_read("live", self.region, counter, at=its.seconds, staleness=EVER)
        its.add(checker.end_read(read, value, at=its.seconds))

    async def read_histories(self) -> None:
        """Read the entries of one counter after another."""
        while True:  # until cancelled
            await self.progress.clock.sleep(self.random.expovariate(1 / HISTORY_PAUSE_SECONDS))
            await self.read_history(self.workload.counter_to_read())

    async def read_history(self, counter: str) -> None:
        """Read the entries of a counter, if they can be read: none comes twice."""
        its, counted = self.progress, Counter[int]()
        try:
            async for entry in self.service.ledger.history(counter):
                counted.update(digits(entry.change))
        except UNREAD:
            its.unread += 1
            return
        its.followed["histories"] += 1
        if often := {number: times for number, times in counted.items() if times > 1}:
            text = f"the history of {counter} in {self.region}: {describe_counts(often)}"
            its.add(its.checker.violation("P1", text, counter))

    async def send_refused(self) -> None:
        """Send requests that must be refused, whatever fails: what they ask for never counts."""
        async with httpx.AsyncClient(
            base_url=URL, transport=self.service.balancer, timeout=PAUSE_SECONDS * 10
        ) as http:
            while True:  # until cancelled
                await self.progress.clock.sleep(self.random.expovariate(1 / REFUSED_PAUSE_SECONDS))
                await self.send_one_refused(http)

    async def send_one_refused(self, http: httpx.AsyncClient) -> None:
        """Send one of them; that it was not refused is a violation."""
        its = self.progress
        (change,) = self.workload.take(1)
        counter, number = change
        its.checker.begin_call([change])
        body, headers = self.random.choice(
            (
                ({"change": amount(number)}, self._authorized()),
                ({"change": str(amount(number)), "by": "me"}, self._authorized()),
                ({"change": str(amount(number))}, {**self._authorized(), "Idempotency-Key": "a"}),
                ({"change": str(amount(number))}, self._authorized(self.read_only_token)),
                ({"change": str(amount(number))}, self._authorized("none")),
            )
        )
        try:
            answer = await http.post(f"/v1/counters/{counter}/entries", json=body, headers=headers)
        except httpx.TransportError:
            its.followed["refusals: without answer"] += 1
        else:
            its.followed[f"refusals: {answer.status_code}"] += 1
            if answer.is_success:
                text = f"{body} of {counter} was not refused: {answer.status_code}"
                its.add(Violation("refusals", text, counter))
        its.checker.end_call(self.region, [change], "refused", at=its.seconds)

    def _authorized(self, token: str | None = None) -> dict[str, str]:
        return {"Authorization": f"Bearer {token or self.service.token}"}
