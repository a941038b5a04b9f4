"""The agenda: everybody's turn comes, holds are kept, and what is held is bounded."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.agenda import AGAIN_SECONDS, Agenda, PendingAction, Visit, Wait
from compactor.merge_plan import MergePlan

HOLD = 20.0
LOOK_SECONDS = 0.5
Make = Callable[..., Agenda]


class LastCome(Agenda):
    """The negative control: the last visited comes next, as long as there is anything to do."""

    def _next_visit(self, now: float) -> Visit | None:
        self._is_turn_of_again = True
        return super()._next_visit(now)


class FirstCome(Agenda):
    """The other control: none is visited again before all others were."""

    def _next_visit(self, now: float) -> Visit | None:
        self._is_turn_of_again = False
        return super()._next_visit(now)


class Day:
    """Workers on virtual time: looking takes half a second, holding 20, acting nothing."""

    def __init__(self, agenda: Agenda, *, hot: frozenset[str], workers: int) -> None:
        self.agenda = agenda
        self.hot = hot
        self.now = 0.0
        self.visits: list[tuple[float, str]] = []
        self.acts: Counter[str] = Counter()
        self.held_most = 0
        self._held = 0
        self._workers = [0.0] * workers
        self._looks: dict[int, Visit] = {}

    def run(self, *, until: float = 1e9) -> None:
        """Let the workers work until none is needed any more."""
        while self._workers and self.now < until:
            place = min(range(len(self._workers)), key=lambda one: self._workers[one])
            self.now = max(self.now, self._workers[place])
            if place in self._looks:
                self._hold(self._looks.pop(place))
            match self.agenda.next_step(self.now):
                case Visit() as visit:
                    self.visits.append((self.now, visit.partition))
                    self._looks[place] = visit
                    self._workers[place] = self.now + LOOK_SECONDS
                case PendingAction() as held:
                    self._act(held)
                case Wait(moment):
                    assert moment > self.now
                    self._workers[place] = moment
                case None:
                    self._workers.pop(place)
                    later = {at: one for at, one in self._looks.items() if at > place}
                    for at, one in later.items():
                        del self._looks[at]
                        self._looks[at - 1] = one

    def _hold(self, visit: Visit) -> None:
        plan = MergePlan(deletes=("x",), is_cut=visit.partition in self.hot)
        self.agenda.hold(PendingAction(visit, None, plan, self.now + HOLD))
        self._held += 1
        self.held_most = max(self.held_most, self._held)

    def _act(self, held: PendingAction) -> None:
        assert held.ripe_at <= self.now
        self._held -= 1
        self.acts[held.visit.partition] += 1
        again = self.now + AGAIN_SECONDS if held.plan.is_cut else None
        self.agenda.acted(held.visit, again_at=again)


def day(
    make: Make, *, cold: int, hot: int = 0, workers: int = 4, held_max: int = 1000, visits: int = 4
) -> Day:
    """Return a day with some hot collections, which come first, and some that are not."""
    warm = [f"hot-{number}" for number in range(hot)]
    names = [*warm, *(f"cold-{number}" for number in range(cold))]
    agenda = make(names, held_max=held_max, visits_max=visits)
    return Day(agenda, hot=frozenset(warm), workers=workers)


def hot_visits(one: Day) -> int:
    """Return how often a hot collection was visited before the last first visit of others."""
    last = max(at for at, name in one.visits if name.startswith("cold"))
    return sum(at < last for at, name in one.visits if name.startswith("hot"))


@given(
    cold=st.integers(0, 30),
    hot=st.integers(0, 5),
    workers=st.integers(1, 6),
    held_max=st.integers(1, 8),
    visits=st.integers(1, 4),
)
def test_property_everybody_is_visited_and_acted_on(
    cold: int, hot: int, workers: int, held_max: int, visits: int
) -> None:
    """Each is visited once, a hot one as often as it may be, and never are too many held."""
    one = day(Agenda, cold=cold, hot=hot, workers=workers, held_max=held_max, visits=visits)
    one.run()
    assert one.agenda.is_over
    assert one.held_most <= held_max
    assert all(one.acts[f"cold-{number}"] == 1 for number in range(cold))
    assert all(one.acts[f"hot-{number}"] >= visits for number in range(hot))
    assert len(one.visits) == one.acts.total()


def test_those_who_wait_longest_come_first() -> None:
    """First visits are made in the order given."""
    one = day(Agenda, cold=50, workers=1)
    one.run()
    assert [name for _, name in one.visits] == [f"cold-{number}" for number in range(50)]


def test_holds_run_side_by_side() -> None:
    """A thousand collections take their looks and one hold, not a hold for each window."""
    one = day(Agenda, cold=1000)
    one.run()
    assert one.now == pytest.approx(1000 / 4 * LOOK_SECONDS + HOLD, abs=2)


def test_a_hot_counter_is_not_starved() -> None:
    """While 2,000 others wait a hot counter is visited about every hold; first come starves it."""
    fair, unfair = day(Agenda, cold=2000, hot=1), day(FirstCome, cold=2000, hot=1)
    fair.run()
    unfair.run()
    seconds = 2000 / 4 * LOOK_SECONDS
    assert hot_visits(fair) >= seconds / (HOLD + AGAIN_SECONDS + 2 * LOOK_SECONDS)
    assert hot_visits(unfair) == 1


def test_hot_counters_starve_no_other() -> None:
    """Behind 400 hot counters, more than one worker keeps up with, the last one's turn comes.

    Every other visit is a first one. Greedily, a hot one always first, it never comes.
    """
    came = []
    for make in (Agenda, LastCome):
        one = day(make, cold=0, hot=400, workers=1)
        one.agenda._first.append("cold-0")
        one.run(until=5000)
        came.append([at for at, name in one.visits if name == "cold-0"])
    [fair], unfair = came
    assert fair <= 2 * 401 * LOOK_SECONDS + HOLD
    assert not unfair


def test_bounded_in_ids() -> None:
    """With too many ids held nothing more is looked at before some are acted on."""
    agenda = Agenda(["a", "b", "c"], held_max=10, visits_max=1, held_ids_max=30)
    for name in ("a", "b"):
        visit = agenda.next_step(0.0)
        assert visit == Visit(name)
        plan = MergePlan(deletes=tuple(map(str, range(15))))
        agenda.hold(PendingAction(Visit(name), None, plan, 5.0))
    assert agenda.next_step(1.0) == Wait(5.0)
    held = agenda.next_step(5.0)
    assert isinstance(held, PendingAction)
    agenda.acted(held.visit)
    assert isinstance(agenda.next_step(5.0), PendingAction)
    assert agenda.next_step(5.0) == Visit("c")


def test_no_worker_waits_for_others() -> None:
    """A worker that finds nothing goes home; who is still at work does what comes of it."""
    agenda = Agenda(["a"], held_max=10, visits_max=2)
    visit = agenda.next_step(0.0)
    assert isinstance(visit, Visit)
    assert agenda.next_step(0.0) is None
    assert not agenda.is_over
    agenda.looked(visit, again_at=3.0)
    assert agenda.next_step(0.0) == Wait(3.0)
    assert agenda.next_step(3.0) == Visit("a", number=2)
    agenda.looked(Visit("a", number=2), again_at=9.0)
    assert agenda.next_step(9.0) is None
    assert agenda.is_over


@pytest.mark.parametrize("seed", range(3))
def test_any_mixture_ends(seed: int) -> None:
    """Whatever is hot, a day ends, and none is visited more often than others wait or may be."""
    chance = Random(seed)  # noqa: S311 (repeatable)
    one = day(Agenda, cold=chance.randrange(200), hot=chance.randrange(50), workers=3, held_max=20)
    one.run()
    assert one.agenda.is_over


def test_what_comes_next_is_known_ahead() -> None:
    """The first visits, in order, as far as what they may lead to can be held."""
    agenda = Agenda(["a", "b", "c", "d"], held_max=3, visits_max=2)
    assert agenda.upcoming(2) == ["a", "b"]
    assert agenda.upcoming(9) == ["a", "b", "c"]
    assert agenda.next_step(0.0) == Visit("a")
    assert agenda.upcoming(9) == ["b", "c"]
    agenda.looked(Visit("a"), again_at=0.0)
    assert agenda.upcoming(9) == ["b", "c", "d"]
