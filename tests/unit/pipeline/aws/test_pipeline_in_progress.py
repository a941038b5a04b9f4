import pytest
from support.ledgers import HOME

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, LeftOut, Unreachable
from ledger.pipeline.aws.in_progress import (
    MARKER_SORT_KEY,
    TRIES_MAX,
    InProgress,
    begin,
    joined,
    mark_item,
    mark_of,
)
from ledger.pipeline.core.items import lane_item, position_key
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Call, Fault, FaultyStore, InOrder, Lost, NeverArrived

LANE = f"{HOME}/records/shard"
KEY = position_key(LANE)[0], MARKER_SORT_KEY


def mark(first: int, last: int) -> InProgress:
    """Return a mark from one position to another."""
    return InProgress(f"{first:04d}", f"{last:04d}")


@pytest.mark.parametrize(
    ("known", "committed", "asked", "left"),
    [
        (None, 0, mark(1, 9), mark(1, 9)),
        (mark(1, 9), 9, mark(10, 19), mark(10, 19)),  # the usual: all of it is committed
        (mark(1, 9), 9, mark(30, 39), mark(30, 39)),  # nothing in between was begun
        (mark(10, 19), 9, mark(10, 19), mark(10, 19)),  # the same again
        (mark(10, 19), 9, mark(10, 14), mark(10, 19)),  # divided: the rest stays begun
        (mark(10, 19), 9, mark(10, 29), mark(10, 29)),
        (mark(10, 19), 9, mark(5, 19), mark(5, 19)),  # the mapping starts over, further back
        (mark(10, 19), 14, mark(15, 19), mark(15, 19)),  # the rest of what is committed in part
        (mark(10, 19), 14, mark(15, 16), mark(15, 19)),
    ],
)
def test_a_mark_is_moved_on(
    known: InProgress | None, committed: int, asked: InProgress, left: InProgress
) -> None:
    """Records that follow what is committed may be begun; what was begun is never forgotten."""
    assert joined(known, f"{committed:04d}" if committed else "", asked) == left


@pytest.mark.parametrize(
    ("known", "committed", "asked"),
    [
        (mark(1, 9), 0, mark(10, 19)),  # the very first event is missing
        (mark(10, 19), 9, mark(20, 29)),
        (mark(10, 19), 9, mark(15, 19)),  # the first half is missing
        (mark(10, 19), 14, mark(20, 29)),  # the rest of what is committed in part
    ],
)
def test_records_begun_and_then_missing_stop_the_lane(
    known: InProgress, committed: int, asked: InProgress
) -> None:
    """What may be in states and is not in totals must come before what follows it."""
    with pytest.raises(LeftOut, match="restart the event source"):
        joined(known, f"{committed:04d}" if committed else "", asked)


def test_a_mark_is_read_as_it_is_written() -> None:
    """The item and the mark stand for each other; another item is refused."""
    assert mark_of(mark_item(LANE, mark(1, 2))) == mark(1, 2)
    assert mark_of(None) is None
    item: Item = {**mark_item(LANE, mark(1, 2)), "last": {"N": "2"}}
    with pytest.raises(DamagedItem, match="a marker needs"):
        mark_of(item)


async def test_a_mark_is_left_before_anything_else() -> None:
    """It covers what is not committed of the positions; nothing is left when all of them are."""
    store = MemoryStore(HOME)
    positions = ["0001", "0003", "0005"]
    await begin(store, LANE, positions)
    assert mark_of(store.table.get(KEY)) == mark(1, 5)
    store.table.set(position_key(LANE), lane_item(LANE, "0003"))
    await begin(store, LANE, positions)
    assert mark_of(store.table.get(KEY)) == mark(5, 5)
    store.table.set(position_key(LANE), lane_item(LANE, "0005"))
    await begin(store, LANE, positions)
    await begin(store, LANE, ["0007"])
    assert mark_of(store.table.get(KEY)) == mark(7, 7)


async def test_an_answer_lost_is_looked_up() -> None:
    """After an unknown outcome the mark that is there decides; it is written once."""
    store = MemoryStore(HOME)
    faulty = FaultyStore(store, InOrder(None, None, NeverArrived(), None, None, Lost()))
    await begin(faulty, LANE, ["0001"])
    assert mark_of(store.table.get(KEY)) == mark(1, 1)


async def test_another_worker_in_between_is_seen() -> None:
    """A mark written since ours was read is not overwritten unread."""
    store = MemoryStore(HOME)

    def decide(call: Call) -> Fault | None:
        if call.number == 3:
            store.table.set(KEY, mark_item(LANE, mark(1, 9)))
        return None

    with pytest.raises(LeftOut):
        await begin(FaultyStore(store, decide), LANE, ["0004"])
    assert mark_of(store.table.get(KEY)) == mark(1, 9)


async def test_a_mark_that_cannot_be_left_is_an_error() -> None:
    """Without a mark nothing may be begun."""
    store = FaultyStore(
        MemoryStore(HOME), lambda call: NeverArrived() if call.operation == "write" else None
    )
    with pytest.raises(Unreachable, match=f"in {TRIES_MAX} tries"):
        await begin(store, LANE, ["0001"])
