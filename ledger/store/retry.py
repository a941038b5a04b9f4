"""How soon and how often a request is repeated, and the budget for repeats.

The figures are those of the AWS SDKs for DynamoDB since November 2026: full jitter over 25 ms, or
1 s after throttling, doubled by each try up to 20 s; at most four requests if DynamoDB throttles; a
bucket of 500 tokens per client, of which a repeat takes 14, or 5 after throttling. A success
returns what its last repeat took, or 1 if there was none. `x-amz-retry-after` asks for a wait in
milliseconds, which is granted up to 5 s beyond the computed wait.

Two rules differ: a connection never made, or a conflict with another transaction, which the SDKs
leave to the caller, is worth eight requests; and a call with a deadline is not given up when the
bucket is empty, but repeated at the longest wait.

Sources: AWS SDKs and Tools Reference Guide, "Retry behavior"; AWS Developer Tools Blog, "Updated
default retry behavior for AWS SDKs and tools"; botocore, `botocore/retries/standard.py` and
`quota.py`; AWS Architecture Blog, "Exponential Backoff And Jitter".

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass

RETRY_AFTER_HEADER = "x-amz-retry-after"
RETRY_AFTER_SECONDS_MAX = 5.0
"""How much the header may add to the computed wait."""
BUDGET_TOKENS = 500
RETRY_TOKENS = 14
THROTTLED_RETRY_TOKENS = 5
SUCCESS_TOKENS = 1
_DOUBLINGS_MAX = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double from a base up to `longest_seconds`, and the maximum number of requests."""

    base_seconds: float = 0.025
    throttled_base_seconds: float = 1.0
    longest_seconds: float = 20.0
    tries_max: int = 8
    throttled_tries_max: int = 4

    def allows(self, tries: int, *, throttled: bool = False) -> bool:
        """Return whether another request may follow `requests`."""
        most = min(self.tries_max, self.throttled_tries_max) if throttled else self.tries_max
        return tries < most

    def wait_seconds(
        self,
        tries: int,
        jitter: float,
        *,
        throttled: bool = False,
        retry_after_seconds: float = 0.0,
    ) -> float:
        """Return the wait after `tries` tries (1 or more); `jitter` is drawn from 0 to 1."""
        base = self.throttled_base_seconds if throttled else self.base_seconds
        doubled = base * 2.0 ** min(tries - 1, _DOUBLINGS_MAX)
        wait = jitter * min(self.longest_seconds, doubled)
        return max(wait, min(retry_after_seconds, wait + RETRY_AFTER_SECONDS_MAX))


class RetryBudget:
    """The tokens for the repeats of one client: of a store and its callers.

    While most requests fail it runs dry, and calls fail after one request instead of many.
    """

    __slots__ = ("_tokens_max", "tokens")

    def __init__(self, tokens: int = BUDGET_TOKENS) -> None:
        self.tokens: int = tokens
        self._tokens_max = tokens

    def take(self, *, throttled: bool = False) -> int:
        """Take the cost of a repeat; returns it, or 0 if not enough is left."""
        cost = THROTTLED_RETRY_TOKENS if throttled else RETRY_TOKENS
        if cost > self.tokens:
            return 0
        self.tokens -= cost
        return cost

    def give(self, tokens: int) -> None:
        """Return tokens after a success, up to the initial number."""
        if self.tokens != self._tokens_max:
            self.tokens = min(self._tokens_max, self.tokens + tokens)


def retry_after_seconds(header: str | None) -> float:
    """Return the wait that a header of whole milliseconds asks for; 0 if it cannot be read."""
    if header is None or not (header.isascii() and header.isdigit()):
        return 0.0
    return float(header) / 1000
