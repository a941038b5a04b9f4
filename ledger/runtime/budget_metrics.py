"""The metrics of budgets: spends, grants and credits."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import Counter, Gauge, Histogram

    from ledger.runtime.metrics import MetricMaker

AGE_BUCKETS_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class BudgetMetrics:
    """What the ledger's metrics say of budgets."""

    def _define_budgets(self, make: "MetricMaker") -> None:
        """Make the metrics of budgets."""
        self.budget_spends: Counter = make.counter(
            "ledger_budget_spends_total",
            "Spends and holds, by the contract's pattern of their first budget and by outcome.",
            ("region", "pattern", "outcome"),
        )
        self.budget_over: Counter = make.counter(
            "ledger_budget_over_total",
            "Sum of what was let through over the limit while no grant could be had.",
            ("region", "pattern"),
        )
        self.budget_grants: Gauge = make.gauge(
            "ledger_budget_grants",
            "Grants that this process has open.",
            ("region",),
        )
        self.budget_renewals: Counter = make.counter(
            "ledger_budget_renewals_total",
            "Writes of rights that took or enlarged a grant.",
            ("region",),
        )
        self.budget_fetches: Counter = make.counter(
            "ledger_budget_fetches_total",
            "Times that rights were fetched from other regions.",
            ("region",),
        )
        self.budget_credits: Counter = make.counter(
            "ledger_budget_credits_total",
            "Credits, by the contract's pattern of their budget and by outcome.",
            ("region", "pattern", "outcome"),
        )
        self.budget_credits_waiting: Gauge = make.gauge(
            "ledger_budget_credits_waiting",
            "Credits of this process that cannot be spent yet: not every region shows them.",
            ("region",),
        )
        self.budget_credit_age: Gauge = make.gauge(
            "ledger_budget_credits_oldest_seconds",
            "For how long the oldest of these credits has waited, by the contract's pattern of its"
            " budget and by the region that does not show it.",
            ("region", "pattern", "unshown_by"),
        )
        self.budget_credit_seconds: Histogram = make.histogram(
            "ledger_budget_credit_seconds",
            "Seconds from a credit until it can be spent.",
            ("region",),
            buckets=AGE_BUCKETS_SECONDS,
        )
        self._budget_spends_of = cache(self.budget_spends.labels)

    def budget_spent(self, region: str, pattern: str, outcome: str) -> None:
        """Count a spend; it was granted, repeated, refused, let through over, unknown or failed."""
        self._budget_spends_of(region, pattern, outcome).inc()

    def budget_spent_over(self, region: str, pattern: str, amount: float) -> None:
        """Add an amount that was let through over the limit."""
        self.budget_over.labels(region, pattern).inc(amount)

    def budget_holds(self, region: str, grants: int) -> None:
        """Record how many grants this process has open."""
        self.budget_grants.labels(region).set(grants)

    def budget_credited(self, region: str, pattern: str, outcome: str) -> None:
        """Count a credit; it was credited, repeated, unknown or failed."""
        self.budget_credits.labels(region, pattern, outcome).inc()

    def budget_credits_wait(
        self, region: str, count: int, oldest: Mapping[tuple[str, str], float]
    ) -> None:
        """Record how many credits cannot be spent yet, and for how many seconds the oldest.

        By its budget's pattern and the region that does not show it, empty while none is known.
        """
        self.budget_credits_waiting.labels(region).set(count)
        for (pattern, unshown_by), seconds in oldest.items():
            self.budget_credit_age.labels(region, pattern, unshown_by).set(seconds)

    def budget_taken_in(self, region: str, seconds: float) -> None:
        """Record a credit that can be spent so long after it was made."""
        self.budget_credit_seconds.labels(region).observe(seconds)

    def budget_renewed(self, region: str) -> None:
        """Count a write that took or enlarged a grant."""
        self.budget_renewals.labels(region).inc()

    def budget_fetched(self, region: str) -> None:
        """Count a fetch of rights from other regions."""
        self.budget_fetches.labels(region).inc()
