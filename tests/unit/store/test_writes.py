"""Deletes of one partition, without an object for each, mean the same as a list of them."""

import pytest

from ledger.core.errors import RequestRefused
from ledger.store.dynamodb.requests import batch_request
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.writes import BATCH_WRITES_MAX, Delete, Deletes, Put, checked_actions, signed_by

KEYS = ("a", "b", "c")
LISTED = [Delete(("counter", key)) for key in KEYS]


def test_they_are_a_sequence_of_deletes() -> None:
    """By length, by place, by slice, and equal to a list."""
    deletes = Deletes("counter", KEYS)
    assert (len(deletes), deletes[1], list(deletes)) == (3, LISTED[1], LISTED)
    assert deletes[1:] == LISTED[1:]
    assert deletes != LISTED[1:]
    assert signed_by(deletes) is None


def test_they_are_rendered_as_a_list_is() -> None:
    """The request is the same, byte by byte."""
    assert batch_request(Deletes("counter", KEYS), "t") == batch_request(LISTED, "t")


@pytest.mark.parametrize("keys", [(), ("a", "a"), tuple(map(str, range(BATCH_WRITES_MAX + 1)))])
def test_what_dynamodb_would_refuse_is_refused(keys: tuple[str, ...]) -> None:
    """None, one twice, or too many for a request."""
    with pytest.raises(RequestRefused):
        checked_actions(Deletes("counter", keys), BATCH_WRITES_MAX)


async def test_a_store_does_them() -> None:
    """What they name is deleted, and nothing else."""
    store = MemoryStore("us-east-1")
    for key in (*KEYS, "d"):
        await store.write(Put({"pk": {"S": "counter"}, "sk": {"S": key}}))
    await store.write_batch(Deletes("counter", KEYS))
    left = [await store.get(Get(("counter", key))) for key in (*KEYS, "d")]
    assert [item is not None for item in left] == [False, False, False, True]
