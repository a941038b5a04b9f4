"""Pages of the feed: cursors, listings that are late, and times."""

from datetime import UTC, datetime, timedelta

import pytest
from support.combined import combined

from ledger.core.entry import entry_item
from ledger.core.errors import FeedBehind, InvalidInput
from ledger.reads.feed.cursors import END, of_text, to_text
from ledger.reads.feed.memory import MemoryStream
from ledger.reads.feed.page import FeedPage, FillingPage
from ledger.reads.feed.port import FIRST, OLDEST, ShardRead
from ledger.reads.feed.reader import Feed
from ledger.reads.feed.selection import FeedSelection
from ledger.reads.feed.stream_access import SharedStream
from ledger.testing import ManualClock, MemoryGlobalTable
from ledger.testing.clock import START

HOUR = 3600
ALL = FeedSelection()


class World:
    """A stream of one lineage, and the feeds of processes that read it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.stream = MemoryStream("s", clock=self.clock, lineages=1)
        self.put_so_far = 0

    def put(self, note: str = "") -> None:
        """Put an entry."""
        self.put_so_far += 1
        id_ = f"2026-11-21T06:50:01.{self.put_so_far:06d}Z#4f1d2c3b5a697887"
        change = {"N": str(self.put_so_far)}
        item = {"pk": {"S": "a"}, "sk": {"S": id_}, "change": change, "note": {"S": note}}
        self.stream.changed(("a", id_), None, item)

    def put_together(self, *each: int, since: int = 0) -> None:
        """Put an item that some changes share; made so many seconds later."""
        whole = combined(START + timedelta(seconds=since), *each, counter="a")
        self.stream.changed(("a", whole.id), None, entry_item(whole))

    def feed(self) -> Feed:
        """Return the feed of one more process."""
        return Feed(SharedStream(self.stream, self.clock), clock=self.clock)


async def page_of(
    feed: Feed,
    after: FeedPage | None = None,
    since: datetime | None = None,
    wanted: FeedSelection = ALL,
) -> FeedPage:
    """Return the next page."""
    cursor = None if after is None else after.cursor
    return await feed.page(wanted, after=cursor, since=since, limit=100)


def changes(page: FeedPage) -> list[int]:
    """Return the changes of its entries."""
    return [int(entry.change) for entry in page.entries]


async def test_pages_without_entries_keep_a_cursor_young() -> None:
    """One that is not asked after for 23 hours is too old, though its shard is still listed."""
    world = World()
    feed = world.feed()
    page = await page_of(feed)
    for _ in range(3):
        world.clock.pass_by(22 * HOUR)
        page = await page_of(feed, page)
        assert of_text(page.cursor).looked == int(world.clock.now().timestamp())
    world.clock.pass_by(23 * HOUR)
    with pytest.raises(FeedBehind, match="holds for 23 hours"):
        await page_of(feed, page)


async def test_a_new_feed_begins_with_what_is_left_though_another_began_before() -> None:
    """A process keeps what it has read; what was the oldest then has passed out by now."""
    world = World()
    feed = world.feed()
    for number in range(1_500):
        world.put()
        if number == 1_200:
            world.clock.pass_by(23 * HOUR)
    assert changes(await page_of(feed)) == list(range(1, 101))
    world.clock.pass_by(2 * HOUR)
    page = await page_of(feed)
    assert changes(page)[0] > 1_200
    assert changes(await page_of(feed, page))[0] == changes(page)[-1] + 1


async def test_a_cursor_of_a_process_that_listed_later_is_known() -> None:
    """A shard that this one's listing lacks is looked for before the cursor is refused."""
    world = World()
    ahead, late = world.feed(), world.feed()
    world.put()
    page = await page_of(ahead, await page_of(late))
    world.stream.roll()
    world.put()
    world.clock.pass_by(2)
    page = await page_of(ahead, page)
    assert changes(page) == [2]
    world.put()
    assert changes(await page_of(late, page)) == [3]


async def test_a_number_that_the_stream_has_not_come_to_is_refused() -> None:
    """Of no page; what comes up to it would be skipped."""
    world = World()
    world.put()
    cursor = of_text((await page_of(world.feed())).cursor)
    (shard,) = cursor.positions
    with pytest.raises(InvalidInput, match="cursor of a page of the feed"):
        await page_of(world.feed(), FeedPage((), to_text(cursor.moved(shard, 10**30)), more=True))


async def test_a_page_ends_after_a_megabyte() -> None:
    """However many entries are asked for; those that follow are in the next pages."""
    world = World()
    for _ in range(10):
        world.put(note="\x01" * 50_000)
    pages = [await page_of(world.feed())]
    while pages[-1].more:
        pages.append(await page_of(world.feed(), pages[-1]))
    found = [changes(page) for page in pages if page.entries]
    assert found == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


async def test_changes_that_share_an_item_come_in_one_page() -> None:
    """Beyond the limit, too: a cursor stands between items, so the next page goes on behind it."""
    world = World()
    world.put()
    world.put_together(10, 20, 30)
    world.put_together(40, since=1)
    world.put()
    feed, after, pages = world.feed(), None, list[FeedPage]()
    while after is None or pages[-1].more:
        pages.append(await feed.page(ALL, after=after, since=None, limit=2))
        after = pages[-1].cursor
    assert [changes(page) for page in pages if page.entries] == [[1, 10, 20, 30], [40, 2]]
    first = pages[0].entries[1]
    assert first.id.endswith(".000")
    assert (first.count, first.parts) == (1, "")
    again = await world.feed().page(ALL, after=pages[0].cursor, since=None, limit=1)
    assert changes(again) == [40]


def test_a_page_ends_with_the_item_by_which_it_has_a_megabyte() -> None:
    """Each change counts for itself, as each is one entry of the page."""
    page = FillingPage(limit=1_000_000)
    while not page.is_full:
        page.take(combined(START, *[1] * 1_000))
    assert len(page.entries) == 4_000


async def test_shards_that_were_read_whole_are_not_read_again() -> None:
    """By a process whose listing has only their parents."""
    world = World()
    ahead, late = world.feed(), world.feed()
    world.put()
    await page_of(late)
    world.stream.roll()
    world.put()
    ended = (await page_of(ahead)).cursor
    (shard,) = of_text(ended).positions
    cursor = to_text(of_text(ended).moved(shard, END))
    assert changes(await late.page(ALL, after=cursor, since=None, limit=100)) == []


class LeftAlone:
    """A stream that gives what is left of a shard whose first record has passed out (a mutant)."""

    def __init__(self, stream: MemoryStream) -> None:
        self.listing = stream.listing
        self._stream = stream

    async def read(self, shard: str, after: int) -> ShardRead:
        """Read from the oldest record on, as TRIM_HORIZON does."""
        return await self._stream.read(shard, OLDEST if after == FIRST else after)


async def lagging(world: World, feed: Feed) -> FeedPage:
    """Follow an entry at a time, until a shard is named, not begun, and a day old; put another."""
    for _ in range(3):
        world.put()
    world.stream.roll()
    world.clock.pass_by(60)
    world.put()
    cursor = None
    for hours in (11, 11, 2):
        page = await feed.page(ALL, after=cursor, since=None, limit=1)
        cursor = page.cursor
        world.clock.pass_by(hours * HOUR)
    world.clock.pass_by(1)
    world.put()
    return page


async def test_a_first_record_that_passed_out_of_a_shard_not_begun_is_no_gap() -> None:
    """Though the cursor is 2 hours old, and the shard is listed: its other records are there."""
    world = World()
    page = await lagging(world, world.feed())
    with pytest.raises(FeedBehind):
        await page_of(world.feed(), page)
    assert changes(await page_of(world.feed())) == [5]


async def test_what_is_left_of_a_shard_not_begun_is_not_all() -> None:
    """As a reader by TRIM_HORIZON would take it: the fourth entry is in no page."""
    world = World()
    mutant = Feed(LeftAlone(world.stream), clock=world.clock)
    assert changes(await page_of(mutant, await lagging(world, mutant))) == [5]


async def test_a_feed_begins_where_the_first_records_have_passed_out() -> None:
    """Of a shard, and of the child of one that has none left; then nothing of it is skipped."""
    world = World()
    world.put()
    world.clock.pass_by(60)
    world.stream.roll()
    world.put()
    world.clock.pass_by(24 * HOUR - 30)
    world.put()
    world.clock.pass_by(1)
    assert len((await world.stream.listing()).shards) == 2
    page = await page_of(world.feed())
    assert changes(page) == [2, 3]
    world.clock.pass_by(22 * HOUR)
    world.put()
    assert changes(await page_of(world.feed(), page)) == [4]


async def test_what_arrives_at_the_time_is_since_it() -> None:
    """To the second, also before 1970."""
    world = World()
    world.clock.pass_by(1.0 - world.clock.now().timestamp() % 1)
    world.put()
    now = world.clock.now()
    assert changes(await page_of(world.feed(), since=now)) == [1]
    old = await page_of(world.feed(), since=datetime(1, 1, 1, tzinfo=UTC))
    assert changes(old) == [1]
    assert changes(await page_of(world.feed(), old)) == []


async def test_counters_may_be_an_iterator() -> None:
    """Taken once, for all pages."""
    async with MemoryGlobalTable(["us-east-1"]).ledger("us-east-1") as ledger:
        for change in (1, 2):
            await ledger.record("a", change)
        pages = ledger.feed(counters=iter(["a"]), limit=1)
        assert [changes(await anext(pages)) for _ in range(2)] == [[1], [2]]


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_a_time_that_utc_has_no_year_for_is_refused(since: str) -> None:
    """By its name."""
    with pytest.raises(InvalidInput, match="since must be of the years 1 to 9999 in UTC, got"):
        await page_of(World().feed(), since=datetime.fromisoformat(since))


A = FeedSelection("a")
NAMED = FeedSelection(counters=frozenset({"a", "a/b"}))


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        pytest.param(A, FeedSelection("b"), id="another-prefix"),
        pytest.param(A, FeedSelection(), id="a-wider-prefix"),
        pytest.param(A, FeedSelection("a/"), id="a-narrower-prefix"),
        pytest.param(NAMED, FeedSelection(), id="no-names"),
        pytest.param(NAMED, FeedSelection(counters=frozenset({"a"})), id="other-names"),
        pytest.param(A, FeedSelection("a", NAMED.counters), id="names-of-the-prefix"),
    ],
)
async def test_a_cursor_holds_for_the_counters_it_was_made_for(
    made: FeedSelection, asked: FeedSelection
) -> None:
    """Under another filter, what only that one wants would be skipped; the error names both."""
    world = World()
    world.put()
    page = await page_of(world.feed(), wanted=made)
    with pytest.raises(InvalidInput) as error:
        await page_of(world.feed(), page, wanted=asked)
    assert f"of the feed of {made.filter}," in str(error.value)
    assert f"this is the feed of {asked.filter}:" in str(error.value)
    assert (await page_of(world.feed(), page, wanted=made)).cursor == page.cursor
