"""The archive of a world: two places that all processes share, each request with faults of its own.

And what must hold of it, judged by a decoding of its own: whatever net a region shows, each change
that the net counts is whole in a segment of its chain, once, in every place; and each change with
an id up to the net's `settled` time is in that chain, or never was acknowledged. (Where a region is
lost for good, what reached it alone is in no chain, so the second is not judged there.)
"""

import base64
import gzip
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from ledger.core.entry import Item
from ledger.core.errors import ArchiveError
from ledger.demo.harness.digit_tags import digits
from ledger.reads.archive.places.memory import MemoryPlace
from proof.simulator.process import Process
from proof.simulator.store import WORK_STEPS, FaultProfile

URLS = ("file:///archive", "file:///copy")
_HEAD = struct.Struct(">BI32sQ16sQB")
_POINTER = struct.Struct(">IQ8sIIQQ8s")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ID_CHARACTERS = 44
Answer = TypeVar("Answer")


class SimPlace:
    """One place as one process reaches it: requests take time, and they or their answers get lost.

    A put may land although its process crashed, or got no answer.
    """

    def __init__(
        self, process: Process, place: MemoryPlace, faults: FaultProfile, randomness: Random
    ) -> None:
        self.url = place.url
        self._process = process
        self._place = place
        self._faults = faults
        self._random = randomness

    async def put(self, name: str, data: bytes) -> None:
        """Put an object."""
        await self._request(lambda: self._place.put(name, data))

    async def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return an object or a part of it."""
        return await self._request(lambda: self._place.get(name, start=start, length=length))

    def names(self, after: str = "") -> AsyncIterator[str]:
        """Yield the names of all objects."""
        return self._place.names(after)

    async def replace(self, name: str, data: bytes) -> None:
        """Replace an object."""
        await self._request(lambda: self._place.replace(name, data))

    async def delete(self, name: str) -> None:
        """Delete an object."""
        await self._request(lambda: self._place.delete(name))

    async def region(self) -> str | None:
        """Return None."""
        return None

    async def _request(self, act: Callable[[], Awaitable[Answer]]) -> Answer:
        await self._process.begin(WORK_STEPS)
        await self._trip()
        fate, faults = self._random.random(), self._faults
        if not self._process.world.is_healed:
            if fate < faults.never_arrived:
                raise ArchiveError(f"{self.url}: no answer")
            if fate < faults.never_arrived + faults.lost:
                await act()
                raise ArchiveError(f"{self.url}: no answer")
        answer = await act()
        await self._trip()
        return answer

    async def _trip(self) -> None:
        now = self._process.world.loop.time()
        await self._process.until(now + self._random.random() * self._faults.trip_seconds)


class ArchiveAudit:
    """What a world's archive holds, and checks of nets against it."""

    def __init__(self, *, keeps: bool, loses: bool = False) -> None:
        self._loses = loses
        self.places = tuple(MemoryPlace(url) for url in URLS) if keeps else ()
        self._checked: set[tuple[str, str]] = set()
        self._kept: dict[tuple[str, str, int, int], dict[str, Any]] = {}
        self._settled: dict[str, int] = {}
        self._made: dict[str, dict[int, int]] = {}

    def arrived(self, partition: str, item: Item) -> str:
        """Note an entry that reached a region; return what is wrong with it, if anything."""
        if not self.places or self._loses:
            return ""
        sort_key = item["sk"]["S"]
        if len(sort_key) != _ID_CHARACTERS or sort_key[26:28] != "Z#":
            return ""
        at = (datetime.fromisoformat(f"{sort_key[:26]}+00:00") - _EPOCH) // timedelta(
            microseconds=1
        )
        known = self._made.setdefault(partition, {})
        for number in digits(int(item["change"]["N"])):
            if number not in known and at <= self._settled.get(partition, 0):
                return f"change {number} of {partition} appears after all before it had settled"
            known[number] = at
        return ""

    def wrong_net(self, partition: str, net: Item) -> str:
        """Return what is wrong with the archive of a net; empty if nothing is."""
        place = (partition, net["version"]["S"])
        if not self.places or place in self._checked:
            return ""
        self._checked.add(place)
        if "archive" not in net:
            return f"net {place} says nothing of an archive"
        for other in self.places:
            counted, said = self._recounted(other, partition, net["archive"]["B"])
            if said:
                return f"net {place} in {other.url}: {said}"
            if counted != digits(int(net["change"]["N"])):
                return f"net {place} counts {net['change']['N']}, {other.url} has {counted}"
        settled = _HEAD.unpack_from(net["archive"]["B"])[3]
        self._settled[partition] = max(settled, self._settled.get(partition, 0))
        for number, at in self._made.get(partition, {}).items():
            if at <= settled and number not in counted:
                return f"net {place} has settled up to {settled}, and lacks change {number} of {at}"
        return ""

    def _recounted(
        self, place: MemoryPlace, partition: str, packed: bytes
    ) -> tuple[dict[int, int], str]:
        """Return how often each change is in a chain, and what is wrong with that."""
        _, number, chain, _, _, base, size = _HEAD.unpack_from(packed)
        counted: dict[int, int] = {}
        pointers = packed[_HEAD.size + size :]
        if base:
            return counted, "there is a base, and never was a time without an archive"
        while number:
            found, made, suffix, offset, length, *_ = _POINTER.unpack_from(pointers)
            segment = self._segment(place, made, suffix, offset, length)
            if segment is None:
                return counted, f"segment {number} is not there"
            header = segment["header"]
            said = (header["partition"], header["segment"], header["chain"])
            if (found, said) != (number, (partition, number, chain.hex())):
                return counted, f"segment {number} is another one: {said}"
            for line in segment["lines"]:
                for digit, often in digits(int(line["change"])).items():
                    counted[digit] = counted.get(digit, 0) + often
            chain, number = bytes.fromhex(header["previous"]), number - 1
            pointers = base64.b64decode(header["pointers"])
        return counted, ""

    def _segment(
        self, place: MemoryPlace, made: int, suffix: bytes, offset: int, length: int
    ) -> dict[str, Any] | None:
        key = (place.url, f"{made}-{suffix.hex()}", offset, length)
        if key not in self._kept:
            at = _EPOCH + timedelta(microseconds=made)
            name = f"{at:%Y-%m-%dT%H-%M-%S.%f}Z-{suffix.hex()}.jsonl.gz"
            data = place.objects.get(name)
            if data is None:
                return None
            text = gzip.decompress(data[offset : offset + length]).splitlines()
            header, *lines = map(json.loads, text)
            self._kept[key] = {"header": header, "lines": lines}
        return self._kept[key]
