"""What the service counts and measures for Prometheus, and writes to its log."""

import logging
from collections import Counter
from functools import cache
from http import HTTPStatus

from prometheus_client import CollectorRegistry

from ledger.http.service.access.tokens import ANYONE, without_secrets
from ledger.http.service.gate import NOBODY, GateStatus
from ledger.http.wire.problems import Kind
from ledger.runtime.metrics import LATENCY_BUCKETS_SECONDS, MetricMaker, RegistryMetrics

REQUESTS = "ledger_service_requests"
access_log = logging.getLogger("ledger.http.service.access")
audit_log = logging.getLogger("ledger.http.service.audit")
_REFUSALS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_STRANGERS = frozenset({NOBODY, ANYONE.name})
SHOWN_MAX = 200
"""How many characters a line shows of a path that nobody sent who has a token."""


class ServiceMetrics(RegistryMetrics):
    """The metrics of a service; labels are routes and statuses, never counters or callers."""

    def _define(self, make: MetricMaker) -> None:
        self._requests = make.counter(
            f"{REQUESTS}_total",
            "Requests answered, by method, route and status.",
            ("method", "route", "status"),
        )
        self._seconds = make.histogram(
            "ledger_service_request_seconds",
            "Time to answer a request.",
            ("route",),
            buckets=LATENCY_BUCKETS_SECONDS,
        )
        self._refused = make.counter(
            "ledger_service_refused_total",
            "Requests refused before they reached an endpoint, by kind of problem.",
            ("problem",),
        )
        self._results = make.counter(
            "ledger_service_results_total",
            "Changes of requests that have many of them, by the status that each was answered.",
            ("status",),
        )
        self._unread = make.counter(
            "ledger_service_token_reads_failed_total",
            "Tries to read the file of tokens again that failed: a revoked token may be alive.",
        )
        # Looked up at each request: `labels` takes a lock, and time.
        self._requests_of = cache(self._requests.labels)
        self._seconds_of = cache(self._seconds.labels)

    def request(self, seen: GateStatus) -> None:
        """Count one request."""
        self._requests_of(seen.method, seen.route, str(int(seen.status))).inc()
        self._seconds_of(seen.route).observe(seen.seconds)
        for status, number in seen.results.items():
            self._results.labels(str(status)).inc(number)
        if seen.problem is not None:
            self._refused.labels(seen.problem).inc()

    def tokens_unread(self) -> None:
        """Count a try to read the tokens again that failed."""
        self._unread.inc()

    def refused(self, kind: Kind) -> None:
        """Count what was refused before it was a request."""
        self._refused.labels(kind.name).inc()


def answered_in(registry: CollectorRegistry) -> dict[str, int]:
    """Return how many requests of each status were answered, as a registry has counted them."""
    found = Counter[str]()
    for family in registry.collect():
        if family.name == REQUESTS:
            for sample in family.samples:
                if sample.name == f"{REQUESTS}_total":
                    found[sample.labels["status"]] += int(sample.value)
    return dict(sorted(found.items()))


def log_request(seen: GateStatus) -> None:
    """Write what was to change something, or was refused to its caller, to the audit log.

    The access log has the others, at level DEBUG. A line has the path once, and of a stranger's the
    beginning: anybody may send a long one. A token in it, sent by mistake, has no secret
    there.
    """
    is_audited = seen.status in _REFUSALS or seen.method not in _READING
    log, level = (audit_log, logging.INFO) if is_audited else (access_log, logging.DEBUG)
    if not log.isEnabledFor(level):
        return
    path = without_secrets(seen.path)
    if seen.caller in _STRANGERS and len(path) > SHOWN_MAX:
        path = f"{path[:SHOWN_MAX]}... ({len(path):,} characters)"
    fields = {
        "request": seen.id,
        "caller": seen.caller,
        "method": seen.method,
        "path": path,
        "status": int(seen.status),
        "seconds": round(seen.seconds, 6),
        **({} if seen.proxy is None else {"proxy": seen.proxy}),
    }
    log.log(level, "%s %s", seen.method, seen.route, extra=fields)
