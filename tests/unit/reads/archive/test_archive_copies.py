"""An archive in several places, as readers of a running process meet it."""

from pathlib import Path

import pytest

from ledger import ArchiveDamaged, NeverApplied, RetryHorizonPassed
from ledger.administration.archive.cleanup import erase_notes
from ledger.reads.archive.places.opening import open_places
from ledger.reads.archive.reader import CACHE_SECONDS
from ledger.testing import MemoryGlobalTable

MERGING = {"fold_min": 1, "scan_every": 0}


def archived_table(folder: Path, *names: str) -> MemoryGlobalTable:
    """Return a table with an archive in places of files."""
    places = [f"file://{folder / name}" for name in names]
    return MemoryGlobalTable(archive=places, compactor=MERGING)


def flip(folder: Path) -> None:
    """Change a byte of the one object in a place."""
    (file,) = (path for path in folder.rglob("*") if path.is_file())
    data = bytearray(file.read_bytes())
    data[60] ^= 1
    file.write_bytes(bytes(data))


@pytest.mark.parametrize("damaged", ["a", "b"])
async def test_a_copy_that_is_damaged_does_not_hide_one_that_is_whole(
    damaged: str, tmp_path: Path
) -> None:
    """Of the same length, so that only its digest shows it; in both places it is refused."""
    table = archived_table(tmp_path, "a", "b")
    async with table.ledger() as ledger:
        entry = await ledger.record("c", 5, note="n")
        await table.merge()
        await table.merge()
    flip(tmp_path / damaged)
    async with table.ledger() as ledger:
        assert [one.id async for one in ledger.history("c")] == [entry.id]
        assert (await ledger.total("c", at=table.clock.now())).value == 5
        assert (await ledger.reverse(entry)).change == -5
    flip(tmp_path / ({"a": "b", "b": "a"}[damaged]))
    async with table.ledger() as ledger:
        with pytest.raises(ArchiveDamaged):
            [one async for one in ledger.history("c")]
        flip(tmp_path / damaged)  # put right again: nothing that was damaged is kept
        assert (await anext(ledger.history("c"))).id == entry.id


async def test_a_note_that_is_erased_is_forgotten_by_running_processes(tmp_path: Path) -> None:
    """At the latest once what they keep of the archive has grown old."""
    table = archived_table(tmp_path, "a")
    async with table.ledger() as ledger:
        entry = await ledger.record("c", 1, note="secret")
        await table.merge()
        await table.merge()
        assert [one.note async for one in ledger.history("c")] == ["secret"]
        urls = table.settings.terms.archive
        async with open_places(urls, clock=table.clock) as places:
            await erase_notes(table.store(), places, "c", [entry.id], shards=1)
        await table.pass_time(CACHE_SECONDS + 1)
        assert [one.note async for one in ledger.history("c")] == [None]


async def test_a_late_call_says_whether_asking_again_helps(tmp_path: Path) -> None:
    """Until all of its time is merged; then it is answered."""
    table = archived_table(tmp_path, "a")
    async with table.ledger() as ledger:
        made = table.clock.now()
        await ledger.record("c", 5, key="k", at=made)
        await table.pass_time(3600)
        with pytest.raises(RetryHorizonPassed) as caught:
            await ledger.record("c", 5, key="never", at=made)
        assert caught.value.retryable
        await table.merge()
        await table.merge()
        with pytest.raises(NeverApplied) as answered:
            await ledger.record("c", 5, key="never", at=made)
        assert not answered.value.retryable
