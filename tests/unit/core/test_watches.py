"""Watches: when a total is past a bound, and what follows from it in each phase."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, InvalidAmount, InvalidInput
from ledger.core.watches import (
    Phase,
    Step,
    Watch,
    WatchState,
    crossing_of,
    decide,
    state_item,
    state_key,
    state_of,
)
from ledger.testing.clock import START

REPEAT = timedelta(seconds=120)
LOW = Watch.of("low", "stock-*", below=10, rearm=20)
HIGH = Watch.of("high", "credit-*", above=100, rearm=80)
PLAIN = Watch.of("plain", "stock-7", below=10)
ARMED = WatchState(number=3, stamp="a")
CROSSED = WatchState().crossed(Decimal(9), at=START, stamp="c")
DELIVERED = CROSSED.entered(Phase.DELIVERED, stamp="d")


@pytest.mark.parametrize(
    ("watch", "state", "total", "later", "step"),
    [
        (LOW, WatchState(), 9, 0, Step.CROSS),
        (LOW, ARMED, 9, 0, Step.CROSS),
        (LOW, ARMED, 10, 0, Step.NOTHING),
        (LOW, ARMED, 25, 0, Step.NOTHING),
        (LOW, CROSSED, 9, 119, Step.NOTHING),
        (LOW, CROSSED, 9, 120, Step.DELIVER),
        (LOW, CROSSED, 25, 119, Step.NOTHING),
        (LOW, CROSSED, 25, 120, Step.DELIVER),
        (LOW, CROSSED, 9, -120, Step.DELIVER),
        (LOW, DELIVERED, 9, 999, Step.NOTHING),
        (LOW, DELIVERED, 10, 999, Step.NOTHING),
        (LOW, DELIVERED, 19, 0, Step.NOTHING),
        (LOW, DELIVERED, 20, 0, Step.REARM),
        (PLAIN, DELIVERED, 10, 0, Step.REARM),
        (PLAIN, ARMED, 10, 0, Step.NOTHING),
        (HIGH, ARMED, 100, 0, Step.NOTHING),
        (HIGH, ARMED, 101, 0, Step.CROSS),
        (HIGH, DELIVERED, 81, 0, Step.NOTHING),
        (HIGH, DELIVERED, 80, 0, Step.REARM),
    ],
)
def test_what_follows_from_a_total(
    watch: Watch, state: WatchState, total: int, later: int, step: Step
) -> None:
    """Crossed past the bound, armed again at `rearm`, delivered again only if not confirmed."""
    now = START + timedelta(seconds=later)
    assert decide(watch, state, Decimal(total), now=now, repeat_after=REPEAT) is step


def test_a_crossing_has_the_next_number_and_keeps_its_id() -> None:
    """Delivered again, it is the same crossing; the next one has another number."""
    first = crossing_of(LOW, "stock-7", CROSSED)
    later = START + REPEAT
    again = CROSSED.claimed_again(at=later, stamp="e")
    repeated = crossing_of(LOW, "stock-7", again, repeated=True)
    assert (repeated.id, repeated.at, repeated.value) == (first.id, START, Decimal(9))
    assert again.claimed == later
    following = DELIVERED.entered(Phase.ARMED, stamp="f").crossed(Decimal(8), at=later, stamp="g")
    assert (first.number, following.number) == (1, 2)
    assert crossing_of(LOW, "stock-7", following).id != first.id
    assert (first.repeated, following.at, following.claimed) == (False, later, later)
    assert (again.stamp, DELIVERED.entered(Phase.ARMED, stamp="f").stamp) == ("e", "f")
    assert first.sentence == "watch 'low': 'stock-7' is 9, below 10 (crossing 1)"


@pytest.mark.parametrize("state", [ARMED, CROSSED, DELIVERED])
def test_a_state_comes_back_from_its_item(state: WatchState) -> None:
    """Written and read it is the same; without an item a counter is armed."""
    assert state_of(state_item(state_key("low", "stock-7"), state)) == state
    assert state_of(None) == WatchState()


@pytest.mark.parametrize(
    "broken",
    [
        {"phase": {"S": "asleep"}},
        {"stamp": {"N": "1"}},
        {"number": {"S": "1"}},
        {"at": {"S": "yesterday"}},
        {"value": {}},
    ],
)
def test_an_item_of_another_form_is_damaged(broken: Item) -> None:
    """A state that cannot be read is an error, never an armed watch."""
    item = {**state_item(state_key("low", "stock-7"), CROSSED), **broken}
    with pytest.raises(DamagedItem, match=r"stock-7.*~watch~low"):
        state_of(item)


def test_a_watch_without_a_name_is_called_by_its_pattern_and_bound() -> None:
    """So processes that run the same code share its state."""
    assert Watch.of(None, "stock-*", below=Decimal("9.50")).name == "stock-* below 9.5"
    assert Watch.of(None, "stock-*", above=7).name == "stock-* above 7"
    assert [LOW.counter, PLAIN.counter] == [None, "stock-7"]
    assert LOW.matches("stock-1")
    assert not LOW.matches("stick-1")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Watch.of("n", "c"), "either below or above"),
        (lambda: Watch.of("n", "c", below=1, above=2), "either below or above"),
        (lambda: Watch.of("n", "c", below=10, rearm=9), r"rearm \(9\) must not be below"),
        (lambda: Watch.of("n", "c", above=10, rearm=11), r"rearm \(11\) must not be above"),
        (lambda: Watch.of("", "c", below=1), "the name of a watch must have 1 to 255"),
        (lambda: Watch.of("n" * 256, "c", below=1), "the name of a watch must have 1 to 255"),
        (lambda: Watch.of("n\n", "c", below=1), "the name of a watch must have 1 to 255"),
        (lambda: Watch.of("n", "", below=1), "the pattern of a watch must have 1 to 255"),
        (lambda: Watch.of("n", "~a*", below=1), "must not begin with '~', .* got '~a\\*'"),
    ],
)
def test_a_watch_that_makes_no_sense_is_refused(make: Callable[[], Watch], problem: str) -> None:
    """The message has the rule and the value."""
    with pytest.raises(InvalidInput, match=problem):
        make()


def test_what_is_just_allowed() -> None:
    """A bound may be its own `rearm`, and a name may have 255 bytes."""
    assert Watch.of("n" * 255, "c", below=1, rearm=1) == Watch.of("n" * 255, "c", below=1)
    assert Watch.of("n", "c", above=1, rearm=1).rearm == 1


def test_a_float_is_no_bound() -> None:
    """Bounds are exact, as amounts are."""
    with pytest.raises(InvalidAmount):
        Watch.of("n", "c", below=0.5)  # type: ignore[arg-type]


@dataclass(slots=True)
class Model:
    """One state item, and processes that read it, read a total, write, deliver, and crash.

    A process holds the state that it read first and the total that it read after it, for as long
    as the drawn steps leave it there.
    """

    is_conditional: bool = True
    shown: WatchState = field(default_factory=WatchState)
    total: int = 50
    now: int = 0
    writes: int = 0
    held: dict[int, tuple[WatchState, Decimal | None]] = field(default_factory=dict)
    delivering: dict[int, WatchState] = field(default_factory=dict)
    decided: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)

    def act(self, process: int, action: str, value: int) -> None:
        """Do one step of one process, or of the world."""
        match action:
            case "write":
                self.total = value
            case "wait":
                self.now += value
            case "crash":
                self.held.pop(process, None)
                self.delivering.pop(process, None)
            case "step":
                self._step(process)

    def settle(self) -> None:
        """Let one process that does not crash finish what is there."""
        for _ in range(4):
            self.now += 200
            for _ in range(5):
                self._step(99)

    def _step(self, process: int) -> None:
        if process in self.delivering:
            state = self.delivering.pop(process)
            self.delivered.append(state.number)
            self._put(state, replace(state, phase=Phase.DELIVERED))
        elif process not in self.held:
            self.held[process] = (self.shown, None)
        elif self.held[process][1] is None:
            self.held[process] = (self.held[process][0], Decimal(self.total))
        else:
            self._decide(process)

    def _decide(self, process: int) -> None:
        state, total = self.held.pop(process)
        assert total is not None
        now = START + timedelta(seconds=self.now)
        match decide(LOW, state, total, now=now, repeat_after=REPEAT):
            case Step.CROSS:
                wanted = state.crossed(total, at=now, stamp="")
                if applied := self._put(state, wanted):
                    self.decided.append(applied.number)
                    self.delivering[process] = applied
            case Step.DELIVER:
                if applied := self._put(state, state.claimed_again(at=now, stamp="")):
                    self.delivering[process] = applied
            case Step.REARM:
                self._put(state, state.entered(Phase.ARMED, stamp=""))

    def _put(self, seen: WatchState, wanted: WatchState) -> WatchState | None:
        if self.is_conditional and seen.stamp != self.shown.stamp:
            return None
        self.writes += 1
        self.shown = replace(wanted, stamp=str(self.writes))
        return self.shown


steps = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["step"] * 6 + ["write", "wait", "crash"]),
        st.integers(0, 150),
    ),
    max_size=120,
)


@given(steps)
def test_each_crossing_is_decided_once_and_delivered_at_least_once(
    drawn: list[tuple[int, str, int]],
) -> None:
    """Whatever the order of three processes' steps, crashes and changes of the total."""
    model = Model()
    for step in drawn:
        model.act(*step)
    model.settle()
    assert model.decided == list(range(1, len(model.decided) + 1))
    assert set(model.delivered) == set(model.decided)
    assert model.shown.phase is not Phase.CROSSED


def test_negative_twin_without_the_condition_a_crossing_is_decided_twice() -> None:
    """Two processes that read the same state both decide the same crossing."""
    for is_conditional, decided in ((True, [1]), (False, [1, 1])):
        model = Model(is_conditional=is_conditional)
        model.act(0, "write", 9)
        for process in (0, 1, 0, 1, 0, 1):
            model.act(process, "step", 0)
        assert model.decided == decided


def test_a_total_of_before_the_state_decides_nothing() -> None:
    """What was read before another process armed the watch again meets another stamp."""
    model = Model()
    model.act(0, "write", 9)
    for process in (0, 0, 1, 1, 1, 1):
        model.act(process, "step", 0)
    assert (model.decided, model.delivered) == ([1], [1])
    model.act(0, "write", 30)
    for _ in range(3):
        model.act(1, "step", 0)
    assert model.shown.phase is Phase.ARMED
    model.act(0, "step", 0)
    assert model.decided == [1]
