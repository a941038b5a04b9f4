"""What replicates, item by item, and what does not."""

from random import Random

from ledger.store.conditions import Equals
from ledger.store.writes import Applied, Check, Delete, Put
from ledger.testing.replicas import ManualWorld

A, B = "us-east-1", "eu-west-1"


def world() -> ManualWorld:
    """Return two regions in which a test delivers by hand."""
    return ManualWorld((A, B), randomness=Random(1))  # noqa: S311 (repeatable)


def item(key: str, number: int) -> dict[str, dict[str, str]]:
    """Return an item of some number."""
    return {"pk": {"S": "p"}, "sk": {"S": key}, "n": {"N": str(number)}}


async def test_what_a_transaction_only_checks_is_not_written() -> None:
    """A check would win as the last writer over what another region has written meanwhile."""
    two = world()
    two.put(A, item("checked", 1))
    two.deliver()
    two.put(B, item("checked", 2))
    outcome = await two.replicas[A].transact(
        [Put(item("put", 1)), Check(("p", "checked"), Equals("n", {"N": "1"}))]
    )
    assert isinstance(outcome, Applied)
    two.deliver()
    for region in (A, B):
        assert two.replicas[region].table.get(("p", "checked")) == item("checked", 2)
        assert two.replicas[region].table.get(("p", "put")) == item("put", 1)


async def test_the_delete_of_nothing_does_not_replicate() -> None:
    """It changes nothing; one of something does."""
    two = world()
    assert isinstance(await two.replicas[A].write(Delete(("p", "none"))), Applied)
    assert two.deliver() == 0
    two.put(A, item("one", 1))
    two.deliver()
    await two.replicas[A].write(Delete(("p", "one")))
    assert two.deliver() == 1
    assert two.replicas[B].table.get(("p", "one")) is None
