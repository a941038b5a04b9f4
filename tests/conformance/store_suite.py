"""What every store must do: the guarantees of `ledger.store.port`, one test each.

A subclass gives a fixture `store`: a `Store` over an empty table, for each test again. One on an
engine with gaps of its own names the engine; see `known_gaps.py`.
"""

from typing import ClassVar

import pytest
from conformance.known_gaps import expect_gap
from conformance.store_conditions import ConditionsSuite
from conformance.store_groups import GroupsSuite
from conformance.store_inserts import InsertsSuite
from conformance.store_parts import PartsSuite
from conformance.store_reads import ReadsSuite
from conformance.store_tables import TablesSuite
from conformance.store_writes import WritesSuite


class StoreSuite(
    WritesSuite,
    ConditionsSuite,
    GroupsSuite,
    InsertsSuite,
    PartsSuite,
    TablesSuite,
    ReadsSuite,
):
    """Every guarantee of the port; see the module."""

    engine: ClassVar[str | None] = None

    @pytest.fixture(autouse=True)
    def _expect_known_gaps(self, request: pytest.FixtureRequest) -> None:
        if self.engine is not None:
            expect_gap(request, self.engine)
