"""The position and the findings of a scan of all regions, kept in the table.

In the pipeline's registry, at home: an item `scan` names the run it belongs to, the place, and the
items with the findings, which are written first::

    pieces 3f..#0, 3f..#1, then  scan -> 3f.. (2)
    pieces a7..#0, a7..#1, then  scan -> a7.. (2), then pieces 3f.. are deleted

So a run that is interrupted anywhere leaves a whole checkpoint, and two concurrent runs do not mix
theirs. The findings are JSON, compressed, in pieces of `PIECE_CHARACTERS`; they are written once a
hundred pages, and more rarely the larger they are.
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from ledger.core.decompression import inflated
from ledger.core.entry import Item, Key
from ledger.pipeline.core.registry import registry_partition
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.writes import Delete, Put

SCAN_SORT_KEY = "scan"
PIECE_PREFIX = "scan#"
PIECE_CHARACTERS = 350_000
"""Of one item: an item has at most 400 KB."""
PIECES_MAX = 10_000
FINDINGS_BYTES_MAX = 256 * 1024 * 1024
"""Of a checkpoint, unpacked; beyond that the scan begins again."""
CHECKPOINT_PAGES = 100
"""Pages of a scan between two checkpoints: at most 100 MB are read again."""
PAGE_KILOBYTES = 5
"""Characters of a checkpoint that a further page of the scan pays for: a tenth of its price."""

Findings = Mapping[str, Any]
"""The findings of a scan, as JSON values."""


@dataclass(frozen=True, slots=True)
class ScanPosition:
    """Where a scan continues: after an item of a region; earlier regions are done."""

    region: str
    after: Key
    items: int
    table: str = ""


class Checkpoints:
    """The checkpoint of one run; `run` names it, so that others do not use it."""

    def __init__(self, store: Store, pipeline: str, run: str, randomness: Random) -> None:
        self._store = store
        self._partition = registry_partition(pipeline)
        self._run = run
        self._random = randomness
        self._written = ""
        self._pages = 0
        self._kilobytes = 0

    async def read(self) -> tuple[ScanPosition, Findings] | None:
        """Return where this run was interrupted, and its findings; None to begin.

        Raises:
            StoreError: home does not answer.
        """
        head = await self._store.get(Get((self._partition, SCAN_SORT_KEY)))
        try:
            if head is None or head["run"]["S"] != self._run:
                return None
            self._written = head["name"]["S"]
            place = json.loads(head["place"]["S"])
            pieces = await self._pieces(self._written)
            if len(pieces) != int(head["pieces"]["N"]):
                return None
            packed = b64decode("".join(pieces))
            findings = json.loads(inflated(packed, bytes_max=FINDINGS_BYTES_MAX)[0])
        except (KeyError, TypeError, ValueError):
            return None  # unreadable: the scan begins again
        partition, sort_key = place["after"]
        after = partition, sort_key
        return ScanPosition(place["region"], after, place["items"], place["table"]), findings

    def is_due(self) -> bool:
        """Note a page, and return whether it is time to write."""
        self._pages += 1
        return self._pages >= max(CHECKPOINT_PAGES, self._kilobytes // PAGE_KILOBYTES)

    async def write(self, place: ScanPosition, findings: Findings) -> None:
        """Store the scan's position and findings.

        Raises:
            StoreError: home does not answer; the previous checkpoint is still there.
        """
        packed = b64encode(zlib.compress(json.dumps(findings).encode())).decode()
        name, before = f"{self._random.getrandbits(64):016x}", self._written
        starts = range(0, len(packed), PIECE_CHARACTERS)
        for number, start in enumerate(starts):
            piece = {"S": packed[start : start + PIECE_CHARACTERS]}
            await self._store.write(Put({**self._item(_piece(name, number)), "piece": piece}))
        where = {
            "region": place.region,
            "after": place.after,
            "items": place.items,
            "table": place.table,
        }
        values = {"run": {"S": self._run}, "name": {"S": name}, "place": {"S": json.dumps(where)}}
        pieces = {"N": str(len(starts))}
        await self._store.write(Put({**self._item(SCAN_SORT_KEY), **values, "pieces": pieces}))
        self._written, self._pages, self._kilobytes = name, 0, len(packed) >> 10
        if before:
            await self._delete(f"{PIECE_PREFIX}{before}")

    async def forget(self) -> None:
        """Delete every checkpoint of the pipeline: the run is complete.

        Raises:
            StoreError: home does not answer.
        """
        await self._store.write(Delete((self._partition, SCAN_SORT_KEY)))
        await self._delete(PIECE_PREFIX)

    async def _pieces(self, name: str) -> list[str]:
        return [item["piece"]["S"] for item in await self._query(f"{PIECE_PREFIX}{name}", ())]

    async def _delete(self, begins: str) -> None:
        for item in await self._query(begins, ("pk", "sk")):
            await self._store.write(Delete((self._partition, item["sk"]["S"])))

    async def _query(self, begins: str, attributes: tuple[str, ...]) -> list[Item]:
        query = Query(self._partition, first=begins, last=f"{begins}~", attributes=attributes)
        found: list[Item] = []
        for _page in range(PIECES_MAX):
            page = await self._store.query(query)
            found += page.items
            if page.after is None:
                break
            query = query.next(page)
        return found

    def _item(self, sort_key: str) -> dict[str, Any]:
        return {"pk": {"S": self._partition}, "sk": {"S": sort_key}}


def _piece(name: str, number: int) -> str:
    return f"{PIECE_PREFIX}{name}#{number:05d}"
