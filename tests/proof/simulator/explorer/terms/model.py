"""States and steps of a change of the terms; see the package for what they stand for.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from ledger.core.contract import Terms, Validity, is_waited, seconds_to_wait, stricter

NONE = -1
"""The age of what is not there."""
IN_FORCE_OLD, ANNOUNCED, IN_FORCE_NEW = 0, 1, 2
VIEW_LIFE = 2.0
SIGNATURE_LIFE = 2.0

_READ_AT = datetime(2026, 1, 1, tzinfo=UTC)
_VALIDITY = Validity.of_read(_READ_AT, 0.0, contract_life=VIEW_LIFE)

_TERMS = Terms(
    format=1,
    home="home",
    regions=("home", "other"),
    settle=5.0,
    retry_horizon=2.0,
    signature_lifetime=SIGNATURE_LIFE,
    clock_skew=0.0,
    observation_delay=2.0,
    read_deadline=1.0,
)
SHORT = _TERMS
LONG = replace(_TERMS, settle=9.0, retry_horizon=6.0, observation_delay=7.0, read_deadline=6.0)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of terms with one rule broken; `what` describes it, on a subject that shows it.

    `signs_late`: requests rest on views of any age. `forgets_life`: the wait leaves the lifetime of
    signatures out. `takes_newer`: while a change is pending the new terms are obeyed, not the
    stricter. `counts_on`: the wait counts from the announcement, not from the own look.
    `forgets_begin`: a read ends by the deadline known at its end, whichever it began with.
    """

    what: str
    subject: str
    grows: bool
    signs_late: bool = False
    forgets_life: bool = False
    takes_newer: bool = False
    counts_on: bool = False
    forgets_begin: bool = False


NO_MUTANT = Mutant("no rule is broken", "", grows=False)
MUTANTS: Mapping[str, Mutant] = {
    "old-view": Mutant(
        "a request is signed under a view older than `contract_life`",
        "writes",
        grows=False,
        signs_late=True,
    ),
    "old-view-of-a-reader": Mutant(
        "a page is read under a view older than `contract_life`",
        "reads",
        grows=False,
        signs_late=True,
    ),
    "no-signature-life": Mutant(
        "a change is in force without a wait for what was signed before",
        "writes",
        grows=False,
        forgets_life=True,
    ),
    "newer-when-shorter": Mutant(
        "while pending, the shorter settle is obeyed, being the newer",
        "writes",
        grows=False,
        takes_newer=True,
    ),
    "newer-when-longer": Mutant(
        "while pending, the longer horizon is obeyed, being the newer",
        "writes",
        grows=True,
        takes_newer=True,
    ),
    "newer-hold": Mutant(
        "while pending, the shorter hold is obeyed, being the newer",
        "reads",
        grows=False,
        takes_newer=True,
    ),
    "newer-deadline": Mutant(
        "while pending, the longer deadline of reads is obeyed, being the newer",
        "reads",
        grows=True,
        takes_newer=True,
    ),
    "wait-of-another": Mutant(
        "the operator who finishes a change counts from the announcement",
        "writes",
        grows=False,
        counts_on=True,
    ),
    "deadline-of-the-end": Mutant(
        "a read goes on by a longer deadline that came in force after it began",
        "reads",
        grows=True,
        forgets_begin=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """What is explored: `writes` or `reads`, and whether the durations grow or shrink."""

    subject: str = "writes"
    grows: bool = False
    mutant: Mutant = NO_MUTANT

    @staticmethod
    def of_mutant(mutant: Mutant) -> "Case":
        """Return the case in which a mutant shows."""
        return Case(mutant.subject, mutant.grows, mutant)


CASES: Mapping[str, Case] = {
    "writes-longer": Case("writes", grows=True),
    "writes-shorter": Case("writes", grows=False),
    "reads-longer": Case("reads", grows=True),
    "reads-shorter": Case("reads", grows=False),
}


class Seen(NamedTuple):
    """A process's view of the contract: the revision, and how long ago it was read."""

    revision: int = IN_FORCE_OLD
    age: int = 0


class State(NamedTuple):
    """One state; ages in units of time, NONE for what is not there.

    `home` and `other` are the revisions that the regions show; `announced` and `looked` the ages of
    the announcement and of the finishing operator's look. The process is the writer or the reader.
    `change`, `request` and `fold` are the change, and what is signed and on its way; `read` and
    `observation` are under way; `began` is the revision known when the read began;
    `overlaps` if that was before the observation, `crossed` if the read met the act.
    """

    home: int = IN_FORCE_OLD
    other: int = IN_FORCE_OLD
    announced: int = NONE
    looked: int = NONE
    process: Seen = Seen()
    compactor: Seen = Seen()
    change: int = NONE
    request: int = NONE
    fold: int = NONE
    folded: bool = False
    read: int = NONE
    began: int = IN_FORCE_OLD
    observation: int = NONE
    overlaps: bool = False
    crossed: bool = False


class Step(NamedTuple):
    """What happens, the state after it, and what is wrong then; empty if nothing is."""

    label: str
    state: State
    wrong: str = ""


class Model:
    """The steps of one case; see `walk.Walkable`."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._mutant = case.mutant
        self._old, self._new = (SHORT, LONG) if case.grows else (LONG, SHORT)
        pending = stricter(self._old, self._new)
        if case.mutant.takes_newer:
            pending = self._new
        self._terms = (self._old, pending, self._new)
        self._wait_max = int(self._wait()) + 1

    def initial(self) -> State:
        """Return the state in which the old terms are in force and known."""
        return State()

    def key(self, state: State) -> Hashable:
        """Return the key of a state: the state."""
        return state

    def state(self, key: State) -> State:
        """Return the state of a key."""
        return key

    def is_finished(self, state: State) -> bool:
        """Return whether every region shows the new terms in force."""
        return state.home == state.other == IN_FORCE_NEW

    def described(self, step: Step) -> str:
        """Return one line: what happens, and what is known after it."""
        state = step.state
        return (
            f"{step.label:44} revisions {state.home}/{state.other}, known {state.process.revision}"
            f" for {state.process.age}, compactor {state.compactor.revision} for"
            f" {state.compactor.age}"
        )

    def steps(self, state: State) -> Iterator[Step]:
        """Yield everything that may happen next."""
        yield Step("time passes", self._later(state))
        yield from self._contract(state)
        fresh = Seen(max(state.process.revision, state.other))
        yield Step("the process reads the contract", state._replace(process=fresh))
        fresh = Seen(max(state.compactor.revision, state.home))
        yield Step("the compactor reads the contract", state._replace(compactor=fresh))
        yield from (self._writes if self._case.subject == "writes" else self._reads)(state)

    # The contract and time.

    def _contract(self, state: State) -> Iterator[Step]:
        if state.home == IN_FORCE_OLD:
            announced = 0 if self._mutant.counts_on else NONE
            after = state._replace(home=ANNOUNCED, announced=announced)
            yield Step("the change is announced", after)
        if state.other < state.home:
            yield Step("a revision arrives", state._replace(other=state.home))
        if state.home == ANNOUNCED == state.other:
            yield Step("an operator looks at all regions", state._replace(looked=0))
            since = state.announced if self._mutant.counts_on else state.looked
            if state.looked != NONE and self._is_waited(since):
                after = state._replace(home=IN_FORCE_NEW, announced=NONE, looked=NONE)
                yield Step("the change is in force", after)

    def _is_waited(self, since: int) -> bool:
        if self._mutant.forgets_life:
            return since > self._wait() - SIGNATURE_LIFE
        return is_waited(
            self._old, self._new, looked_at=0.0, now=float(since), contract_life=VIEW_LIFE
        )

    def _wait(self) -> float:
        return seconds_to_wait(self._old, self._new, contract_life=VIEW_LIFE)

    def _later(self, state: State) -> State:
        """Let one unit of time pass; what was signed too long ago is refused from now on."""
        return state._replace(
            announced=_older(state.announced, self._wait_max),
            looked=_older(state.looked, self._wait_max),
            process=self._seen_older(state.process),
            compactor=self._seen_older(state.compactor),
            change=_older(state.change, int(LONG.settle) + 1),
            request=_signed_older(state.request),
            fold=_signed_older(state.fold),
            read=_older(state.read, int(LONG.read_deadline) + 1),
            observation=_older(state.observation, int(LONG.observation_delay)),
        )

    def _seen_older(self, seen: Seen) -> Seen:
        return seen._replace(age=min(seen.age + 1, int(VIEW_LIFE) + 1))

    def _may_sign(self, seen: Seen) -> bool:
        is_too_old = _VALIDITY.is_over(_READ_AT, elapsed=float(seen.age))
        return not is_too_old or self._mutant.signs_late

    # Writes.

    def _writes(self, state: State) -> Iterator[Step]:
        if state.change == NONE:
            yield Step("a change is made and lands", state._replace(change=0))
            return
        terms = self._terms[state.process.revision]
        if self._may_sign(state.process) and state.change <= terms.retry_horizon:
            yield Step("a retry is signed", state._replace(request=0))
        if state.request != NONE:
            wrong = "a retry lands after its change was folded: counted twice"
            after = state._replace(request=NONE)
            yield Step("the retry lands", after, wrong if state.folded else "")
        terms = self._terms[state.compactor.revision]
        if self._may_sign(state.compactor) and state.change > terms.settle and not state.folded:
            yield Step("a fold is signed", state._replace(fold=0))
        if state.fold != NONE:
            yield Step("the fold lands", state._replace(fold=NONE, folded=True))

    # Reads.

    def _reads(self, state: State) -> Iterator[Step]:
        yield from self._compactor_reads(state)
        if state.read == NONE:
            if self._may_sign(state.process):
                after = state._replace(read=0, began=state.process.revision)
                yield Step("a read begins", after)
            return
        after = state._replace(read=NONE, began=IN_FORCE_OLD, overlaps=False, crossed=False)
        yield Step("the read is given up", after)
        known = {state.process.revision, state.began}
        if self._mutant.forgets_begin:
            known = {state.process.revision}
        deadline = min(self._terms[revision].read_deadline for revision in known)
        if self._may_sign(state.process) and state.read <= deadline:
            wrong = "a read ends after what it began to read was replaced"
            yield Step("the read ends", after, wrong if state.crossed else "")

    def _compactor_reads(self, state: State) -> Iterator[Step]:
        overlaps = state.read != NONE
        yield Step("the compactor observes", state._replace(observation=0, overlaps=overlaps))
        terms = self._terms[state.compactor.revision]
        is_held = NONE != state.observation >= terms.observation_delay
        if self._may_sign(state.compactor) and is_held:
            after = state._replace(
                observation=NONE, overlaps=False, crossed=state.crossed or state.overlaps
            )
            yield Step("the compactor acts", after)


def _older(age: int, most: int) -> int:
    return age if age == NONE else min(age + 1, most)


def _signed_older(age: int) -> int:
    return NONE if age == NONE or age >= SIGNATURE_LIFE else age + 1
