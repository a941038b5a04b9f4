"""What every store must do with reads of many items."""

from collections.abc import Sequence
from typing import Any

import pytest
from conformance.store_items import KEY, ONE, fill, item, query_keys, query_pages, scan_items

from ledger.core.entry import Key, key_of
from ledger.core.errors import RequestRefused
from ledger.store.conditions import Equals
from ledger.store.port import Store
from ledger.store.reads import EACH_GETS_MAX, Get, Query, Scan
from ledger.store.writes import Applied, Delete, Put


class ReadsSuite:
    """Queries and scans."""

    @pytest.mark.parametrize("limit", [None, 1, 2, 3, 7, 8, 100])
    async def test_a_query_gives_each_item_once_in_order(
        self, store: Store, limit: int | None
    ) -> None:
        """Whatever the limit of a page, pages are in order, within it, and leave nothing out."""
        items = [item(("counter", f"{number:02}"), change=ONE) for number in range(7)]
        await fill(store, [*reversed(items), item(("counter2", "00")), item(("counte", "00"))])
        pages = [page async for page in query_pages(store, limit=limit)]
        assert [found for page in pages for found in page] == items
        assert all(len(page) <= (limit or 100) for page in pages)

    async def test_sort_keys_are_in_the_order_of_their_bytes(self, store: Store) -> None:
        """Of a text and it with a control character behind nothing comes between; then by UTF-8."""
        keys = ["a", "a\x1f0001", "a\x1f0010", "a b", "a/1", "aé", "\ue000", "\U0001f600"]
        await fill(store, [item(("counter", key)) for key in reversed(keys)])
        found = [one["sk"]["S"] async for page in query_pages(store) for one in page]
        assert found == keys
        page = await store.query(Query("counter", first="a ", last="a/1"))
        assert [one["sk"]["S"] for one in page.items] == ["a b", "a/1"]

    @pytest.mark.parametrize("limit", [None, 1, 2])
    async def test_a_descending_query_gives_the_same_backwards(
        self, store: Store, limit: int | None
    ) -> None:
        """The highest sort key comes first; bounds and pages are as in an ascending query."""
        await fill(store, [item(("counter", key)) for key in "abcde"])
        found: list[str] = []
        query = Query("counter", first="b", last="d", limit=limit, descending=True)
        for _ in range(6):
            page = await store.query(query)
            found += [one["sk"]["S"] for one in page.items]
            if page.after is None:
                break
            query = query.next(page)
        assert found == ["d", "c", "b"]

    @pytest.mark.parametrize("number", [1, 2, EACH_GETS_MAX])
    async def test_several_reads_give_their_items_in_order(self, store: Store, number: int) -> None:
        """Each read has its item, or None, in the order asked for, whatever the engine's."""
        items = [item(("counter", f"{place:02}"), change=ONE) for place in range(0, number, 2)]
        await fill(store, items)
        gets = [Get(("counter", f"{place:02}")) for place in reversed(range(number))]
        found = await store.get_each(gets)
        there = {key_of(one): one for one in items}
        assert found.items == [there.get(get.key) for get in gets]

    @pytest.mark.parametrize(
        "gets",
        [[], [Get(("counter", str(one))) for one in range(EACH_GETS_MAX + 1)], [Get(KEY)] * 2],
        ids=["none", "101", "one twice"],
    )
    async def test_several_reads_are_1_to_100_of_different_items(
        self, store: Store, gets: Sequence[Get]
    ) -> None:
        """What DynamoDB would refuse is refused before it is sent."""
        with pytest.raises(RequestRefused):
            await store.get_each(gets)

    async def test_a_query_of_nothing_is_an_empty_page(self, store: Store) -> None:
        """A partition that is not there has one page without items."""
        page = await store.query(Query("counter"))
        assert (list(page.items), page.after) == ([], None)

    async def test_a_query_is_in_order_of_bytes(self, store: Store) -> None:
        """Sort keys come in order of their UTF-8 bytes: not of letters, nor of UTF-16."""
        keys = ["\U0001f600", "\uffee", "~net#0001", "é", "z", "a", "Z", "A", "10", "2", " ", "aa"]
        keys += ["2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887", "ß", "数", "e\u0301"]
        await fill(store, [item(("counter", key)) for key in keys])
        ordered = sorted(keys, key=str.encode)
        assert await query_keys(store) == ordered
        assert await query_keys(store, limit=1) == ordered

    @pytest.mark.parametrize(
        ("first", "last", "expected"),
        [
            ("b", None, ["b", "c", "d"]),
            (None, "c", ["a", "b", "c"]),
            ("b", "c", ["b", "c"]),
            ("b", "b", ["b"]),
            ("aa", "cz", ["b", "c"]),
            ("e", None, []),
            (None, "A", []),
        ],
    )
    @pytest.mark.parametrize("limit", [None, 1])
    async def test_first_and_last_bound_a_query(
        self,
        store: Store,
        first: str | None,
        last: str | None,
        expected: list[str],
        limit: int | None,
    ) -> None:
        """Both bounds are included, on every page."""
        await fill(store, [item(("counter", key)) for key in "abcd"])
        assert await query_keys(store, first=first, last=last, limit=limit) == expected

    async def test_a_query_goes_on_after_an_item_that_is_gone(self, store: Store) -> None:
        """The place where a page ended stays valid when its item is deleted in between."""
        await fill(store, [item(("counter", key)) for key in "abcd"])
        page = await store.query(Query("counter", limit=2))
        assert page.after == ("counter", "b")
        await store.write(Delete(("counter", "b")))
        rest = await store.query(Query("counter", after=page.after))
        assert [key_of(found)[1] for found in rest.items] == ["c", "d"]

    async def test_a_query_gives_the_attributes_that_were_named(self, store: Store) -> None:
        """Only attributes that were named come back, where an item has them, on every page."""
        bytes_ = {"B": b"\x00\xff"}
        items = [item(("counter", "1"), change=ONE, note=bytes_), item(("counter", "2"))]
        await fill(store, items)
        for limit in (None, 1):
            options: dict[str, Any] = {"attributes": ("sk", "note"), "limit": limit}
            page = await store.query(Query("counter", first="0", **options))
            found = list(page.items)
            if page.after is not None:
                assert page.after == ("counter", "1")
                found += (await store.query(Query("counter", after=page.after, **options))).items
            assert found == [{"sk": {"S": "1"}, "note": bytes_}, {"sk": {"S": "2"}}]

    async def test_a_query_sees_what_was_just_written(self, store: Store) -> None:
        """A consistent query shows every write that was acknowledged before it."""
        for number in range(10):
            await store.write(Put(item(("counter", str(number)))))
            page = await store.query(Query("counter", consistent=True, first=str(number)))
            assert [key_of(found)[1] for found in page.items] == [str(number)]

    async def test_a_collection_over_a_megabyte_has_pages(self, store: Store) -> None:
        """A collection larger than DynamoDB's page is read whole, in order, page by page."""
        note = {"S": "x" * 100_000}
        items = [item(("counter", f"{number:02}"), note=note) for number in range(14)]
        for one in items:
            await store.write(Put(one))
        assert await query_keys(store) == [f"{number:02}" for number in range(14)]

    async def test_keys_beyond_ascii(self, store: Store) -> None:
        """Partition and sort keys may be any text; each is told from its neighbours."""
        keys = [
            ("é", "数"),
            ("e\u0301", "数"),
            ("é", "e\u0301"),
            ("\U0001f600", "~"),
            ("~1~é", " "),
        ]
        await fill(store, [item(key, change=ONE) for key in keys])
        for key in keys:
            assert await store.get(Get(key)) == item(key, change=ONE)
        page = await store.query(Query("é"))
        assert [key_of(found) for found in page.items] == [("é", "e\u0301"), ("é", "数")]
        assert {key_of(found) for found in await scan_items(store, limit=1)} == set(keys)
        assert await store.write(Delete(keys[0], Equals("change", ONE))) == Applied()
        assert await store.get(Get(keys[1])) is not None

    @pytest.mark.parametrize("segments", [1, 2, 4, 7])
    @pytest.mark.parametrize("limit", [None, 3])
    async def test_segments_share_the_table(
        self, store: Store, segments: int, limit: int | None
    ) -> None:
        """Each item is in one segment once; a partition is whole, in one run, in sort order."""
        keys = {(f"counter {part}", f"{place}") for part in range(12) for place in range(4)}
        await fill(store, [item(key) for key in sorted(keys)])
        home: dict[str, int] = {}
        seen: list[Key] = []
        for segment in range(segments):
            found = [
                key_of(one)
                for one in await scan_items(store, segment=segment, segments=segments, limit=limit)
            ]
            for partition, _ in found:
                assert home.setdefault(partition, segment) == segment
            assert found == _grouped(found)
            seen += found
        assert len(seen) == len(keys)
        assert set(seen) == keys

    async def test_a_query_goes_on_behind_an_item_that_was_deleted(self, store: Store) -> None:
        """A compactor may delete the entry at a page's end before the next page is read."""
        sort_keys = [f"{place}" for place in range(9)]
        await fill(store, [item(("counter", key)) for key in sort_keys])
        seen: list[str] = []
        query = Query("counter", limit=2, consistent=True)
        while True:
            page = await store.query(query)
            seen += [key_of(one)[1] for one in page.items]
            if page.after is None:
                break
            assert await store.write(Delete(("counter", seen[-1]))) == Applied()
            query = query.next(page)
        assert seen == sort_keys

    async def test_a_scan_goes_on_behind_an_item_that_was_deleted(self, store: Store) -> None:
        """What was at a page's end may go before the next page is read: nothing is left out."""
        await _scan_and_delete(store, segments=1)

    async def test_a_segment_goes_on_behind_an_item_that_was_deleted(self, store: Store) -> None:
        """So it is with the segments of a parallel scan."""
        await _scan_and_delete(store, segments=3)

    async def test_a_scan_of_an_empty_table(self, store: Store) -> None:
        """An empty table has no items in any segment."""
        assert await scan_items(store) == []
        assert await scan_items(store, segment=3, segments=4) == []

    async def test_a_scan_gives_the_attributes_that_were_named(self, store: Store) -> None:
        """Only attributes that were named come back, where an item has them."""
        await fill(store, [item(("a", "1"), change=ONE, note={"S": "x"}), item(("b", "1"))])
        found = await scan_items(store, attributes=("pk", "sk", "change"))
        assert sorted(found, key=key_of) == [item(("a", "1"), change=ONE), item(("b", "1"))]
        assert {tuple(one) for one in await scan_items(store, attributes=("pk",))} == {("pk",)}


async def _scan_and_delete(store: Store, *, segments: int) -> None:
    """Scan a table, deleting the last item of each page before the next is read."""
    keys = {(f"counter {part}", f"{place}") for part in range(6) for place in range(4)}
    await fill(store, [item(key) for key in sorted(keys)])
    seen: list[Key] = []
    for segment in range(segments):
        scan = Scan(segment=segment, segments=segments, limit=2, consistent=True)
        while True:
            page = await store.scan(scan)
            seen += [key_of(one) for one in page.items]
            if page.after is None:
                break
            if page.items:
                assert await store.write(Delete(seen[-1])) == Applied()
            scan = scan.next(page)
    assert sorted(seen) == sorted(keys)


def _grouped(keys: list[Key]) -> list[Key]:
    """Return the same keys, partitions in order of their first, sort keys in order of bytes."""
    order = {partition: place for place, (partition, _) in reversed(list(enumerate(keys)))}
    return sorted(keys, key=lambda key: (order[key[0]], key[1].encode()))
