"""What every store must do: the guarantees of `ledger.store.port`, one test each.

A subclass gives a fixture `store`: a `Store` over an empty table, for each test anew. What an
engine is known to get wrong it names in `known_gaps`, test by test with the reason; such a test
must then fail, so that a gap that was closed is noticed.
"""

from collections.abc import Mapping
from typing import ClassVar

import pytest
from conformance.store_groups import GroupsSuite
from conformance.store_reads import ReadsSuite
from conformance.store_writes import WritesSuite


class StoreSuite(WritesSuite, GroupsSuite, ReadsSuite):
    """Every guarantee of the port; see the module."""

    known_gaps: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture(autouse=True)
    def _expect_known_gaps(self, request: pytest.FixtureRequest) -> None:
        reason = self.known_gaps.get(request.node.originalname)
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
