"""Why DynamoDB throttled a request, by the reasons that it gives.

A reason is made of what was throttled (Table or Index), the kind of operation (Read or Write) and
the limit that was exceeded. `KeyRangeThroughputExceeded` is the one that more capacity does not
help: one partition key takes at most 1,000 write units and 3,000 read units a second.

Sources: botocore's model of DynamoDB (`ThrottlingReason`; the list is `throttlingReasons` of
ThrottlingException, `ThrottlingReasons` of the others); Amazon DynamoDB Developer Guide,
"Understanding DynamoDB warm throughput in different scenarios" (the limits of a partition).

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ledger.core import keys
from ledger.core.errors import Throttled

HOT_KEY = "KeyRangeThroughputExceeded"
ADVICE: Mapping[str, str] = {
    HOT_KEY: (
        "one partition key takes at most 1,000 write units and 3,000 read units a second: shard"
        " this counter (`shards`), or combine its changes"
    ),
    "MaxOnDemandThroughputExceeded": "the table's own maximum was reached: raise it",
    "AccountLimitExceeded": "the account's quota for a table was reached: ask AWS for more",
    "ProvisionedThroughputExceeded": (
        "the table's provisioned capacity was reached: raise it, or bill the table on demand"
    ),
}
"""What helps against each limit."""
COUNTERS_NAMED_MAX = 3


def exceeded_limits(response: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the limits that an error names, each once, in the order of `ADVICE`."""
    given = response.get("ThrottlingReasons") or response.get("throttlingReasons") or ()
    reasons = [str(each.get("reason", "")) for each in given if isinstance(each, Mapping)]
    return tuple(limit for limit in ADVICE if any(reason.endswith(limit) for reason in reasons))


def explained(error: Throttled, limits: Sequence[str], request: Mapping[str, Any]) -> Throttled:
    """Return the error that says which limit was exceeded, and of a hot key which counters."""
    if not limits:
        return error
    advice = "; ".join(ADVICE[limit] for limit in limits)
    counters = counters_in(request) if HOT_KEY in limits else ()
    named = ", ".join(map(repr, counters[:COUNTERS_NAMED_MAX]))
    of = f" at {'one of ' if len(counters) > 1 else ''}{named}" if counters else ""
    if len(counters) > COUNTERS_NAMED_MAX:
        of += f" and {len(counters) - COUNTERS_NAMED_MAX} more"
    better = Throttled(f"{error}{of}: {advice}")
    better.limits, better.counters = tuple(limits), counters
    return better


def counters_in(request: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the counters that a request reads or writes, each once."""
    places = map(keys.counter_of, _partitions(request))
    return tuple(dict.fromkeys(place[0] for place in places if place is not None))


def _partitions(request: Mapping[str, Any]) -> Iterator[str]:
    """Return the partition keys in any request that `requests` makes."""
    for part in (request.get("Item"), request.get("Key")):
        if part is not None:
            yield part["pk"]["S"]
    for parts in request.get("RequestItems", {}).values():
        for part in parts:
            yield from _partitions(next(iter(part.values())))
    for action in request.get("TransactItems", ()):
        yield from _partitions(next(iter(action.values())))
    if "KeyConditionExpression" in request:
        yield request["ExpressionAttributeValues"][":0"]["S"]
