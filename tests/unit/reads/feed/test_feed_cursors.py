"""Cursors of the feed over shards that split and pass out of the stream."""

import json
from base64 import urlsafe_b64encode
from zlib import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledgers import seeded

from ledger.core.errors import FeedBehind, InvalidInput
from ledger.reads.feed.cursors import (
    BYTES_MAX,
    EMPTY,
    END,
    LEFT,
    PIECES_MAX,
    START,
    Cursor,
    begun,
    joined,
    of_text,
    to_text,
)
from ledger.reads.feed.port import Shard, ShardListing

A, B, C, D = Shard("A"), Shard("B", "A"), Shard("C", "A"), Shard("D", "B")


HELD = 23 * 3600


def listing(*shards: Shard) -> ShardListing:
    """Return a listing of these shards."""
    return ShardListing("s", shards)


@pytest.mark.parametrize(
    ("positions", "listed", "after"),
    [
        pytest.param({}, [A, B, D], {"A": START}, id="there-was-no-shard"),
        pytest.param({}, [B, C], {"B": START, "C": START}, id="parent-is-gone"),
        pytest.param({"A": EMPTY}, [A, B, C], {"B": LEFT, "C": LEFT}, id="nothing-was-left"),
        pytest.param({"A": EMPTY}, [A], {"A": EMPTY}, id="nothing-was-left-no-child-yet"),
        pytest.param({"A": LEFT}, [A, B, C], {"A": LEFT}, id="what-is-left"),
        pytest.param({"A": 7}, [A, B, C], {"A": 7}, id="children-wait"),
        pytest.param({"A": END}, [A], {"A": END}, id="no-child-yet"),
        pytest.param({"A": END}, [A, B, C], {"B": START, "C": START}, id="all-children"),
        pytest.param({"B": 9}, [A, B, C], {"B": 9, "C": START}, id="a-child-listed-later"),
        pytest.param({"B": END, "C": 4}, [A, B, C, D], {"C": 4, "D": START}, id="grandchild"),
        pytest.param({"D": 3, "C": 4}, [A, B, C, D], {"D": 3, "C": 4}, id="behind-is-not-read"),
        pytest.param({"A": END}, [B], {"B": START}, id="parent-passed-out-once-read"),
    ],
)
def test_shards_are_read_once_parents_first(
    positions: dict[str, int], listed: list[Shard], after: dict[str, int]
) -> None:
    """Whatever is listed when."""
    found = joined(Cursor("s", positions=positions), listing(*listed), now=9)
    assert (dict(found.positions), found.looked) == (after, 9)


def test_a_feed_begins_with_what_is_left() -> None:
    """Of the shards whose parents are gone."""
    found = begun(listing(A, B, C), now=9, since=5)
    assert found == Cursor("s", 9, 5, {"A": LEFT})
    assert dict(begun(listing(B, C, D), now=9).positions) == {"B": LEFT, "C": LEFT}


@pytest.mark.parametrize(
    ("cursor", "now"),
    [
        pytest.param(Cursor("s", positions={"A": 7}), 1, id="half-read"),
        pytest.param(Cursor("s", positions={"A": START}), 1, id="not-begun"),
        pytest.param(Cursor("s", 1, positions={"A": END}), 1 + HELD, id="child-came-and-went"),
        pytest.param(Cursor("s", 1, positions={"D": START}), 1 + HELD, id="listed-and-trimmed"),
        pytest.param(Cursor("s", 1, positions={"D": 7}), 1 + HELD, id="too-old"),
        pytest.param(Cursor("s", 1), 1 + HELD, id="there-was-no-shard-yet"),
        pytest.param(Cursor("other", positions={"B": 1}), 1, id="another-stream"),
    ],
)
def test_what_passed_out_unread_is_an_error(cursor: Cursor, now: int) -> None:
    """Never a gap in silence."""
    with pytest.raises(FeedBehind):
        joined(cursor, listing(D), now=now)


def test_a_cursor_holds_for_23_hours() -> None:
    """Whatever it stands at."""
    cursor = Cursor("s", 1, positions={"D": START})
    assert joined(cursor, listing(D), now=HELD) == Cursor("s", HELD, positions={"D": START})


def test_a_shard_that_was_read_goes_last() -> None:
    """So that a busy one holds up no other."""
    cursor = Cursor("s", positions={"A": 1, "B": END, "C": START}).moved("A", 2)
    assert list(of_text(to_text(cursor)).positions.items()) == [("B", END), ("C", START), ("A", 2)]
    assert cursor.open_shards() == ["C", "A"]


def test_the_name_of_another_stream_is_shown_shortened() -> None:
    """It comes from a caller."""
    with pytest.raises(FeedBehind) as error:
        joined(Cursor("x" * 200), listing(D), now=1)
    assert "x" * 80 + "," in str(error.value)


def test_a_lineage_that_ended_is_dropped() -> None:
    """Where it was read whole and nothing can have followed unseen."""
    cursor = Cursor("s", looked=100, positions={"A": END, "D": 5})
    assert dict(joined(cursor, listing(D), now=200).positions) == {"D": 5}


def packed(values: object) -> str:
    """Return a forged cursor of any value of JSON."""
    return "f1" + urlsafe_b64encode(compress(json.dumps(values).encode())).rstrip(b"=").decode()


@given(st.dictionaries(st.text(max_size=40), st.integers(-4, 10**40 - 1), max_size=20))
def test_a_cursor_goes_into_a_url_and_back(positions: dict[str, int]) -> None:
    """With numbers of any length."""
    cursor = Cursor("eu-west-1/2026", 1, 2, positions)
    assert of_text(to_text(cursor)) == cursor
    assert to_text(cursor).replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f1",
        "f1!!",
        "x" * 70_000,
        to_text(Cursor("s"))[:-4],
        "f1" + "eJwDAAAAAAE",
        "f1abc",
        "f1é",
        *[
            to_text(cursor)
            for cursor in (
                Cursor("s" * 201),
                Cursor("é"),
                Cursor("s\x1b[2J"),
                Cursor("s", -5),
                Cursor("s", 0, 10**40),
                Cursor("s", positions={"A": -5}),
                Cursor("s", positions={"A": 10**40}),
            )
        ],
        *[
            packed(values)
            for values in (["s", 0, 0, [], "", ""], ["s", 0, 0, None, "", ""], {"s": 1}, None, 7)
        ],
        *[packed([stream, 0, 0, {}, "", ""]) for stream in ("\ud800", None, 7)],
        *[packed(["s", looked, 0, {}, "", ""]) for looked in (None, "1", 1.0, True)],
        *[packed(["s", 0, 0, {"A": place}, "", ""]) for place in (None, "1", [1], 1.5)],
        *[packed(["s", 0, 0, {}, *asked]) for asked in ((), ("",), (None, ""), ("", 1))],
        *[packed(["s", 0, 0, {}, *asked]) for asked in (("\ud800", ""), ("", "\udfff"))],
        packed(["s", 0, 0, {"\ud800": 1}, "", ""]),
        packed(["s", 0, 0, dict.fromkeys(map(str, range(PIECES_MAX)), 1), "", ""]),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    """With one line."""
    with pytest.raises(InvalidInput, match="must be the cursor of a page of the feed"):
        of_text(text)


@pytest.mark.parametrize("bomb", ["[]", "{}", "1"])
def test_what_a_kilobyte_stands_for_is_not_parsed(
    monkeypatch: pytest.MonkeyPatch, bomb: str
) -> None:
    """As many lists as fit would take 100 ms; a cursor of 1,000 shards is taken."""
    number = 49 * 10**19
    names = (f"shardId-{place:020}-{place:08x}" for place in range(1_000))
    longest = to_text(Cursor("s", positions=dict.fromkeys(names, number)))
    assert len(of_text(longest).positions) == 1_000
    monkeypatch.setattr("ledger.reads.feed.cursors.json.loads", pytest.fail)
    text = "[" + ",".join([bomb] * (BYTES_MAX // 4)) + "]"
    forged = "f1" + urlsafe_b64encode(compress(text.encode())).rstrip(b"=").decode()
    with pytest.raises(InvalidInput, match="must be the cursor of a page"):
        of_text(forged)


@given(st.integers(0, 2**32))
def test_every_shard_is_read_once_after_its_parent(seed: int) -> None:
    """Over random trees that grow while they are read and whose listings lag."""
    random = seeded(seed)
    shards = [Shard("0")]
    open_ones, done = {"0"}, list[str]()
    cursor = joined(Cursor("s"), listing(*shards), now=0)
    for step in range(60):
        if random.random() < 0.3 and len(shards) < 15:
            parent = random.choice(sorted(open_ones))
            open_ones.discard(parent)
            for _ in range(random.choice([1, 2])):
                shards.append(Shard(str(len(shards)), parent))
                open_ones.add(shards[-1].id)
        waiting = cursor.open_shards()
        if waiting and (shard := random.choice(waiting)) not in open_ones:
            done.append(shard)
            cursor = cursor.moved(shard, END)
        shown = shards[: random.randrange(len(shards)) + 1]
        if {*cursor.positions} <= {one.id for one in shown}:
            cursor = joined(of_text(to_text(cursor)), listing(*shown), now=step)
    while not {*cursor.open_shards()} <= open_ones:
        shard = next(one for one in cursor.open_shards() if one not in open_ones)
        done.append(shard)
        cursor = joined(cursor.moved(shard, END), listing(*shards), now=99)
    cursor = joined(cursor, listing(*shards), now=99)
    parents = {one.id: one.parent for one in shards}
    assert sorted(done) == sorted(set(parents) - open_ones)
    assert all(parents[one] in {None, *done[:place]} for place, one in enumerate(done))
    assert {*cursor.open_shards()} == open_ones
