"""Write sharding: a counter in several items, so that more can be written to it per second.

Each change goes to a random shard; the value is the sum of all. DynamoDB takes some 1,000 write
units per second at one item, and a write at a time at one item in transactions: shards multiply
that. `items` does it; here is what it promises.
"""

from dataclasses import replace

from ledger.primitives.counters.counter import Guarantees
from ledger.primitives.counters.shard import ShardItems

_PARTS = (
    "The sum never passes them: each shard holds its part. So a change may be rejected although the"
    " sum would allow it, while others move between shards. One without room in its shard goes to"
    " another"
)
_SPLIT = (
    ", or is split over several, all or none, by a transaction; pieces are moved between shards"
    " where that pays."
)
_WHOLE = " that has room for all of it; this method does not split."
_OWN_SHARD = {
    "sum": " A token has its own shard, to which pieces are moved where it has no room."
    " Repeated after the number of shards changed, within the ten minutes, it is a conflict.",
    "slots": " A token has its own shard: without room there, its change is rejected.",
}
_TAGGED = (
    " A token has its own shard, to which pieces are moved where it has no room; after the"
    " number of shards changed, it is looked for where it was by the four numbers before. A change"
    " of method forgets it."
)


def sharded_guarantees(of: type[ShardItems], shards: int) -> Guarantees:
    """Return the guarantees of a method with this number of items."""
    promised = of.guarantees
    own = _OWN_SHARD.get(of.kind, _TAGGED) if of.known_in == "item" else ""
    return replace(
        promised,
        thresholds=_PARTS + (_SPLIT if of.splits else _WHOLE),
        tokens=promised.tokens + own,
        cost=promised.cost
        + " A value costs a read unit per shard."
        + (
            " A large change that adds to stock is a transaction over all shards."
            if of.splits
            else ""
        ),
        value_units=shards * promised.value_units,
    )
