"""One suite for every place of an archive: memory, files, S3 (moto's), and copies of two."""

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from ledger.core.errors import ArchiveDamaged, ArchiveError, ArchiveMissing, InvalidInput
from ledger.core.urls import wrong_place
from ledger.reads.archive.places.files import KEPT, THREADS_MAX, FilePlace
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.places.opening import ReplicatedPlace, open_places
from ledger.reads.archive.places.port import Place
from ledger.testing.clock import ManualClock

REGION = "eu-west-1"
BUCKET = "kept-entries"


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    """Run moto's S3 in a thread."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 (of another extra)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@dataclass
class Maker:
    """Opens a place of one kind."""

    kind: str
    folder: Path

    @asynccontextmanager
    async def open(self, name: str = "one") -> AsyncIterator[Place]:
        """Open a place that is empty at first."""
        if self.kind == "memory":
            yield MemoryPlace()
            return
        url = f"s3://{BUCKET}/{name}"
        if self.kind == "files":
            url = f"file://{self.folder / name}"
        async with open_places([url], clock=ManualClock()) as opened:
            (place,) = opened.places
            yield place


S3 = pytest.param("s3", marks=pytest.mark.tools("moto_server"))


@pytest.fixture(params=["memory", "files", S3])
def maker(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    """Return a maker of places of each kind."""
    if request.param == "s3":
        import boto3  # noqa: PLC0415

        endpoint = request.getfixturevalue("s3_endpoint")
        for name, value in {
            "AWS_ENDPOINT_URL_S3": endpoint,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": REGION,
        }.items():
            monkeypatch.setenv(name, value)
        client: Any = boto3.client("s3", region_name=REGION)
        with suppress(client.exceptions.BucketAlreadyOwnedByYou):
            client.create_bucket(
                Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
            )
        for each in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
            client.delete_object(Bucket=BUCKET, Key=each["Key"])
    return Maker(request.param, tmp_path)


async def names_of(place: Place, after: str = "") -> list[str]:
    """Return the names of a place's objects."""
    return [name async for name in place.names(after)]


async def test_put_and_get(maker: Maker) -> None:
    """What was put is read whole, or the part asked for."""
    async with maker.open() as place:
        await place.put("a-1.gz", b"0123456789")
        assert await place.get("a-1.gz") == b"0123456789"
        assert await place.get("a-1.gz", start=3, length=4) == b"3456"
        assert await place.get("a-1.gz", start=8) == b"89"


async def test_what_is_too_large_is_not_read(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can put objects there fills no memory of who reads them; parts are read."""
    monkeypatch.setattr("ledger.reads.archive.places.memory.OBJECT_BYTES_MAX", 9)
    async with maker.open() as place:
        await place.put("a-1.gz", b"0123456789")
        for part in ({}, {"length": 10}):
            with pytest.raises(ArchiveDamaged, match="10 bytes are to be read of it, and 9 is"):
                await place.get("a-1.gz", **part)
        assert await place.get("a-1.gz", start=1) == b"123456789"
        assert await place.get("a-1.gz", start=2, length=9 - 2) == b"2345678"


async def test_put_twice(maker: Maker) -> None:
    """The same object again changes nothing; another one is refused, and the first stays."""
    async with maker.open() as place:
        await place.put("a", b"one")
        await place.put("a", b"one")
        with pytest.raises(ArchiveDamaged, match=r"object a in .* differs"):
            await place.put("a", b"two")
        assert await place.get("a") == b"one"
        await place.replace("a", b"two")
        assert await place.get("a") == b"two"


async def test_what_is_not_there(maker: Maker) -> None:
    """An object that is not there is missing; one that is too short is damaged."""
    async with maker.open() as place:
        with pytest.raises(ArchiveMissing, match="object none is not in"):
            await place.get("none")
        await place.delete("none")
        await place.put("a", b"123")
        for start in (1, 3, 9):
            with pytest.raises(ArchiveDamaged, match="is truncated"):
                await place.get("a", start=start, length=3)
        await place.delete("a")
        with pytest.raises(ArchiveMissing):
            await place.get("a")


async def test_names(maker: Maker) -> None:
    """Names come in ascending order, more than S3 has in a page, from after one on."""
    async with maker.open() as place:
        assert await names_of(place) == []
        names = [f"n-{number:04}" for number in range(1_005 if maker.kind == "memory" else 12)]
        for name in reversed(names):
            await place.put(name, b"x")
        assert await names_of(place) == names
        assert await names_of(place, names[4]) == names[5:]


@pytest.mark.parametrize("name", ["", "../a", "a/b", ".a", "a" * 101, "a b"])
async def test_refused_names(maker: Maker, name: str) -> None:
    """A name that is a path, or too long, is refused."""
    async with maker.open() as place:
        with pytest.raises(InvalidInput, match="object's name"):
            await place.put(name, b"")


async def test_region(maker: Maker) -> None:
    """A bucket says in which region it is; other places are in none."""
    async with maker.open() as place:
        assert await place.region() == (REGION if maker.kind == "s3" else None)


async def test_copies_read_where_they_can(maker: Maker) -> None:
    """An object that one place lacks, or has damaged, is read from the next."""
    other = MemoryPlace("file:///other")
    async with maker.open() as place:
        both = ReplicatedPlace([place, other])
        await other.put("a", b"12345")
        assert await both.get("a") == b"12345"
        await place.put("a", b"12")
        assert await both.get("a", length=5) == b"12345"
        with pytest.raises(ArchiveMissing, match=place.url):
            await both.get("none")
        await place.put("b", b"")
        assert [name async for name in both.names()] == ["a", "b"]
        await both.replace("a", b"new")
        assert await place.get("a") == await other.get("a") == b"new"
        await both.delete("a")
        assert [name async for name in both.names()] == ["b"]


@pytest.mark.tools("moto_server")
async def test_s3_errors_are_ours(
    s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No bucket, no credentials, no answer: an error of the archive that names the place."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    url = "s3://no-such-bucket/a"
    async with open_places([url], clock=ManualClock()) as opened:
        with pytest.raises(ArchiveError, match=rf"{url}: .*credentials"):
            await opened.get("a")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    async with open_places([url], clock=ManualClock()) as opened:
        (place,) = opened.places
        for call in (place.region, lambda: place.put("a", b""), lambda: names_of(place)):
            with pytest.raises(ArchiveError, match=url):
                await call()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setattr("ledger.reads.archive.places.s3.ATTEMPTS_MAX", 1)
    async with open_places([url], clock=ManualClock()) as opened:
        with pytest.raises(ArchiveError, match=url):
            await opened.get("a")


def parts_in(folder: Path) -> list[str]:
    """Return the names of temporary files."""
    return [one.name for one in folder.glob(".*.part")]


@pytest.mark.parametrize("step", ["fsync", "link", "unlink"])
async def test_a_put_that_ends_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whatever ends a put, its object is there whole or not at all, and can be put again."""
    url = f"file://{tmp_path}"
    place = FilePlace(url, clock=ManualClock())

    def ends(*_arguments: object, **_options: object) -> None:
        raise OSError("ended")

    with monkeypatch.context() as patch:
        patch.setattr(Path if step == "unlink" else os, step, ends)
        with pytest.raises(ArchiveError):
            await place.put("a", b"whole")
    if step == "fsync":  # a full disk: it stays as full as it was
        assert parts_in(tmp_path) == []
    assert await names_of(place) in ([], ["a"])
    await place.put("a", b"whole")
    assert await place.get("a") == b"whole"


async def test_what_was_left_half_written_goes(tmp_path: Path) -> None:
    """Temporary files of others are removed when they are a day old, no younger ones."""
    clock = ManualClock()
    await FilePlace(f"file://{tmp_path}", clock=clock).put("a", b"")
    old, young = tmp_path / ".b.7.part", tmp_path / ".c.8.part"
    for file, age in ((old, KEPT + timedelta(minutes=1)), (young, timedelta(minutes=1))):
        file.write_bytes(b"half")
        made = (clock.now() - age).timestamp()
        os.utime(file, (made, made))
    await FilePlace(f"file://{tmp_path}", clock=clock).put("d", b"")
    assert not old.exists()
    assert young.exists()
    assert await names_of(FilePlace(f"file://{tmp_path}", clock=clock)) == ["a", "d"]


async def test_few_calls_of_a_folder_are_under_way_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many calls as the bound begin; each of the others waits until a call has ended."""
    place = FilePlace(f"file://{tmp_path}", clock=ManualClock())
    goes_on, begun, under_way, most = Event(), list[int](), list[int](), list[int]()

    def unlink(*_arguments: object, **_options: object) -> None:
        under_way.append(1)
        most.append(len(under_way))
        begun.append(1)
        goes_on.wait()
        under_way.pop()

    monkeypatch.setattr(Path, "unlink", unlink)
    async with anyio.create_task_group() as tasks:
        for number in range(3 * THREADS_MAX):
            tasks.start_soon(place.delete, f"{number}")
        await anyio.wait_all_tasks_blocked()
        shared = anyio.to_thread.current_default_thread_limiter().borrowed_tokens
        while len(begun) < THREADS_MAX:
            await anyio.lowlevel.checkpoint()
        goes_on.set()
    assert (shared, max(most), len(begun)) == (0, THREADS_MAX, 3 * THREADS_MAX)


@pytest.mark.parametrize("is_opened_before", [False, True])
async def test_a_folder_that_has_gone_is_not_made_again(
    tmp_path: Path,
    is_opened_before: bool,  # noqa: FBT001
) -> None:
    """Removed, or not mounted any more: each call says so, and none takes it for empty."""
    folder = tmp_path / "kept"
    place = FilePlace(f"file://{folder}", clock=ManualClock())
    await place.put("a", b"1")
    if not is_opened_before:
        place = FilePlace(f"file://{folder}", clock=ManualClock())
    folder.rename(tmp_path / "away")
    for call in (
        lambda: place.put("b", b""),
        lambda: place.get("a"),
        lambda: place.replace("a", b""),
        lambda: place.delete("a"),
        lambda: names_of(place),
    ):
        with pytest.raises(ArchiveError, match="the folder is gone") as refused:
            await call()
        assert not isinstance(refused.value, ArchiveMissing)
    assert not folder.exists()
    (tmp_path / "away").rename(folder)
    assert await place.get("a") == b"1"


@pytest.mark.parametrize("kept", ["/proc/kept", "FILE/kept"])
async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, kept: str) -> None:
    """The error is one of the folder, and not of an object that was deleted."""
    (tmp_path / "file").write_bytes(b"")
    place = FilePlace(f"file://{kept.replace('FILE', str(tmp_path / 'file'))}", clock=ManualClock())
    with pytest.raises(ArchiveError, match="the folder cannot be made") as refused:
        await place.put("a", b"")
    assert not isinstance(refused.value, ArchiveMissing)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://kept-entries/a/b", ""),
        ("s3://kept-entries", ""),
        ("file:///srv/archive", ""),
        ("file://srv/archive", "file:///ABSOLUTE/PATH"),
        ("file:///", "file:///ABSOLUTE/PATH"),
        ("file:///a/../b", "file:///ABSOLUTE/PATH"),
        ("s3://Kept/a", "'Kept' .* is not the name of a bucket"),
        ("s3://ab", "is not the name of a bucket"),
        ("s3://kept-entries//a", "begins with /"),
        ("s3://kept-entries/" + "a" * 801, "over 800 bytes"),
        ("s3://kept-entries/a b", "without spaces"),
        ("gs://kept-entries", "s3://BUCKET/PREFIX"),
        ("", "s3://BUCKET/PREFIX"),
    ],
)
def test_urls(url: str, said: str) -> None:
    """A place is a bucket's prefix or an absolute path; what is wrong is said."""
    found = wrong_place(url)
    assert bool(found) == bool(said)
    if said:
        assert re.search(said, found)
