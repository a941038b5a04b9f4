"""What webhooks keep in the table: how far each came, what is to be sent, what could not be.

All of a webhook lies under pk `~webhook~NAME`, in the home region::

    position            cursor, when it was saved, why the webhook is disabled; a stamp
    due#ID              a crossing that is to be sent
    dead#TIME#ID        an event that was not taken, with what the receiver said last
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random

from ledger.core.entry import AttributeValue, Item, damaged
from ledger.core.errors import LeaseLost, StoreError
from ledger.core.keys import WEBHOOK_PREFIX
from ledger.http.webhooks.events import HookEvent
from ledger.store.conditions import Absent, Condition, Equals
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.writes import Applied, Delete, Put, Rejected

POSITION = "position"
DUE, DEAD = "due#", "dead#"
_STAMP_BITS = 64


@dataclass(frozen=True, slots=True)
class HookPosition:
    """How far a webhook came in the feed; `disabled` says why it is."""

    cursor: str | None = None
    saved: datetime | None = None
    disabled: str | None = None
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class HookDeadLetter:
    """An event that was not taken."""

    key: str
    event: HookEvent
    said: str
    at: datetime


def new_stamp(randomness: Random) -> str:
    """Return what tells a position from every other that is put."""
    return f"{randomness.getrandbits(_STAMP_BITS):016x}"


class ProgressItems:
    """What one webhook keeps."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._partition = f"{WEBHOOK_PREFIX}{name}"

    async def position(self) -> HookPosition:
        """Return how far it came.

        Raises:
            DamagedItem: the item cannot be read.
            StoreError: DynamoDB could not do it.
        """
        item = await self._store.get(Get((self._partition, POSITION)))
        if item is None:
            return HookPosition()
        try:
            saved = _text(item, "saved")
            return HookPosition(
                _text(item, "cursor"),
                None if saved is None else datetime.fromisoformat(saved),
                _text(item, "disabled"),
                item["stamp"]["S"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(item, f"no position of a webhook: {error}") from None

    async def move(self, seen: HookPosition, wanted: HookPosition, *, stamp: str) -> HookPosition:
        """Put a position in place of the one seen, and return it.

        Raises:
            LeaseLost: another process did so before.
            StoreError: DynamoDB could not do it.
        """
        moved = replace(wanted, stamp=stamp)
        item = self._item(POSITION, stamp={"S": stamp})
        texts = {
            "cursor": moved.cursor,
            "saved": None if moved.saved is None else moved.saved.isoformat(),
            "disabled": moved.disabled,
        }
        item |= {name: {"S": text} for name, text in texts.items() if text is not None}
        unchanged: Condition = Equals("stamp", {"S": seen.stamp}) if seen.stamp else Absent()
        outcome = await self._store.write(Put(item, unchanged))
        if isinstance(outcome, Applied) or (await self.position()).stamp == stamp:
            return moved
        raise LeaseLost(f"{self._partition}: another process delivers this webhook")

    async def enable(self, seen: HookPosition, *, stamp: str) -> HookPosition:
        """Let a disabled webhook go on from where it was left.

        Raises:
            LeaseLost: its position was moved meanwhile.
            StoreError: DynamoDB could not do it.
        """
        return await self.move(seen, replace(seen, disabled=None), stamp=stamp)

    async def put_due(self, event: HookEvent) -> None:
        """Keep an event that is to be sent, once.

        Raises:
            StoreError: it may not be kept.
        """
        key = f"{DUE}{event.id}"
        outcome = await self._store.write(Put(self._event_item(key, event), Absent()))
        if not isinstance(outcome, Applied | Rejected):
            raise StoreError(f"{self._partition}: not known whether event {event.id} is kept")

    def due(self) -> AsyncIterator[HookEvent]:
        """Yield what is to be sent."""
        return self._events(DUE)

    async def put_dead(self, event: HookEvent, said: str, at: datetime) -> None:
        """Keep an event that was not taken.

        Raises:
            StoreError: it may not be kept.
        """
        item = self._event_item(f"{DEAD}{at.isoformat()}#{event.id}", event)
        outcome = await self._store.write(Put({**item, "said": {"S": said[:1000]}}))
        if not isinstance(outcome, Applied):
            raise StoreError(f"{self._partition}: not known whether event {event.id} is kept")

    async def dead(self) -> AsyncIterator[HookDeadLetter]:
        """Yield the dead letters, the oldest first.

        Raises:
            StoreError: DynamoDB could not do it.
        """
        async for item in self._items(DEAD):
            key = item["sk"]["S"]
            at = datetime.fromisoformat(key.removeprefix(DEAD).partition("#")[0])
            yield HookDeadLetter(key, _event(item), _text(item, "said") or "", at)

    async def forget(self, key: str) -> None:
        """Delete a letter, or with `due#` an event that was sent.

        Raises:
            StoreError: DynamoDB could not do it.
        """
        await self._store.write(Delete((self._partition, key)))

    async def _events(self, prefix: str) -> AsyncIterator[HookEvent]:
        async for item in self._items(prefix):
            yield _event(item)

    async def _items(self, prefix: str) -> AsyncIterator[Item]:
        query = Query(self._partition, first=prefix, last=f"{prefix}\U0010ffff", limit=100)
        while True:
            page = await self._store.query(query)
            for item in page.items:
                yield item
            if page.after is None:
                return
            query = query.next(page)

    def _item(self, key: str, **more: AttributeValue) -> dict[str, AttributeValue]:
        return {"pk": {"S": self._partition}, "sk": {"S": key}, **more}

    def _event_item(self, key: str, event: HookEvent) -> dict[str, AttributeValue]:
        return self._item(key, event={"S": event.id}, body={"S": event.body.decode()})


def _event(item: Item) -> HookEvent:
    try:
        return HookEvent(item["event"]["S"], item["body"]["S"].encode())
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(item, f"no event of a webhook: {error}") from None


def _text(item: Item, name: str) -> str | None:
    return str(item[name]["S"]) if name in item else None
