"""The port between the front and what holds the items.

The front (`local/front`) speaks HTTP, keeps the control plane, injects faults and replicates. An
engine holds the tables of every region and carries out DynamoDB's item operations in one of them.
It reports what each call changed, so that replication needs neither streams nor hidden attributes.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Image = dict[str, Any]
"""A whole item as attribute values; each engine holds binary values in its own form."""

KeyToken = tuple[Any, ...]
"""The values of an item's key in the order of the schema, unique within its table."""


def shown_key(table: str, token: KeyToken) -> str:
    """Return a table and the values of a key in one line, for people."""
    return " ".join([table, *(repr(value) for value in token)])


@dataclass(frozen=True, slots=True)
class TableKey:
    """The key schema of a table: attribute names with their types, partition key first."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]

    def token(self, item: Mapping[str, Any]) -> KeyToken:
        """Return what identifies this item, or bare key, within its table."""
        return tuple(next(iter(value.values())) for value in (item[name] for name in self.names))

    def of(self, item: Mapping[str, Any]) -> Image:
        """Return only the key attributes."""
        return {name: item[name] for name in self.names}

    def rebuild(self, token: KeyToken) -> Image:
        """Return the key attributes that a token stands for."""
        parts = zip(self.names, self.kinds, token, strict=True)
        return {name: {kind: content} for name, kind, content in parts}


@dataclass(frozen=True, slots=True)
class ItemChange:
    """The effect of a committed write on one item: its whole new image, or None for a delete.

    Writes that changed nothing make no `ItemChange`: DynamoDB Streams carry no record of them.
    """

    table: str
    key: Image
    image: Image | None


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """The body of a successful call and its changes, in no particular order."""

    body: dict[str, Any]
    changes: tuple[ItemChange, ...] = ()


class ApiError(Exception):
    """An error answer of DynamoDB on its way to the client: protocol, not an error of ours.

    `extra` holds fields of the body beside type and message (`Item`, `CancellationReasons`).
    """

    def __init__(
        self, kind: str, message: str, *, status: int = 400, extra: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.extra = dict(extra or {})


def invalid(message: str) -> ApiError:
    """Return DynamoDB's ValidationException with this message."""
    return ApiError("ValidationException", message)


class Unfit(ApiError):
    """A ValidationException of a write that does not fit its table, or the item that is there.

    In a transaction it is the reason of one action; any other one refuses the whole request.
    Source: Amazon DynamoDB API Reference, TransactWriteItems, "Cancellation reason codes".
    """

    def __init__(self, message: str) -> None:
        super().__init__("ValidationException", message)


class Engine(Protocol):
    """Tables of several regions, each region on its own.

    The front calls `call` with a write, `apply`, `create` and `drop` for one region one at a time;
    reads may come at any moment and must each see whole transactions.
    """

    name: str

    async def start(self, regions: Sequence[str]) -> None:
        """Get ready to serve these regions.

        Raises:
            LocalTableError: the engine cannot run here.
        """

    async def close(self) -> None:
        """Release everything; harmless if repeated."""

    async def until_gone(self, region: str) -> str:
        """Wait until a region's tables are lost by accident, and return why; perhaps for ever."""

    async def restart(self, region: str) -> None:
        """Serve a region again whose tables were lost; it has none at first.

        Raises:
            LocalTableError: it does not start.
        """

    async def create(self, region: str, table: str, key: TableKey) -> None:
        """Make an empty table."""

    async def drop(self, region: str, table: str) -> None:
        """Remove a table with its items."""

    async def count(self, region: str, table: str) -> int:
        """Return how many items the table holds."""

    async def call(self, region: str, operation: str, body: dict[str, Any]) -> EngineAnswer:
        """Carry out one item operation.

        Raises:
            ApiError: refused; nothing was changed.
        """

    async def apply(self, region: str, changes: Sequence[ItemChange]) -> None:
        """Write replicated changes as they are, all of different keys, without conditions."""

    def held(self, wire: Image) -> Image:
        """Return an item that was read from JSON in the form in which this engine holds it."""

    async def dump(self, region: str, table: str) -> Sequence[ItemChange]:
        """Return every item of a table, to fill a new replica."""
