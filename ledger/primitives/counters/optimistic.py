"""Optimistic counters: read, then `SET` on condition that no other write came in between.

Every writer leaves a tag of its own. What an item shows after a write without an answer::

    the tag before, still the newest    not applied so far: the same again, on the same condition
    ours among the tags                 applied
    the one before among the tags,      not applied, and never will be: the condition is false for
    ours not                            good, since tags are unique
    neither                             ambiguous: both may have been pushed out by later writers

With the newest tag alone (`optimistic`) a single write of another makes it ambiguous; with a
history (`history`) as many as it keeps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Literal

from ledger.core import amounts
from ledger.core.entry import Item, damaged
from ledger.core.errors import StoreError
from ledger.primitives.counters.counter import EXACT_LIMITS, SINGLE_ITEM_REGIONS, Guarantees
from ledger.primitives.counters.items import ItemCounter
from ledger.primitives.counters.limits import VALUE, Part
from ledger.primitives.counters.tokens import tag_nonce
from ledger.store import writes
from ledger.store.conditions import Absent, Equals
from ledger.store.reads import Get
from ledger.store.retry import Backoff
from ledger.store.writes import Applied, Outcome, Rejected, Unknown

TAG = "entityTag"
RECENT = "recent"
START = "start"
"""The tag of an item that is not there yet."""
_MARK = "#"

Verdict = Literal["applied", "unchanged", "overtaken", "ambiguous"]


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value and the tags of its latest writers, the newest first."""

    value: Decimal
    tags: tuple[str, ...]

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
    if item is None:
        return Tagged(value, (START,))
    newest = item.get(TAG, {}).get("S")
    older = item.get(RECENT, {"L": []}).get("L")
    if not isinstance(newest, str) or not isinstance(older, list):
        raise damaged(item, f"{TAG} and {RECENT} are not in the form of an optimistic counter")
    return Tagged(value, (newest, *(tag.get("S", "") for tag in older)))


def judge(before: Tagged, now: Tagged, tag: str) -> Verdict:
    """Return the fate of a write under `tag` on condition of the newest tag before."""
    if tag in now.tags:
        return "applied"
    if now.tags[0] == before.tags[0]:
        return "unchanged"
    return "overtaken" if before.tags[0] in now.tags else "ambiguous"


class OptimisticCounter(ItemCounter):
    """A value read, changed, and written back if no other write came in between."""

    kind = "optimistic"
    known_in = "item"
    tags_max: ClassVar[int] = 1
    backoff = Backoff()
    guarantees = Guarantees(
        unknown="Never counts twice. Stays Unknown if another has written before the item is read"
        " again.",
        tokens="Recognized while its write is the newest; after another's it counts again.",
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS,
        cost="Each lost race costs a write unit; writers at one item get in each other's way.",
        write_units=1,
        read_units=1,
        value_units=1,
    )

    async def _add(self, parts: Sequence[Part], token: str | None) -> Outcome:
        (part,) = parts
        seen = await self._read(part.shard)
        if token is not None and seen.knows(token):
            return Rejected("applied before")
        return await self._add_until_known(part, seen, token)

    async def _add_until_known(self, part: Part, seen: Tagged, token: str | None) -> Outcome:
        """Write until one write is known to be applied, or none can be.

        `doubt` is the cause of an unanswered write on the state seen; while there is one, no other
        state is built upon.
        """
        tag, doubt = new_tag(tag_nonce(self.randomness), token), None
        unanswered = self.retrier.begin("write")
        for tries in range(1, self.backoff.tries_max + 1):
            if not part.limits.allows(seen.value, part.change):
                return Rejected("threshold", str(part.limits))
            now, doubt = await self._write(part, seen, tag, doubt)
            match judge(seen, now, tag):
                case "applied":
                    return Applied(value=now.value if now.tags[0] == tag else None)
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
        self, part: Part, seen: Tagged, tag: str, doubt: str | None
    ) -> tuple[Tagged, str | None]:
        """Write on what was seen; returns what the item shows then, and what is in doubt."""
        after = amounts.total([seen.value, part.change])
        try:
            outcome = await self.store.write(self._update(part.shard, seen, tag, after))
            if isinstance(outcome, Applied):
                return Tagged(after, (tag,)), None
            doubt = outcome.cause if isinstance(outcome, Unknown) else doubt
            return await self._shown(part.shard, outcome), doubt
        except StoreError:
            if doubt is None:
                raise  # nothing was written
            return seen, doubt

    async def _shown(self, shard: int, outcome: Outcome) -> Tagged:
        """Return what the item showed to a rejected write, or shows now."""
        if isinstance(outcome, Rejected) and outcome.found[0] is not None:
            return self._tagged(outcome.found[0])
        return await self._read(shard)

    async def _read(self, shard: int) -> Tagged:
        return self._tagged(await self.store.get(Get(self.key(shard), consistent=True)))

    def _tagged(self, item: Item | None) -> Tagged:
        return tagged_of(item, self.value_in(item))

    def _update(self, shard: int, seen: Tagged, tag: str, after: Decimal) -> writes.Update:
        newest = seen.tags[0]
        older = [{"S": tag} for tag in seen.tags[: self.tags_max - 1]]
        return writes.Update(
            self.key(shard),
            set={
                VALUE: {"N": amounts.to_text(after)},
                TAG: {"S": tag},
                **({RECENT: {"L": older}} if self.tags_max > 1 else {}),
            },
            condition=Absent() if newest == START else Equals(TAG, {"S": newest}),
        )
