"""A lane's item: how far it has come, what may be under way, and what is asked of it meanwhile.

It is a register: each write raises `rev`, on condition that the one read is still there. So what
one worker, an audit or an operator puts into it, no other overwrites unread.

- `position`: up to which everything is in map items;
- `form`: the fingerprint of the form (`Form.parts`) under which it was last opened, `open` for as
  long as records after `position` may be in states: read otherwise, they could be passed over;
- `begun`: of a source that gives up on records, as Lambda does, the first and the last record that
  were begun and not committed. The mark is never narrowed before the position has passed it, so a
  source that goes on elsewhere is found out::

      at 10   event (11..20): states written, killed, given up
              event (21..30): begun since 11, not committed, and not here: refused

  It catches a gap after the first record begun, or after the last one; not a piece missing in the
  middle of an event of which a part is committed and the rest was divided differently;
- `audit`, `retain`: while an audit runs, its number, and the position up to which others may take
  this lane's transitions for covered;
- `required`: while a rebuild runs, the fingerprint of the form whose categories it gives to states:
  under another one the lane is not opened;
- `at`: when its worker last wrote it, in seconds since 1970 by its machine's clock: what is open
  since then has not been committed;
- `forgotten`: states of records before this time, in whole seconds since 1970, are forgotten, or
  will be soon: those records are refused (`ledger.pipeline.core.age_horizon`); `forgotten_at`,
  since when that is in the item, by the clock of who wrote it; 0 for since its beginning;
- `states`: where the states lie that its workers write (`ledger.pipeline.core.state_places`);
- `closed`: an operator took the lane out of service; `resetting`: a reset did, until its end;
  `fence` counts the times that was done: a worker of before must forget what it knows of states.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from ledger.core.entry import AttributeValue, Item, damaged
from ledger.core.errors import LeftOut
from ledger.pipeline.core.items import position_key
from ledger.store.conditions import Absent, AllOf, Condition, Equals, Has, Not


class Span(NamedTuple):
    """Positions of records, from the first to the last."""

    first: str
    last: str


@dataclass(frozen=True, slots=True)
class LaneState:
    """The content of a lane's item; the default is a lane without an item."""

    rev: int = 0
    position: str = ""
    form: str = ""
    is_open: bool = False
    begun: Span | None = None
    audit: int = 0
    retain: str = ""
    is_closed: bool = False
    is_resetting: bool = False
    fence: int = 0
    required: str = ""
    at: int = 0
    states: str = ""
    forgotten: int = 0
    forgotten_at: int = 0

    @property
    def covers(self) -> str:
        """Up to which position the lane's open transitions may be dropped."""
        return self.retain if self.audit else self.position

    def opened(self, form: str, asked: Span | None = None) -> "LaneState":
        """Return the state under which a form may bring in what follows the position.

        Raises:
            LeftOut: `asked` passes over records that were begun and are not committed.
        """
        begun = self.begun if asked is None else joined(self.begun, self.position, asked)
        return replace(self, form=form, is_open=True, begun=begun)

    def moved(self, upto: str) -> "LaneState":
        """Return the state once all up to a position is committed; closed with what was begun."""
        is_over = self.begun is not None and self.begun.last <= upto
        return replace(
            self,
            position=upto,
            begun=None if is_over else self.begun,
            is_open=self.is_open and not is_over,
        )

    def is_begun_as(self, other: "LaneState") -> bool:
        """Return whether nothing but an audit, rebuild or forgetting came between two states.

        Work may go on then: what the batch was judged by still holds for as long as its writes are
        signed (`ledger.pipeline.auditing.forget`).
        """
        one, two = (
            replace(
                replace(state, rev=0, audit=0, retain="", is_open=False, required="", at=0),
                forgotten=0,
                forgotten_at=0,
            )
            for state in (self, other)
        )
        return not self.is_closed and one == two


def joined(known: Span | None, committed: str, asked: Span) -> Span:
    """Return the mark under which records after a committed position may be processed.

    Raises:
        LeftOut: other records begun, not committed, are in between.
    """
    if known is None or known.last <= committed:
        return asked
    missing = known.first if known.first > committed else known.last
    if asked.first > missing:
        raise LeftOut(
            f"the record at {missing.lstrip('0')} was in progress and is not in the totals, but the"
            f" stream goes on at {asked.first.lstrip('0')}: restart the event source mapping"
            " before it (StartingPosition), and see that the stream has one mapping, with a"
            " parallelization factor of 1; records that come again do no harm"
        )
    return Span(asked.first, max(asked.last, known.last))


def lane_item(lane: str, state: LaneState, pipeline: str = "") -> Item:
    """Return the item of a lane."""
    partition, sort_key = position_key(lane, pipeline)
    given: dict[str, AttributeValue | None] = {
        "position": {"S": state.position} if state.position else None,
        "rev": {"N": str(state.rev)},
        "form": {"S": state.form} if state.form else None,
        "open": {"BOOL": True} if state.is_open else None,
        "begun": {"L": [{"S": place} for place in state.begun]} if state.begun else None,
        "audit": {"N": str(state.audit)} if state.audit else None,
        "retain": {"S": state.retain} if state.audit and state.retain else None,
        "closed": {"BOOL": True} if state.is_closed else None,
        "resetting": {"BOOL": True} if state.is_resetting else None,
        "fence": {"N": str(state.fence)} if state.fence else None,
        "required": {"S": state.required} if state.required else None,
        "at": {"N": str(state.at)} if state.at else None,
        "states": {"S": state.states} if state.states else None,
        "forgotten": {"N": str(state.forgotten)} if state.forgotten else None,
        "forgotten_at": {"N": str(state.forgotten_at)} if state.forgotten_at else None,
    }
    kept = {name: value for name, value in given.items() if value is not None}
    return {"pk": {"S": partition}, "sk": {"S": sort_key}, **kept}


def lane_state_of(item: Item | None) -> LaneState:
    """Read a lane's item.

    Raises:
        DamagedItem: `rev` is missing, or an attribute is of another kind.
    """
    if item is None:
        return LaneState()
    try:
        return LaneState(
            rev=int(item["rev"]["N"]),
            position=_text(item, "position"),
            form=_text(item, "form"),
            is_open="open" in item,
            begun=Span(*(place["S"] for place in item["begun"]["L"])) if "begun" in item else None,
            audit=int(item.get("audit", {"N": "0"})["N"]),
            retain=_text(item, "retain"),
            is_closed="closed" in item,
            is_resetting="resetting" in item,
            fence=int(item.get("fence", {"N": "0"})["N"]),
            required=_text(item, "required"),
            at=int(item.get("at", {"N": "0"})["N"]),
            states=_text(item, "states"),
            forgotten=int(item.get("forgotten", {"N": "0"})["N"]),
            forgotten_at=int(item.get("forgotten_at", {"N": "0"})["N"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(item, f"an attribute of a lane cannot be read: {error!r}") from None


def still(state: LaneState) -> Condition:
    """Return the condition that a lane's item is unchanged."""
    place = Equals("position", {"S": state.position}) if state.position else Not(Has("position"))
    return AllOf((Equals("rev", {"N": str(state.rev)}), place)) if state.rev else Absent()


def _text(item: Item, name: str) -> str:
    text = item.get(name, {"S": ""})["S"]
    if not isinstance(text, str):
        raise TypeError(name)
    return text
