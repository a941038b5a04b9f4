"""What is compared: every method, and the ledger with its counter kept in shards."""

from collections.abc import Mapping
from functools import partial

from lab.compare.figures import LEDGER_SHARDED
from ledger.primitives.counters import METHODS, Make
from ledger.primitives.counters.catalog import SHARDS
from ledger.primitives.counters.collection import make_collection

WAYS: Mapping[str, Make] = {
    **{name: method.make for name, method in METHODS.items()},
    LEDGER_SHARDED: partial(make_collection, shards=SHARDS),
}
"""Each by its name in tables; to be made like a counter of a method."""
