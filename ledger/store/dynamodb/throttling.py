"""Why DynamoDB throttled a request, by the reasons in its answer.

A reason consists of what was throttled (Table or Index), the kind of operation (Read or Write) and
the limit that was exceeded. `KeyRangeThroughputExceeded` is the one that more capacity does not
help: one partition key takes at most 1,000 write units and 3,000 read units a second. The error of
one statement among several has a code and a message but no list of reasons, so the reason is taken
from the message.

Sources: botocore's model of DynamoDB (`ThrottlingReason`; the list is `throttlingReasons` of
ThrottlingException, `ThrottlingReasons` of the others); Amazon DynamoDB Developer Guide,
"Understanding DynamoDB warm throughput in different scenarios" (the limits of a partition); API
Reference, BatchStatementError.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ledger.core import keys
from ledger.core.errors import Throttled
from ledger.store.dynamodb import statements

HOT_KEY = "KeyRangeThroughputExceeded"
ADVICE: Mapping[str, str] = {
    HOT_KEY: (
        "one partition key takes at most 1,000 write units and 3,000 read units a second: shard"
        " this counter (`ledger table set shards`), or combine its changes (`ledger table set"
        " combine`)"
    ),
    "MaxOnDemandThroughputExceeded": "the table's own maximum was reached: raise it",
    "AccountLimitExceeded": "the account's quota for a table was reached: ask AWS for more",
    "ProvisionedThroughputExceeded": (
        "the table's provisioned capacity was reached: raise it, or bill the table on demand"
    ),
}
"""Advice for each limit."""
COUNTERS_NAMED_MAX = 3


def exceeded_limits(response: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the limits that an error names, each once, in the order of `ADVICE`."""
    given = response.get("ThrottlingReasons") or response.get("throttlingReasons") or ()
    reasons = [str(reason.get("reason", "")) for reason in given if isinstance(reason, Mapping)]
    return tuple(limit for limit in ADVICE if any(reason.endswith(limit) for reason in reasons))


def explained(error: Throttled, limits: Sequence[str], request: Mapping[str, Any]) -> Throttled:
    """Return the error that names the exceeded limit and, for a hot key, the counters."""
    if not limits:
        return error
    advice = "; ".join(ADVICE[limit] for limit in limits)
    counters = counters_in(request) if HOT_KEY in limits else ()
    better = Throttled(f"{error}{_named(counters)}: {advice}")
    better.limits, better.counters, better.code = tuple(limits), counters, error.code
    return better


def cause_of(errors: Iterable[Mapping[str, Any]]) -> str:
    """Return the name, in the metric of repeats, of the reason why statements are sent again."""
    told = list(errors)
    if any(HOT_KEY in _limits_named(error) for error in told):
        return "hot_key"
    throttled = any(error.get("Code") in statements.THROTTLED for error in told)
    return "throttled" if throttled else "conflict"


def of_statement(error: Mapping[str, Any], said: Mapping[str, Any], where: str) -> Throttled:
    """Return the error of a statement that wrote nothing in any try; it names the counter."""
    request = {"Statements": [said]}
    text = f"{where}: still throttled, or in conflict, after every try ({error.get('Code')})"
    counters = counters_in(request)
    if limits := _limits_named(error):
        late = explained(Throttled(text), limits, request)
    else:
        late = Throttled(f"{text}{_named(counters)}")
        late.counters = counters
    late.code = str(error["Code"]) if error.get("Code") else None
    return late


def _limits_named(error: Mapping[str, Any]) -> tuple[str, ...]:
    # A code looks like the name of a limit: only a whole reason names one.
    message = str(error.get("Message", ""))
    return tuple(
        limit for limit in ADVICE if any(f"{way}{limit}" in message for way in ("Read", "Write"))
    )


def _named(counters: Sequence[str]) -> str:
    if not counters:
        return ""
    named = ", ".join(map(repr, counters[:COUNTERS_NAMED_MAX]))
    more = len(counters) - COUNTERS_NAMED_MAX
    beside = f" and {more} more" if more > 0 else ""
    return f" at {'one of ' if len(counters) > 1 else ''}{named}{beside}"


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
    for said in request.get("Statements", request.get("TransactStatements", ())):
        yield statements.partition_of(said)
    if "KeyConditionExpression" in request:
        yield request["ExpressionAttributeValues"][":0"]["S"]
