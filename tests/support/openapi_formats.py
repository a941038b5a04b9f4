"""What `schemathesis` needs to know: values of the formats that JSON Schema cannot describe.

It imports this module by `SCHEMATHESIS_HOOKS`, in a process of its own.
"""

from datetime import UTC, datetime, timedelta

import schemathesis
from hypothesis import strategies as st

from ledger.reads.feed.cursors import Cursor, to_text

NOW = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
"""The time of the clock of the tests."""
LETTERS = "abcxyz019-_/.%?#&+ ß日"

counters = st.text(alphabet=LETTERS, min_size=1, max_size=30)
item_ids = st.builds("2026-11-21T06:50:00.000000Z#{:016x}".format, st.integers(0, 2**64 - 1))
entry_ids = st.one_of(item_ids, st.builds("{}.{:03d}".format, item_ids, st.integers(0, 999)))
times = st.integers(1, 60).map(lambda seconds: (NOW - timedelta(seconds=seconds)).isoformat())
keys = st.builds("01a1fcde-71d8-7{:03x}-8b1c-5f2d9e4a6b70".format, st.integers(0, 4095))
numbers = st.decimals(min_value=-(10**9), max_value=10**9, places=4).map("{:f}".format)

schemathesis.openapi.format("counter-id", counters)
schemathesis.openapi.format("account", counters)
schemathesis.openapi.format("prefix", st.one_of(st.just(""), counters))
schemathesis.openapi.format("entry-id", entry_ids)
schemathesis.openapi.format("hold-id", item_ids)
schemathesis.openapi.format("date-time", times)
schemathesis.openapi.format("date", st.sampled_from(["2026-11-20", "2026-11-21"]))
schemathesis.openapi.format("idempotency-key", keys)
schemathesis.openapi.format("region", st.sampled_from(["us-east-1", "eu-west-1"]))
schemathesis.openapi.format("attribute", st.text(alphabet="abcxyz019", min_size=1, max_size=20))
schemathesis.openapi.format("visible", st.text(alphabet="abcxyz019-é", min_size=1, max_size=20))
schemathesis.openapi.format("raise-id", st.text(alphabet="abcxyz019", min_size=1, max_size=20))
schemathesis.openapi.format("amount", numbers)
schemathesis.openapi.format("parts", st.lists(numbers, max_size=5).map(" ".join))
schemathesis.openapi.format("feed-cursor", st.just(to_text(Cursor("us-east-1/memory", 10**10))))


@schemathesis.hook
def map_query(context: object, query: dict[str, object] | None) -> dict[str, object] | None:
    """Let no request wait for what does not come."""
    del context
    return query if query is None or query.get("wait") is None else {**query, "wait": 0}


@schemathesis.hook
def map_headers(context: object, headers: dict[str, object] | None) -> dict[str, object] | None:
    """Let no request end before a busy machine has answered it."""
    del context
    if headers is None or "wait=" not in str(headers.get("Prefer")):
        return headers
    return {**headers, "Prefer": "wait=60"}
