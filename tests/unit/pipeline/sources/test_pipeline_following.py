from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.core.errors import LedgerError
from ledger.pipeline.sources.files import FileSource
from ledger.pipeline.sources.followed_file import DRAIN_SECONDS, FOLLOW_SECONDS, Followed
from ledger.testing.clock import ManualClock


class Quick(ManualClock):
    """A clock whose sleeps are over at once, as much later."""

    async def sleep(self, seconds: float) -> None:
        """Let the time go by."""
        self.pass_by(seconds)


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    """Follow a path."""
    made = Followed(tmp_path / "records.jsonl", Quick())
    yield made
    made.close()


async def read(followed: Followed) -> list[bytes]:
    """Read the file that is there until another has taken its place."""
    source = FileSource(followed.path, grows=followed.grows, file=followed.file)
    return [delivery.raw async for batch in source.batches("", most=10) for delivery in batch]


async def read_now(followed: Followed) -> list[bytes]:
    """Read what the file has by now."""
    source = FileSource(followed.path, file=followed.file)
    return [delivery.raw async for batch in source.batches("", most=10) for delivery in batch]


async def test_a_file_that_is_moved_away_is_read_to_its_end(followed: Followed) -> None:
    """What is still appended to it counts, then the next file is read from its beginning."""
    path = followed.path
    path.write_bytes(b"1\n")
    await followed.begin()
    path.rename(path.with_suffix(".1"))
    assert await followed.grows()  # no file has its place yet
    path.write_bytes(b"3\n")
    with path.with_suffix(".1").open("ab") as file:
        file.write(b"2\n")
    assert await read(followed) == [b"1", b"2"]
    assert not followed.is_last
    followed.go_on()
    await followed.has_line()
    path.rename(path.with_suffix(".2"))
    path.write_bytes(b"4\n")
    assert await read(followed) == [b"3"]


async def test_every_file_that_is_seen_is_read(followed: Followed) -> None:
    """Files that are moved away before their turn comes stay open."""
    path = followed.path
    path.write_bytes(b"0\n")
    await followed.begin()
    for number in (1, 2, 3):
        path.rename(path.with_suffix(f".{number}"))
        path.write_bytes(b"%d\n" % number)
        await followed.grows()
    found = []
    while not followed.is_last:
        found += await read(followed)
        followed.go_on()
    assert found == [b"0", b"1", b"2"]


async def test_a_file_that_grows_on_is_not_left(followed: Followed) -> None:
    """It has ended once it stood still for a while beside the one that took its place."""
    path = followed.path
    path.write_bytes(b"1\n")
    await followed.begin()
    moved = path.rename(path.with_suffix(".1"))
    path.write_bytes(b"9\n")
    for _ in range(int(3 * DRAIN_SECONDS / FOLLOW_SECONDS)):
        with moved.open("ab") as file:
            file.write(b"2\n")
        assert await followed.grows()
    looks = 0
    while await followed.grows():
        looks += 1
    assert looks == pytest.approx(DRAIN_SECONDS / FOLLOW_SECONDS, abs=2)


async def test_an_empty_file_that_is_replaced_is_passed_over(followed: Followed) -> None:
    """A lane is named by its first line; a file that never gets one has none."""
    path = followed.path
    path.write_bytes(b"")
    await followed.begin()
    path.rename(path.with_suffix(".1"))
    path.write_bytes(b"1\n")
    await followed.has_line()
    assert (followed.is_last, await read_now(followed)) == (True, [b"1"])


async def test_a_path_without_a_file_is_refused(followed: Followed) -> None:
    """There must be one to begin with."""
    with pytest.raises(LedgerError, match="no such file"):
        await followed.begin()
