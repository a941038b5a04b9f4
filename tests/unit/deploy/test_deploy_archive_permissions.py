"""What each role asks of table and archive where there is one, against what its policy allows."""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import pytest
from support.archiving import raced
from support.permissions import (
    HOME,
    OTHER,
    SETTINGS,
    Recorder,
    assert_just_enough,
)

from compactor.job import Compactor
from ledger.administration.archive.check import ArchiveCheck, archived_in
from ledger.administration.archive.cleanup import SWEPT_AGE, erase_notes, sweep
from ledger.administration.archive.rebuild import Rebuild
from ledger.administration.templates import Role, iam_template, policy
from ledger.administration.verification import Verification
from ledger.core.urls import bucket_of
from ledger.core.values import Entry
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.runtime.clock import SystemClock, system_random
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.writes import Put

URLS = ("s3://kept-here/ledger/", "s3://kept-there")
ARCHIVED = SETTINGS.replace(archive=URLS, retry_horizon=0.02, settle=0.05)
PASSES_MAX = 60
Asked = set[tuple[str, str]]


class RecordingPlace(MemoryPlace):
    """A place that notes which right each request needs, and on what, as S3 would ask IAM."""

    def __init__(self, url: str, asked: Asked) -> None:
        super().__init__(url)
        self._asked = asked
        bucket, prefix = bucket_of(url)
        self._bucket = f"arn:aws:s3:::{bucket}"
        self._prefix = f"{self._bucket}/{prefix}"

    async def put(self, name: str, data: bytes) -> None:
        """Put an object."""
        self._asked.add(("s3:PutObject", self._prefix + name))
        await super().put(name, data)

    async def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read an object."""
        self._asked.add(("s3:GetObject", self._prefix + name))
        return await super().get(name, start=start, length=length)

    async def names(self, after: str = "") -> AsyncIterator[str]:
        """List the objects (ListObjectsV2)."""
        self._asked.add(("s3:ListBucket", self._bucket))
        async for name in super().names(after):
            yield name

    async def replace(self, name: str, data: bytes) -> None:
        """Put an object in place of another."""
        self._asked.add(("s3:PutObject", self._prefix + name))
        await super().replace(name, data)

    async def delete(self, name: str) -> None:
        """Delete an object."""
        self._asked.add(("s3:DeleteObject", self._prefix + name))
        await super().delete(name)

    async def region(self) -> str | None:
        """Ask for the bucket's region (HeadBucket)."""
        self._asked.add(("s3:ListBucket", self._bucket))
        return await super().region()


def allowed(document: Mapping[str, Any]) -> Asked:
    """Return what a policy allows in S3: actions, and patterns of what they are on."""
    return {
        (action, resource)
        for statement in document["Statement"]
        for action in statement["Action"]
        for resource in statement["Resource"]
        if action.startswith("s3:")
    }


def assert_just_enough_of_s3(role: Role, asked: Asked) -> None:
    """Every request is allowed, and each thing allowed was asked for."""
    grants = allowed(policy(ARCHIVED, role))
    used = {
        grant
        for action, place in asked
        for grant in grants
        if grant[0] == action and fnmatchcase(place, grant[1])
    }
    assert used == grants
    assert all(
        any(action == each and fnmatchcase(place, pattern) for each, pattern in grants)
        for action, place in asked
    )


class World:
    """A table of two regions and an archive of two buckets, all that is asked of them noted."""

    def __init__(self) -> None:
        self.recorder, self.asked = Recorder(), Asked()
        self.stores = {region: self.recorder.store(region) for region in (HOME, OTHER)}
        self.places = [RecordingPlace(url, self.asked) for url in URLS]

    def ledger(self, region: str) -> Ledger:
        """Return a ledger of a region."""
        return Ledger(
            ARCHIVED,
            region=region,
            given=GivenConnections(store=self.stores[region], archive=self.places),
        )

    async def merged(self) -> list[Entry]:
        """Write entries with notes and merge them."""
        async with self.ledger(HOME) as ledger:
            made = [await ledger.record("counter", 1, note="why") for _ in range(3)]
        deleted = 0
        for _ in range(PASSES_MAX):
            compactor = Compactor(ARCHIVED, stores=self.stores, archive=self.places)
            deleted += (await compactor.run_once()).deleted
            if deleted == len(made):
                return made
        raise AssertionError(f"{deleted} entries deleted")

    def forget(self) -> None:
        """Forget what was asked for so far."""
        self.recorder.calls.clear()
        self.asked.clear()


async def test_the_compactor_puts_and_reads_back_and_lists_nothing_else() -> None:
    """Every request of archiving is allowed, in each place, and nothing beyond them."""
    world = World()
    await world.merged()
    assert_just_enough_of_s3(Role.COMPACTOR, world.asked)


async def test_the_reader_reads_objects() -> None:
    """A history needs them, and no list; the table's rights are those without an archive."""
    world = World()
    made = await world.merged()
    world.places[0].objects.clear()  # it goes on with the other
    world.forget()
    for region in (HOME, OTHER):
        async with world.ledger(region) as ledger:
            assert [entry async for entry in ledger.history("counter")] == made
    assert_just_enough_of_s3(Role.READER, world.asked)
    document = policy(ARCHIVED, Role.READER)
    assert all(call.is_allowed(document) for call in world.recorder.calls)


async def test_the_writer_answers_late_calls() -> None:
    """It reads the entry, the net and its chain, in any region; without an archive not all."""
    world = World()
    (first, *_) = await world.merged()
    world.places[0].objects.clear()
    for region in (HOME, OTHER):
        async with world.ledger(region) as ledger:
            world.recorder.calls.clear()
            assert await ledger.retry([first]) == [first]
        calls = [call for call in world.recorder.calls if call.action in {"GetItem", "Query"}]
        assert {call.action for call in calls} == {"GetItem", "Query"}
        for call in calls:
            assert call.is_allowed(policy(ARCHIVED, Role.WRITER)), call
            assert not call.is_allowed(policy(SETTINGS, Role.WRITER)), call
    assert allowed(policy(ARCHIVED, Role.WRITER)) == allowed(policy(ARCHIVED, Role.READER))


async def test_the_archivist_has_just_enough() -> None:
    """Verify, sweep, erase and rebuild are allowed, and nothing is granted beyond them."""
    world, target = World(), World()
    made = await world.merged()
    lost = raced(world.places[0].objects)
    for place in world.places:
        place.objects |= lost
    world.forget()
    places, clock = ReplicatedPlace(world.places), SystemClock()
    await Verification(world.stores, ARCHIVED, clock, lambda _: None).whole()
    check = ArchiveCheck(world.stores, HOME, places, lambda _: None)
    await check.whole(archived_in(world.stores[HOME]))
    assert (check.wrong, check.entries, check.left_over) == (0, 2 * len(made), 1)
    later = clock.now() + SWEPT_AGE + timedelta(hours=1)
    assert (await sweep(world.stores, places, home=HOME, now=later)).removed == 1
    home = world.stores[HOME]
    assert await erase_notes(home, places, "counter", [made[0].id], shards=1) == 1
    rebuild = Rebuild(target.stores[HOME], places, ARCHIVED, clock.now(), system_random())
    assert (await rebuild.run()).entries == len(made)
    await target.stores[HOME].write(Put({"pk": {"S": "~reverse~c"}, "sk": {"S": "as a rebuild"}}))
    calls = [*world.recorder.calls, *target.recorder.calls]
    assert_just_enough(Role.ARCHIVIST, calls, [HOME, OTHER], ARCHIVED)
    assert_just_enough_of_s3(Role.ARCHIVIST, world.asked)


def test_no_other_role_reaches_the_archive() -> None:
    """And none at all of a table without one, or with one in a folder."""
    reaching = {role for role in Role if allowed(policy(ARCHIVED, role))}
    writers = {Role.WRITER, Role.STRICT_WRITER}
    assert reaching == {*writers, Role.READER, Role.COMPACTOR, Role.ARCHIVIST}
    for role in Role:
        assert not allowed(policy(SETTINGS, role))
        assert not allowed(policy(SETTINGS.replace(archive=["file:///kept"]), role))
    assert not allowed(policy(ARCHIVED, Role.COMPACTOR, region=OTHER))


@pytest.mark.parametrize("url", URLS)
def test_nothing_beside_the_prefix_is_reached(url: str) -> None:
    """Objects under the place's prefix, and the bucket itself for its list and its region."""
    bucket, prefix = bucket_of(url)
    patterns = {
        resource
        for role in Role
        for action, resource in allowed(policy(ARCHIVED, role))
        if f":::{bucket}" in resource and action != "s3:ListBucket"
    }
    assert patterns == {f"arn:aws:s3:::{bucket}/{prefix}*"}
    text = str(iam_template(ARCHIVED))
    assert f"arn:${{AWS::Partition}}:s3:::{bucket}/{prefix}*" in text
