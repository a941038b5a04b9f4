"""Which lane a file is: known by its content, whatever its name and its place.

Each lane of a file has a *claim* in the table: up to which position its records may have been
begun, extended before any of them is handed on. A file is the lane's if the bytes up to there have
the hash in that position: the same file, renamed, compressed, copied or grown. Any other content,
the same first line or not, is another lane::

    claim        pk ~pipeline~REGION/@HASH   sk file#00001   lane, begun, path, format
                                       |                 |
                       of the first line                 in order of their beginning

With `--lane` the partition is the lane's own, and the lane has one claim; a name that was made of
a content leads to that content's. Beside them lies, by the hash of a place (machine and path),
which lane was begun there last: `~pipeline~REGION/@@HASH`, `last`.

If a lane was left while records of it may be open (its committed position is below its claim), and
the same path on the same machine has other content now, the run is refused: only the former
content can finish that lane. Elsewhere an unfinished lane waits for its file.
"""

import hashlib
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import anyio.to_thread

from ledger.core.entry import AttributeValue, Item, Key, damaged
from ledger.core.errors import LedgerError, Unreachable
from ledger.pipeline.core.items import MAP_LAST, MAP_PREFIX, lane_id, position_key
from ledger.pipeline.core.lane_state import lane_state_of
from ledger.pipeline.sources.file_contents import Readable, cannot_be_read, first_line, marks_at
from ledger.pipeline.sources.file_positions import mark_of, place_of
from ledger.pipeline.sources.record_cutter import FORMATS, Format
from ledger.store.conditions import Absent, Equals
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, Outcome, Put, Rejected, Unknown

NAME_HASH_DIGITS = 12
CLAIM_PREFIX = "file#"
PLACE_SORT_KEY = "last"
CLAIM_LAST = "file$"
"""Sorts after every claim."""
CLAIMS_MAX = 10_000
"""Files with one first line; more need names by --lane."""
NUMBER_DIGITS = 5
PAGES_MAX = 1_000
ROTATED_MAX = 100
"""Rotated files that are looked at, the latest ones."""
_OF_LETTERS = re.compile(r"\.dead(\.(only|edit)-[0-9a-f]+)*(\.dead)*$")
_OF_CONTENT = re.compile(
    rf".*(@[0-9a-f]{{{NAME_HASH_DIGITS}}})(\.[0-9]+)?", flags=re.DOTALL | re.ASCII
)
"""A lane's name that was made of a file's content."""
CSV_SUFFIXES = frozenset({".csv", ".tsv"})


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A claim as the table has it; `begun` is empty before anything was."""

    number: int
    lane: str
    begun: str
    path: str
    form: Format


@dataclass(frozen=True, slots=True)
class LaneFile:
    """A file that is to be read; `file` is it while it is open, since its path may change.

    `moved_from` is the path that is followed, of a file that was moved away from there. One that
    `grows` may end amid a line.
    """

    path: Path
    file: Readable | None = None
    moved_from: Path | None = None
    grows: bool = False

    @property
    def place(self) -> str:
        """Its place: machine and path."""
        return f"{socket.gethostname()}:{(self.moved_from or self.path).resolve()}"

    @property
    def form(self) -> Format:
        """The format that its name indicates."""
        return "csv" if CSV_SUFFIXES & set(self.path.suffixes) else "jsonl"

    async def head(self) -> str:
        """Return the hash of its first line.

        Raises:
            LedgerError: the file cannot be read, or has no line yet.
        """
        line = await self.first_line()
        if not line:
            raise LedgerError(f"{self.path}: it has no line yet: run it once it has records")
        return head_of(line)

    async def first_line(self) -> bytes:
        """Return its first line; empty if no line has ended.

        Raises:
            LedgerError: the file cannot be read.
        """
        found = partial(first_line, self.path, self.file, may_grow=self.grows)
        return await anyio.to_thread.run_sync(found)

    async def marks(self, places: Sequence[int]) -> Mapping[int, str]:
        """Return the hashes of what precedes these places."""
        return await anyio.to_thread.run_sync(marks_at, self.path, places, self.file)


class FileClaim:
    """One lane's claim, extended by the worker that reads its file."""

    def __init__(
        self, claims: "Claims", partition: str, record: ClaimRecord, file: LaneFile, *, is_new: bool
    ) -> None:
        self._claims = claims
        self._partition = partition
        self._record = record
        self._file = file
        self._is_new = is_new

    @property
    def begun(self) -> str:
        """Up to where records of the file may be begun, as far as is known."""
        return self._record.begun

    async def extend(self, position: str) -> None:
        """Make known that records up to a position may be begun.

        Raises:
            LedgerError: the lane is read from another file.
            StoreError: the table could not be read or written.
        """
        if self._is_new:
            await self._claims.note(self._file.place, self._record.lane)
        while place_of(position) > place_of(self._record.begun):
            wanted = replace(self._record, begun=position, path=self._file.place)
            found = await self._claims.put(
                self._partition, wanted, None if self._is_new else self._record.begun
            )
            if found is not None and not await self._is_ours(found):
                raise LedgerError(
                    f"lane {self._record.lane}: another file of other content is being read under"
                    " it: run this one again, and it becomes a separate lane"
                )
            self._record, self._is_new = found or wanted, False

    async def _is_ours(self, found: ClaimRecord) -> bool:
        return found.lane == self._record.lane and found in await matching(self._file, [found])


@dataclass(frozen=True, slots=True)
class ClaimedFile:
    """The lane of a file: its name, how it is read, and its claim."""

    lane: str
    form: Format
    claim: FileClaim


class Claims:
    """The claims of one region's lanes of files, of one pipeline."""

    def __init__(self, store: Store, retrier: Retrier, *, pipeline: str = "") -> None:
        self._store = store
        self._retrier = retrier
        self._pipeline = pipeline

    async def find(
        self,
        file: LaneFile,
        name: str | None = None,
        *,
        report: Callable[[str], None] | None = None,
    ) -> ClaimedFile:
        """Return the lane of a file; without a name, by its content: an earlier one or a new one.

        `report` is called with what an operator should know. A lane is in the table from its first
        record on.

        Raises:
            LedgerError: the file cannot be read or has no line; a lane of this path, or this name,
                was left unfinished, or read other content.
            StoreError: the table cannot be read.
        """
        head = await file.head()
        partition = self._partition_of(name or f"@{head}")
        known = await self._read(partition)
        usable = [claimed for claimed in known if name is None or claimed.lane == name]
        for record in reversed(await matching(file, usable)):
            if not await self._is_closed(record.lane):
                claim = FileClaim(self, partition, record, file, is_new=False)
                return ClaimedFile(record.lane, record.form, claim)
        if name is not None and usable:
            raise LedgerError(
                f"lane {name} has read other content: {file.path} is another file, or was changed."
                " Run it without --lane, or with another name"
            )
        last = [] if file.moved_from else await self._last_at(file.place)
        await self._check_finished(file, [*known, *last], report)
        number = max((claimed.number for claimed in known), default=0) + 1
        if number > CLAIMS_MAX:
            raise LedgerError(f"over {CLAIMS_MAX:,} files begin as {file.path}: name it by --lane")
        lane = name or f"{file.path.name}@{head}"
        if name is None and number > 1:
            lane = f"{lane}.{number}"
        record = ClaimRecord(number, lane, "", file.place, file.form)
        return ClaimedFile(lane, file.form, FileClaim(self, partition, record, file, is_new=True))

    async def rotated(self, path: Path) -> list[Path]:
        """Return files that lay at a path since the one that was read there last, oldest first.

        They are found beside it, by the names that rotation gives (`rotated_from`), and begin with
        the one that this path's last lane is of. None if what lies at the path is that one still.

        Raises:
            LedgerError: a file cannot be read.
            StoreError: the table cannot be read.
        """
        place = LaneFile(path).place
        beside = await anyio.to_thread.run_sync(rotated_from, path)
        later: list[Path] = []
        for other in [path, *reversed(beside)]:
            file = LaneFile(other)
            if await self._was_read_at(place, file):
                return [] if other == path else [other, *later]
            if other != path:
                later.insert(0, other)
        return []

    async def _was_read_at(self, place: str, file: LaneFile) -> bool:
        line = await file.first_line()
        if not line:
            return False
        known = await self._read(self._key(f"@{head_of(line)}")[0])
        return bool(await matching(file, [claim for claim in known if claim.path == place]))

    async def put(
        self, partition: str, record: ClaimRecord, known: str | None
    ) -> ClaimRecord | None:
        """Replace the known claim, None for none; return another one if it exists instead.

        Raises:
            StoreError: it was not written, or that is not known.
        """
        expected = Absent() if known is None else Equals("begun", {"S": known})
        item = _item(partition, record)

        async def send() -> Outcome:
            return await self._store.write(Put(item, expected))

        outcome = (await self._retrier.until_answered(send)).outcome
        if isinstance(outcome, Applied):
            return None
        if isinstance(outcome, Unknown):
            raise Unreachable.unanswered(f"the claim of lane {record.lane}: {outcome.cause}")
        if not isinstance(outcome, Rejected):
            raise TypeError(f"a put ends applied, rejected or unknown, not {outcome!r}")
        found = await self._store.get(Get((partition, item["sk"]["S"])))
        if found is None:
            raise Unreachable(f"the claim of lane {record.lane} vanished while it was written")
        return _record(found)

    async def _read(self, partition: str) -> list[ClaimRecord]:
        found: list[ClaimRecord] = []
        query = Query(partition, first=CLAIM_PREFIX, last=CLAIM_LAST)
        for _page in range(PAGES_MAX):
            page = await self._store.query(query)
            found += map(_record, page.items)
            if page.after is None:
                break
            query = query.next(page)
        return found

    async def note(self, place: str, lane: str) -> None:
        """Keep which lane is read at a place, before any of its records is handed on.

        Raises:
            StoreError: it was not kept, or that is not known.
        """
        partition, sort_key = self._place_key(place)
        item = {"pk": {"S": partition}, "sk": {"S": sort_key}, "lane": {"S": lane}}

        async def send() -> Outcome:
            return await self._store.write(Put(item))

        if isinstance(outcome := (await self._retrier.until_answered(send)).outcome, Unknown):
            raise Unreachable.unanswered(f"the place of lane {lane}: {outcome.cause}")

    async def _last_at(self, place: str) -> list[ClaimRecord]:
        """Return the claim of the lane that was begun at a place last, whatever it begins with."""
        item = await self._store.get(Get(self._place_key(place)))
        if item is None:
            return []
        lane = item["lane"]["S"]
        return [claim for claim in await self._read(self._partition_of(lane)) if claim.lane == lane]

    def _partition_of(self, name: str) -> str:
        """Return where the claims of a lane are: by its first line, if that is in its name."""
        found = _OF_CONTENT.fullmatch(name)
        return self._key(found[1] if found else name)[0]

    def _place_key(self, place: str) -> Key:
        digest = hashlib.sha256(place.encode()).hexdigest()[:NAME_HASH_DIGITS]
        return self._key(f"@@{digest}")[0], PLACE_SORT_KEY

    async def _waits(self, lane: str) -> bool:
        """Return whether committed batches of a lane are not in the totals yet."""
        query = Query(self._key(lane)[0], first=MAP_PREFIX, last=MAP_LAST, limit=1)
        return bool((await self._store.query(query)).items)

    async def _check_finished(
        self, file: LaneFile, known: Sequence[ClaimRecord], report: Callable[[str], None] | None
    ) -> None:
        """Refuse to leave a lane that only the former content of the path can finish."""
        path = f":{file.place.partition(':')[2]}"
        for record in known:
            if not record.path.endswith(path):
                continue
            item = await self._store.get(Get(self._key(record.lane)))
            is_committed = _position_of(item) == record.begun
            if _is_closed(item) or (is_committed and not await self._waits(record.lane)):
                continue
            what = (
                f"lane {record.lane} was left unfinished between the bytes"
                f" {place_of(_position_of(item)):,} and {place_of(record.begun):,} of a former"
                f" content of {file.path}: put that back, under any name, and run it to its end, or"
                " give up what it left open (`ledger pipeline mend --close"
                f" {self._store.region}/{record.lane}`). Then run this one"
            )
            if record.path == file.place:
                raise LedgerError(what)
            if report is not None:
                report(f"on {record.path.partition(':')[0]}: {what}")

    async def _is_closed(self, lane: str) -> bool:
        return _is_closed(await self._store.get(Get(self._key(lane))))

    def _key(self, lane: str) -> Key:
        return position_key(lane_id(self._store.region, lane), self._pipeline)


def head_of(line: bytes) -> str:
    """Return the hash by which files with a first line are found."""
    return hashlib.sha256(line).hexdigest()[:NAME_HASH_DIGITS]


def rotated_from(path: Path) -> list[Path]:
    """Return the latest files that rotation moved away from a path, the oldest first.

    Their names continue with a number or a date: `records.jsonl.1`, `records.jsonl-20261121.gz`.
    """
    suffix = re.compile(r"[.-][0-9][0-9TZ:._-]*(\.gz)?")
    found = [
        one
        for one in path.parent.iterdir()
        if one.name.startswith(path.name) and suffix.fullmatch(one.name.removeprefix(path.name))
    ]
    return sorted(found, key=lambda one: one.stat().st_mtime_ns)[-ROTATED_MAX:]


async def matching(file: LaneFile, known: Sequence[ClaimRecord]) -> list[ClaimRecord]:
    """Return the claims whose content a file has, the shortest first."""
    marks = await file.marks([place_of(claim.begun) for claim in known])
    found = [claim for claim in known if marks.get(place_of(claim.begun)) == mark_of(claim.begun)]
    return sorted(found, key=lambda one: place_of(one.begun))


def _position_of(item: Item | None) -> str:
    return lane_state_of(item).position


def _is_closed(item: Item | None) -> bool:
    return item is not None and "closed" in item


def _item(partition: str, record: ClaimRecord) -> dict[str, AttributeValue]:
    return {
        "pk": {"S": partition},
        "sk": {"S": f"{CLAIM_PREFIX}{record.number:0{NUMBER_DIGITS}d}"},
        "lane": {"S": record.lane},
        "begun": {"S": record.begun},
        "path": {"S": record.path},
        "format": {"S": record.form},
    }


def _record(item: Item) -> ClaimRecord:
    try:
        form = item["format"]["S"]
        if form not in FORMATS:
            raise damaged(item, f"its format is {form!r}, which this release cannot read")
        return ClaimRecord(
            number=int(item["sk"]["S"].removeprefix(CLAIM_PREFIX)),
            lane=item["lane"]["S"],
            begun=item["begun"]["S"],
            path=item["path"]["S"],
            form=cast("Format", form),
        )
    except (KeyError, ValueError) as error:
        raise damaged(item, f"a claim needs lane, begun, path and format: {error!r}") from None


def files_in(folder: Path) -> list[Path]:
    """Return the files of records in a directory, by name.

    Hidden files are not, nor dead letters and the files that `replay` made of them.

    Raises:
        LedgerError: there is no file, or the directory cannot be read.
    """
    try:
        found = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise cannot_be_read(folder, error) from error
    files = [
        path for path in found if not (path.name.startswith(".") or _OF_LETTERS.search(path.name))
    ]
    if not files:
        raise LedgerError(f"{folder} has no file of records")
    return files
