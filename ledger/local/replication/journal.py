"""A local global table's state on disk, so that a later start continues from it: one SQLite file.

Kept are the tables, each region's items with their stamps and tombstones, and the tokens of
transactions. What was on its way between regions is not a record of its own: a region that holds a
newer version of an item than another one sends it again (`Replicator.resend`).

A write is kept before it is answered, all items of a request in one transaction of SQLite. So the
death of this process loses nothing that was answered, and leaves no request half done. A loss of
power may lose the last seconds (`PRAGMA synchronous = NORMAL`), never half a request.
"""

import base64
import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.core.errors import LocalTableError
from ledger.local.engines.port import ApiError, Image
from ledger.local.replication.stamps import Shipment, Stamp

FILE = "local-table.sqlite3"
FORMAT = 1
LOCK_SECONDS_MAX = 1.0
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, content TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS items (
        region TEXT, place TEXT, key TEXT, image TEXT, nanoseconds INTEGER NOT NULL,
        origin TEXT NOT NULL, PRIMARY KEY (region, place, key))""",
    """CREATE TABLE IF NOT EXISTS tokens (
        region TEXT, token TEXT, used_at REAL NOT NULL, fingerprint BLOB NOT NULL,
        PRIMARY KEY (region, token))""",
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored item, in the wire format; `image` is None for a tombstone."""

    key: Image
    image: Image | None
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class KeptToken:
    """The token of a transaction that succeeded in a region, at a time of the day."""

    region: str
    token: str
    used_at: float
    fingerprint: bytes


class Journal:
    """Keeps the state of a local global table; without a connection it keeps nothing.

    Used by one thread. Every method may raise an ApiError of status 500, as when the disk is full.
    """

    def __init__(self, connection: sqlite3.Connection | None = None) -> None:
        self._connection = connection
        self._inside = False

    @classmethod
    def open(cls, folder: Path) -> "Journal":
        """Open the file in a folder, both made where they are missing; no other process may.

        Raises:
            LocalTableError: it cannot be made or read, is in use, or is of another format.
        """
        path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=LOCK_SECONDS_MAX, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise LocalTableError(f"{path} cannot be opened: {error}") from None
        journal = cls(connection)
        try:
            journal._prepare(path)
        except ApiError as error:
            journal.close()
            in_use = "locked" in error.message
            why = "another local global table uses it" if in_use else error.message
            raise LocalTableError(f"{path}: {why}") from None
        except LocalTableError:
            journal.close()
            raise
        return journal

    def _prepare(self, path: Path) -> None:
        self._do("PRAGMA locking_mode = EXCLUSIVE")
        self._do("PRAGMA journal_mode = WAL")
        self._do("PRAGMA synchronous = NORMAL")
        with self.together():
            for statement in _SCHEMA:
                self._do(statement)
            found = self.fact("format")
            if found is None:
                self.state("format", FORMAT)
        if found not in (None, FORMAT):
            raise LocalTableError(f"{path} is of format {found}, this release reads {FORMAT}")

    def close(self) -> None:
        """Close the file; harmless if repeated."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()

    def _do(self, statement: str, values: Iterable[Any] = ()) -> list[Any]:
        if self._connection is None:
            return []
        try:
            return self._connection.execute(statement, tuple(values)).fetchall()
        except sqlite3.Error as error:
            message = f"the state cannot be kept or read: {error}"
            raise ApiError("InternalServerError", message, status=500) from error

    @contextmanager
    def together(self) -> Iterator[None]:
        """Store everything done inside, or nothing; nothing may be awaited inside."""
        if self._connection is None or self._inside:
            yield
            return
        self._do("BEGIN IMMEDIATE")
        self._inside = True
        try:
            yield
            self._do("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._do("ROLLBACK")
            raise
        finally:
            self._inside = False

    def fact(self, name: str) -> Any:
        """Return the last value stored under a name, None without one."""
        found = self._do("SELECT content FROM facts WHERE name = ?", [name])
        return json.loads(found[0][0]) if found else None

    def state(self, name: str, content: Any) -> None:
        """Keep a value that can be written as JSON under a name."""
        self._do("INSERT OR REPLACE INTO facts VALUES (?, ?)", [name, json.dumps(content)])

    def keep(self, region: str, shipments: Iterable[Shipment]) -> None:
        """Store a region's current versions of these items."""
        if self._connection is None:
            return
        with self.together():
            for item in shipments:
                image = None if item.change.image is None else _text(item.change.image)
                values = (region, item.change.table, _text(item.change.key), image, *item.stamp)
                self._do("INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?, ?, ?)", values)

    def items(self, region: str, table: str) -> Iterator[Kept]:
        """Walk the stored items of a region's table."""
        rows = self._do(
            "SELECT key, image, nanoseconds, origin FROM items WHERE region = ? AND place = ?",
            [region, table],
        )
        for key, image, nanoseconds, origin in rows:
            held = None if image is None else json.loads(image)
            yield Kept(json.loads(key), held, Stamp(nanoseconds, origin))

    def forget(self, region: str, table: str) -> None:
        """Forget the items of a region's table."""
        self._do("DELETE FROM items WHERE region = ? AND place = ?", [region, table])

    def forget_others(self, tables: Iterable[tuple[str, str]]) -> None:
        """Forget the items of all tables but these, by region and name."""
        kept = set(tables)
        for region, table in self._do("SELECT DISTINCT region, place FROM items"):
            if (region, table) not in kept:
                self.forget(region, table)

    def forget_tombstones(self) -> None:
        """Forget deleted items."""
        self._do("DELETE FROM items WHERE image IS NULL")

    def remember(self, token: KeptToken) -> None:
        """Keep the token of a transaction."""
        values = (token.region, token.token, token.used_at, token.fingerprint)
        self._do("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?)", values)

    def tokens(self, *, since: float) -> list[KeptToken]:
        """Return the tokens used since a time of the day, oldest first, and forget older ones."""
        self._do("DELETE FROM tokens WHERE used_at < ?", [since])
        rows = self._do("SELECT region, token, used_at, fingerprint FROM tokens ORDER BY used_at")
        return [KeptToken(*row) for row in rows]

    def forget_tokens(self) -> None:
        """Forget all tokens."""
        self._do("DELETE FROM tokens")


def _text(content: Image) -> str:
    return json.dumps(content, default=_binary, sort_keys=True, separators=(",", ":"))


def _binary(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
