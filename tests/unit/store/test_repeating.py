"""A write repeated until it is answered."""

import pytest
from support.ledgers import InstantClock, seeded

from ledger.core.errors import Throttled
from ledger.store.repeating import Repeating
from ledger.store.retry import Backoff
from ledger.store.writes import Applied, Outcome, Rejected, Unknown


async def repeat(*answers: Outcome | Exception) -> tuple[Outcome, bool]:
    """Repeat a write that is answered so, three tries at most."""
    left = list(answers)

    async def send() -> Outcome:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    repeating = Repeating(InstantClock(), seeded(), Backoff(tries_max=3))
    settled = await repeating.until_answered(send)
    assert not left
    return settled.outcome, settled.doubt is not None


@pytest.mark.parametrize("answer", [Applied(), Rejected({0: None})])
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
