"""Optimistic counters: read, then `SET` on condition that no other write came in between.

Every writer leaves its own tag. What an item shows after a write without an answer::

    the tag before, still the newest    not applied so far: the same again, on the same condition
    ours among the tags                 applied
    the one before among the tags,      not applied, and never will be: the condition is false for
    ours not                            good, since tags are unique
    neither                             ambiguous: both may have been pushed out by later writers

With only the newest tag (`optimistic`) a single write of another makes it ambiguous; with a
history (`history`) as many as it keeps. A change of several shards is one transaction on all their
tags: what one of them shows is true of all.

A write is also conditional on the item's layout and number of moves (`shard_balance`), which never
come again: once they are others than were read, it was applied before, or never will be.

The optimistic counter with history: the item remembers its latest writers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Literal

from ledger.core import amounts
from ledger.core.entry import Item, damaged
from ledger.core.errors import InvalidInput, StoreError
from ledger.primitives.counters.counter import (
    EXACT_LIMITS,
    FIRST_USE,
    SINGLE_ITEM_REGIONS,
    Guarantees,
)
from ledger.primitives.counters.item_counter import ItemCounter
from ledger.primitives.counters.layout import (
    LAYOUT,
    MOVES,
    Layout,
    LayoutMoved,
    moves_of,
    revision_of,
    stands,
)
from ledger.primitives.counters.new_tokens import tag_nonce
from ledger.primitives.counters.thresholds import VALUE, ThresholdPart
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.store import writes
from ledger.store.conditions import AllOf, AnyOf, Condition, Equals, Has, Not
from ledger.store.port import Store
from ledger.store.retry import Backoff
from ledger.store.writes import Applied, Outcome, Rejected, Unknown

TAG = "entityTag"
RECENT = "recent"
START = "start"
"""The tag of an item that no optimistic method has written."""
AT_ONCE = 16
_MARK = "#"

Verdict = Literal["applied", "unchanged", "overtaken", "ambiguous"]


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value and the tags of its latest writers, the newest first."""

    value: Decimal
    tags: tuple[str, ...]
    revision: int = 0
    moves: int = 0

    def knows(self, token: str) -> bool:
        """Return whether one of the writers had this token."""
        return any(tag.partition(_MARK)[2] == token for tag in self.tags)


def new_tag(unique: str, token: str | None) -> str:
    """Return a writer's tag: unique, so that no condition becomes true again."""
    return unique if token is None else f"{unique}{_MARK}{token}"


def tagged_of(item: Item | None, value: Decimal) -> Tagged:
    """Read the tags of an item.

    Raises:
        DamagedItem: they are not in our form.
    """
    revision, moves = revision_of(item), moves_of(item)
    if item is None or not (TAG in item or RECENT in item):
        return Tagged(value, (START,), revision, moves)
    newest = item.get(TAG, {}).get("S")
    older = item.get(RECENT, {"L": []}).get("L")
    if not isinstance(newest, str) or not isinstance(older, list):
        raise damaged(item, f"{TAG} and {RECENT} are not in the form of an optimistic counter")
    return Tagged(value, (newest, *(tag.get("S", "") for tag in older)), revision, moves)


def judge(before: Tagged, now: Tagged, tag: str) -> Verdict:
    """Return the fate of a write under `tag` on condition of what an item showed before."""
    if tag in now.tags:
        return "applied"
    if now.tags[0] == before.tags[0]:
        if (now.revision, now.moves) != (before.revision, before.moves):
            return "overtaken"
        # Without a tag the value is the condition, and others may give it that value again.
        return "unchanged" if now.value == before.value else "ambiguous"
    return "overtaken" if before.tags[0] in now.tags else "ambiguous"


def judge_all(before: Sequence[Tagged], now: Sequence[Tagged], tag: str) -> Verdict:
    """Return the fate of a write of several items, all or none."""
    verdicts = {judge(*pair, tag) for pair in zip(before, now, strict=True)}
    if len(verdicts) == 1:
        return verdicts.pop()
    # One that is unchanged shows that it was not applied so far; another, that it cannot be later.
    return "applied" if "applied" in verdicts else "overtaken"


class OptimisticCounter(ItemCounter):
    """A value read, changed, and written back if no other write came in between."""

    kind = "optimistic"
    known_in = "item"
    splits = True
    tags_max: int = 1
    backoff = Backoff()
    guarantees = Guarantees(
        unknown="Never counts twice. Stays Unknown if another has written before the item is read"
        " again.",
        tokens="Recognized while its write is the newest; after another's it counts again.",
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS,
        cost="Each lost race costs a write unit; writers at one item get in each other's way."
        + FIRST_USE,
        write_units=1,
        read_units=1,
        value_units=1,
    )

    async def _add(self, parts: Sequence[ThresholdPart], token: str | None) -> Outcome:
        seen = await self._read(parts)
        if token is not None and any(tagged.knows(token) for tagged in seen):
            return Rejected("applied before")
        return await self._add_until_known(parts, seen, token)

    async def knows(self, shard: int, token: str) -> bool:
        """Return whether the tags of a shard's item have this token."""
        return self._tagged(await self.item(shard)).knows(token)

    def _may_be_late(self, layout: Layout) -> bool:
        """Return whether tokens may be in shards that are no longer in force."""
        return bool(layout.earlier)

    async def corrections(self, parts: Sequence[ThresholdPart]) -> list[writes.Action]:
        """Return the writes that make the parts of a change, if no other comes in between."""
        seen = await self._read(parts)
        _check_layout(parts, seen)
        if any(not _allows(*pair) for pair in zip(parts, seen, strict=True)):
            raise LayoutMoved  # by others, since the parts were chosen: to be looked at again
        tag = new_tag(tag_nonce(self.randomness), None)
        return [
            self._update(part, one, tag, amounts.total([one.value, part.change]))
            for part, one in zip(parts, seen, strict=True)
        ]

    async def _add_until_known(
        self, parts: Sequence[ThresholdPart], seen: Sequence[Tagged], token: str | None
    ) -> Outcome:
        """Write until one write is known to be applied, or none can be.

        `doubt` is the cause of an unanswered write on the state seen; while there is one, no other
        state is built upon.
        """
        tag, doubt = new_tag(tag_nonce(self.randomness), token), None
        unanswered = self.retrier.begin("write")
        for tries in range(1, self.backoff.tries_max + 1):
            _check_layout(parts, seen)
            if any(not _allows(*pair) for pair in zip(parts, seen, strict=True)):
                return Rejected("threshold", str(self.limits))
            now, doubt = await self._write(parts, seen, tag, doubt)
            match judge_all(seen, now, tag):
                case "applied":
                    value = now[0].value if len(now) == 1 and now[0].tags[0] == tag else None
                    return Applied(value=value)
                case "ambiguous" if doubt is not None:
                    return Unknown(
                        f"{doubt}; others have written since, so its outcome cannot be determined"
                    )
                case "overtaken" | "ambiguous":
                    seen, doubt = now, None
            if doubt is None:
                await self.retrier.pause(tries)
            elif not await unanswered.again("unanswered"):
                break
        if doubt is not None:
            return Unknown(doubt, token)
        return Rejected("contention", f"others were first {self.backoff.tries_max} times")

    async def _write(
        self, parts: Sequence[ThresholdPart], seen: Sequence[Tagged], tag: str, doubt: str | None
    ) -> tuple[Sequence[Tagged], str | None]:
        """Write based on what was seen; returns what the items then show, and open doubts."""
        after = [
            amounts.total([one.value, part.change]) for one, part in zip(seen, parts, strict=True)
        ]
        updates = [
            self._update(part, one, tag, value)
            for part, one, value in zip(parts, seen, after, strict=True)
        ]
        try:
            if len(updates) == 1:
                outcome = await self.store.write(updates[0])
            else:
                outcome = await self.store.transact(updates)
            if isinstance(outcome, Applied):
                return [Tagged(value, (tag,)) for value in after], None
            doubt = outcome.cause if isinstance(outcome, Unknown) else doubt
            return await self._shown(parts, outcome), doubt
        except StoreError:
            if doubt is None:
                raise  # nothing was written
            return seen, doubt

    async def _shown(self, parts: Sequence[ThresholdPart], outcome: Outcome) -> Sequence[Tagged]:
        """Return what the items showed to a rejected write, or show now."""
        if len(parts) == 1 and isinstance(outcome, Rejected) and outcome.found[0] is not None:
            return [self._tagged(outcome.found[0])]
        return await self._read(parts)

    async def _read(self, parts: Sequence[ThresholdPart]) -> Sequence[Tagged]:
        reads = [partial(self.item, part.shard) for part in parts]
        items: Sequence[Item | None] = await run_all(reads, at_once=AT_ONCE)
        return [self._tagged(item) for item in items]

    def _tagged(self, item: Item | None) -> Tagged:
        return tagged_of(item, self.value_in(item))

    def _update(self, part: ThresholdPart, seen: Tagged, tag: str, after: Decimal) -> writes.Update:
        older = [{"S": tag} for tag in seen.tags[: self.tags_max - 1]]
        return writes.Update(
            self.key(part.shard),
            set={
                VALUE: {"N": amounts.to_text(after)},
                TAG: {"S": tag},
                **({RECENT: {"L": older}} if self.tags_max > 1 else {}),
            },
            condition=AllOf(
                (_is_as_seen(seen), stands(LAYOUT, part.revision), stands(MOVES, seen.moves))
            ),
        )


def _check_layout(parts: Sequence[ThresholdPart], seen: Sequence[Tagged]) -> None:
    """Raise LayoutMoved if an item belongs to another layout: no write of ours can be applied."""
    if any(one.revision != part.revision for part, one in zip(parts, seen, strict=True)):
        raise LayoutMoved


def _allows(part: ThresholdPart, seen: Tagged) -> bool:
    return part.limits.allows(seen.value, part.change)


def _is_as_seen(seen: Tagged) -> Condition:
    """Return the condition that no other has written since; without a tag it is the value."""
    if seen.tags[0] != START:
        return Equals(TAG, {"S": seen.tags[0]})
    value: Condition = Equals(VALUE, {"N": amounts.to_text(seen.value)})
    if not seen.value:
        value = AnyOf((Not(Has(VALUE)), value))
    return AllOf((Not(Has(TAG)), value))


TAGS_LIMIT = 100
TAGS_MAX = 12
"""With tokens of `new_token` the item is then still within the first KB."""


class HistoryCounter(OptimisticCounter):
    """An optimistic counter whose item keeps the tags of its latest `tags_max` writers (12).

    All processes of a counter should keep as many: each keeps only its own number.

    Raises:
        InvalidInput: `tags_max` is not a whole number from 2 to 100.
    """

    kind = "history"
    guarantees = Guarantees(
        unknown="Never counts twice. Stays Unknown only if that many others have written before the"
        f" item is read again that its tag was pushed out: {TAGS_MAX} or more.",
        tokens=f"Recognized while its write is among the latest {TAGS_MAX}; then counts again.",
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS,
        cost="As optimistic; with long tokens the item is over 1 KB, and each write costs more."
        + FIRST_USE,
        write_units=1,
        read_units=1,
        value_units=1,
    )

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        services: Services,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
        shards: int | None = None,
        tags_max: int = TAGS_MAX,
    ) -> None:
        super().__init__(
            store,
            name,
            services=services,
            minimum=minimum,
            maximum=maximum,
            shards=shards,
        )
        self.tags_max = _checked_tags(tags_max)


def _checked_tags(tags_max: int) -> int:
    whole = isinstance(tags_max, int) and not isinstance(tags_max, bool)
    if not (whole and 2 <= tags_max <= TAGS_LIMIT):  # noqa: PLR2004 (one is the optimistic counter)
        raise InvalidInput(
            f"tags_max must be a whole number from 2 to {TAGS_LIMIT}, got {tags_max!r}"
        )
    return tags_max
