"""Layouts of counters in the table: found, made, remembered, and changed step by step.

`layout` has the steps and why they are safe; this module sends them.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ledger.core import amounts
from ledger.core.entry import Item, Key, damaged
from ledger.core.errors import (
    AmountOverflow,
    MethodConflict,
    RegionConflict,
    StoreError,
    Unreachable,
)
from ledger.primitives.counters import layout as layouts
from ledger.primitives.counters.layout import KIND_METHODS, KINDS, Layout, Shape, shard_key
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.store import writes
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import Retrier

REMEMBERED_MAX = 10_000
AT_ONCE = 16
ROUNDS_MAX = 12
"""How often a call looks at the layout while it, or others, make or change it."""


class Layouts:
    """The layouts that a process remembers, of the counters that it used last."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Layout] = OrderedDict()

    def get(self, name: str) -> Layout | None:
        """Return what is remembered of a counter; it may be outdated, which does no harm."""
        return self._known.get(name)

    def remember(self, name: str, layout: Layout) -> Layout:
        """Remember a layout, and forget the one that was remembered first of too many."""
        self._known[name] = layout
        self._known.move_to_end(name)
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return layout


class CounterLayout:
    """The layout of one counter, as one caller sees and wishes it."""

    def __init__(
        self,
        store: Store,
        name: str,
        kind: str,
        *,
        wanted: int,
        services: Services,
    ) -> None:
        self._store = store
        self._name = name
        self._kind = kind
        self._wanted = wanted
        self._clock = services.clock
        self.remembered = Layouts()
        self.is_guarded = False
        """Whether a counter that another region writes is refused."""
        self._retrier = Retrier.of(store, clock=services.clock, randomness=services.randomness)

    async def in_use(self) -> Layout:
        """Return the layout to write by, created or grown if it is not yet as wanted.

        Raises:
            MethodConflict: the table keeps the counter in items of another kind.
            RegionConflict: another region writes it.
            InvalidInput: that number of shards is not possible.
            Unreachable: there was no answer; the counter is unchanged.
        """
        layout = self.remembered.get(self._name)
        # What is remembered never refuses: it may be of this kind, or written here, by now.
        if layout is None or layout.kind != self._kind or self._is_elsewhere(layout):
            layout = self._checked(await self.renewed())
        if self.is_guarded and not layout.region:
            layout = await self._claimed()
        self._check_region(layout)
        if layout.shards < self._wanted:
            with suppress(AmountOverflow):  # no sum to be portioned: the wish stops no change
                grown = await self._change(Shape(self._kind, self._wanted), grow=True)
                layout = self._checked(grown)
        self._wanted = 1  # granted once: who makes them fewer later is not overruled
        return layout

    async def to_read(self, *, again: bool, consistent: bool) -> Layout | None:
        """Return the layout to read by, None for a counter never changed; nothing is written.

        With `again`, a remembered layout does not count.

        Raises:
            MethodConflict: as `in_use`.
        """
        layout = None if again else self.remembered.get(self._name)
        if layout is None or layout.kind != self._kind:
            layout = await self._read(consistent=consistent)
            if layout is not None:
                self.remembered.remember(self._name, layout)
        # What is not in the table yet may be made otherwise by others: it is not remembered.
        layout = layout or await self._left()
        return None if layout is None else self._checked(layout)

    async def renewed(self) -> Layout:
        """Return the table's layout, created if missing; a change under way is finished."""
        for rounds in range(1, ROUNDS_MAX + 1):
            layout = await self._read() or await self._begun()
            if layout.pending is None:
                return self.remembered.remember(self._name, layout)
            self._check_region(layout)
            if rounds == 1:  # those who began it are likely to be about to finish it
                await self._retrier.pause(rounds)
            else:
                await self._finish(layout, is_last=rounds == ROUNDS_MAX)
        raise self._unreachable()

    async def convert(self, shards: int | None) -> None:
        """Keep the counter in items of our kind, in this number, or as many as there are."""
        layout = await self.renewed()
        self._check_region(layout)
        await self._change(Shape(self._kind, layout.shards if shards is None else shards))

    async def hand_over(self, region: str, *, lost: str | None) -> None:
        """Let another region write the counter from now on; see `ItemCounter.hand_over`."""
        for name in (region,) if lost is None else (region, lost):
            layouts.checked_region(name)
        layout = await self._read() or await self._begun()
        if self.is_guarded and lost is None:
            self._check_region(layout)
        if lost is not None and layout.region not in {lost, region}:
            raise RegionConflict(
                f"counter {self._name!r} is written by {layout.region or 'any region'}, not by"
                f" {lost}, which is said to be lost"
            )
        await self._change(Shape(layout.kind, layout.shards, region), is_lost=lost is not None)

    async def _change(self, shape: Shape, *, grow: bool = False, is_lost: bool = False) -> Layout:
        """Give the counter this shape, or with `grow` at least this many shards.

        With `is_lost` what has not arrived here never will: the new layout is made without it.

        Raises:
            InvalidInput: such a change cannot be; nothing was written.
            RegionConflict: items that another region wrote have not arrived; nothing was written.
            Unreachable: there was no answer; any later call continues from where this one ended.
        """
        for rounds in range(1, ROUNDS_MAX + 1):
            layout = await self._read() or await self._begun()
            shape = shape._replace(region=shape.region or layout.region)
            is_last = rounds == ROUNDS_MAX
            if layout.pending is not None:
                await self._finish(layout, is_last=is_last)
            elif _is_made(layout, shape, grow=grow) and not (
                is_lost and layouts.is_missing(await self._in_force(layout), layout)
            ):
                return self.remembered.remember(self._name, layout)
            else:
                await self._announce(layout, shape, is_lost=is_lost)
        raise self._unreachable()

    async def _announce(self, layout: Layout, shape: Shape, *, is_lost: bool) -> None:
        """Begin a change: the one gate of every new layout, which its items must have reached."""
        layouts.checked_change(self._name, layout, shape)
        items = await self._items(self._touched(layout, shape))
        in_force = [items[key] for key in layouts.shard_keys(self._name, layout.shape)]
        if not is_lost and layouts.is_missing(in_force, layout):
            raise RegionConflict(
                f"counter {self._name!r} was handed over to {self._store.region}, and not all of"
                " its items have arrived here yet: repeat the call a little later"
            )
        # What cannot be read or added must not freeze the others.
        values = layouts.counted(self._name, layout, items, region=self._store.region)
        if shape[:2] != layout.shape[:2]:
            amounts.total(values)
        await self._store.write(layouts.announcement(self._name, layout, shape))

    async def _finish(self, layout: Layout, *, is_last: bool) -> None:
        """Do what is left of a change; others may do the same at the same time."""
        shape = layout.pending or layout.shape
        try:
            keys = self._touched(layout, shape)
            freezing = [layouts.freeze(key, layout.revision) for key in keys]
            await run_all([partial(self._answered, update) for update in freezing], at_once=AT_ONCE)
            items = await self._items(keys)
            if {layouts.revision_of(item) for item in items.values()} == {-(layout.revision + 1)}:
                now = int(self._clock.now().timestamp())
                actions = layouts.finishing(
                    self._name, layout, items, at=now, region=self._store.region
                )
                await self._retrier.until_answered(lambda: self._store.transact(actions))
        except StoreError:
            if is_last:
                raise

    async def _answered(self, write: writes.Write) -> None:
        await self._retrier.until_answered(lambda: self._store.write(write))

    def _touched(self, layout: Layout, shape: Shape) -> list[Key]:
        """Return the keys of all items that a change reads and writes."""
        keys = layouts.shard_keys(self._name, layout.shape) + layouts.shard_keys(self._name, shape)
        return list(dict.fromkeys(keys))

    async def _in_force(self, layout: Layout) -> list[Item | None]:
        """Return the items that the counter's value is in."""
        keys = layouts.shard_keys(self._name, layout.shape)
        return list((await self._items(keys)).values())

    async def _items(self, keys: Sequence[Key]) -> Mapping[Key, Item | None]:
        reads = [partial(self._store.get, Get(key)) for key in keys]
        return dict(zip(keys, await run_all(reads, at_once=AT_ONCE), strict=True))

    async def shown(self) -> Layout | None:
        """Return the table's layout as it is, whoever writes by it; None if there is none yet."""
        return await self._read()

    async def _read(self, *, consistent: bool = True) -> Layout | None:
        get = Get(layouts.layout_key(self._name), consistent=consistent)
        item = await self._store.get(get)
        return None if item is None else layouts.layout_of(item)

    async def _begun(self) -> Layout:
        """Store the first layout, unless another process did; return what is stored."""
        layout = await self._left() or Layout(self._kind, self._wanted)
        if self.is_guarded:
            layout = replace(layout, region=self._store.region)
        put = writes.Put(layouts.layout_item(self._name, layout), Absent())
        tries = self._retrier.begin("write")
        while True:
            await self._store.write(put)
            found = await self._read()
            if found is not None:
                tries.succeeded()
                return found
            if not await tries.again("unanswered"):
                raise self._unreachable()

    async def _left(self) -> Layout | None:
        """Return the layout of an item that another tool left; None without any.

        Raises:
            DamagedItem: an item is of a layout that was changed, and the layout's item is missing.
        """
        firsts = {kind: shard_key(self._name, 0, kind) for kind in KINDS}
        items = await self._items(list(firsts.values()))
        for item in filter(None, items.values()):
            if layouts.revision_of(item):
                raise damaged(item, "the item of its counter's layout is missing")
        kinds = [kind for kind, key in firsts.items() if items[key]]
        kind = layouts.kind_among(kinds, self._kind)
        return None if kind is None else Layout(kind, 1)

    async def _claimed(self) -> Layout:
        """Name our region as the one that writes, unless another was named before."""
        await self._answered(layouts.claim(self._name, self._store.region))
        return await self.renewed()

    def _is_elsewhere(self, layout: Layout) -> bool:
        return self.is_guarded and layout.region not in {"", self._store.region}

    def _check_region(self, layout: Layout) -> None:
        here = self._store.region
        if self._is_elsewhere(layout):
            raise RegionConflict(
                f"counter {self._name!r} is written by {layout.region}, and this is {here}: one"
                f" region writes a counter of this method, or changes are lost; write it there, or"
                f" let `hand_over({here!r})` of the counter there move it"
            )

    def _checked(self, layout: Layout) -> Layout:
        if layout.kind != self._kind:
            raise MethodConflict(
                f"counter {self._name!r} is kept by method {KIND_METHODS[layout.kind]}, not"
                f" {KIND_METHODS[self._kind]}: use that one, or `Table.convert_counter`"
            )
        return layout

    def _unreachable(self) -> Unreachable:
        text = f"counter {self._name!r}: no answer when its shards were arranged"
        return Unreachable.unanswered(text)


def _is_made(layout: Layout, shape: Shape, *, grow: bool) -> bool:
    """Return whether nothing is to be changed; with `grow`, also where nothing is to be added."""
    if grow and (layout.kind != shape.kind or layout.shards >= shape.shards):
        return True
    return layout.shape == shape
