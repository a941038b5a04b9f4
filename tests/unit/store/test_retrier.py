"""A write repeated until it is answered."""

import pytest
from support.ledgers import seeded

from ledger.core.errors import Throttled
from ledger.store.retrier import Retrier
from ledger.store.retry import Backoff, RetryBudget
from ledger.store.writes import Applied, Outcome, Rejected, Unknown
from ledger.testing.clock import ManualClock


async def repeat(*answers: Outcome | Exception) -> tuple[Outcome, bool]:
    """Repeat a write that is answered so, three tries at most."""
    left = list(answers)

    async def send() -> Outcome:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    retrier = Retrier(
        clock=ManualClock(instant=True),
        randomness=seeded(),
        budget=RetryBudget(),
        backoff=Backoff(tries_max=3),
    )
    final = await retrier.until_answered(send)
    assert not left
    return final.outcome, final.doubt is not None


@pytest.mark.parametrize("answer", [Applied(), Rejected(found={0: None})])
async def test_an_answer_ends_it(answer: Outcome) -> None:
    """The first answer is the outcome; whether a try before it had none is told as well."""
    assert await repeat(answer) == (answer, False)
    assert await repeat(Unknown("no answer"), answer) == (answer, True)


async def test_it_ends_without_an_answer() -> None:
    """After the last try allowed the outcome is the last unknown one."""
    unknown = Unknown("the third")
    assert await repeat(Unknown("one"), Unknown("two"), unknown) == (unknown, True)


async def test_an_error_alone_is_raised() -> None:
    """A store error of the first try says that nothing was written, so it is raised."""
    with pytest.raises(Throttled):
        await repeat(Throttled("slow down"))


async def test_an_error_after_an_unanswered_try_is_no_answer() -> None:
    """What the first try did stays unknown, whatever error follows it; both causes are told."""
    outcome, unsure = await repeat(Unknown("one"), Throttled("two"), Throttled("three"))
    assert (outcome, unsure) == (Unknown("one; then two; then three"), True)


# Bounds, budget, deadline


def made(clock: ManualClock, budget: RetryBudget, **options: int) -> Retrier:
    """Return a retrier over a clock and a budget."""
    return Retrier(clock=clock, randomness=seeded(), budget=budget, backoff=Backoff(**options))


async def test_an_empty_budget_ends_a_call_after_one_request() -> None:
    """While most requests fail, calls fail at once: repeats would only add to the load."""
    retrier = made(ManualClock(instant=True), RetryBudget(tokens=13))
    assert not await retrier.begin("write").again("unanswered")


async def test_a_success_gives_back_what_its_last_repeat_took() -> None:
    """So a client whose repeats succeed can go on repeating."""
    budget = RetryBudget()
    tries = made(ManualClock(instant=True), budget).begin("write")
    assert await tries.again("unanswered")
    assert await tries.again("throttled", throttled=True)
    assert budget.tokens == 500 - 14 - 5
    tries.succeeded()
    assert budget.tokens == 500 - 14


async def test_a_success_at_once_gives_one_token() -> None:
    """An empty budget fills up while requests go well."""
    budget = RetryBudget()
    budget.take()
    made(ManualClock(instant=True), budget).begin("write").succeeded()
    assert budget.tokens == 500 - 14 + 1


async def test_a_deadline_outlasts_the_budget_at_the_longest_wait() -> None:
    """A call that may take its time slows down, and ends at its deadline."""
    clock = ManualClock(instant=True)
    tries = made(clock, RetryBudget(tokens=0), longest_seconds=2).begin("write", deadline=5.0)
    ends = []
    while await tries.again("unanswered"):
        ends.append(clock.elapsed)
    assert ends == [2.0, 4.0, 5.0]


async def test_the_requests_of_an_unanswered_call_count_as_tries() -> None:
    """Levels do not multiply: eight requests are eight, anyone who sent them."""
    sent = []

    async def send() -> Outcome:
        sent.append(4)
        return Unknown("no answer", requests=4)

    final = await made(ManualClock(instant=True), RetryBudget()).until_answered(send)
    assert isinstance(final.outcome, Unknown)
    assert sum(sent) == 8


async def test_lost_races_cost_no_tokens() -> None:
    """Others made progress: DynamoDB is well."""
    clock, budget = ManualClock(instant=True), RetryBudget()
    await made(clock, budget).pause(3)
    assert clock.elapsed > 0
    assert budget.tokens == 500
