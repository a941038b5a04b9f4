"""What the worker of webhooks counts for Prometheus."""

from collections.abc import Iterable

from ledger.runtime.metrics import MetricMaker, RegistryMetrics


class WebhookMetrics(RegistryMetrics):
    """The metrics of webhooks, by their names in the file."""

    def _define(self, make: MetricMaker) -> None:
        self._tries = make.counter(
            "ledger_webhook_tries_total",
            "Requests of webhooks, by what came of each: a status, or no answer.",
            ("webhook", "outcome"),
        )
        self._dead = make.counter(
            "ledger_webhook_dead_total", "Events that became dead letters.", ("webhook",)
        )
        self._behind = make.counter(
            "ledger_webhook_behind_total", "Times that the feed had to start over.", ("webhook",)
        )
        self._reached = make.gauge(
            "ledger_webhook_reached_timestamp_seconds",
            "Until when everything was delivered, or is a dead letter.",
            ("webhook",),
        )
        self._disabled = make.gauge(
            "ledger_webhook_disabled",
            "Whether a receiver wants no more, as the process that delivers saw it last.",
            ("webhook",),
        )
        self._leader = make.gauge(
            "ledger_webhook_leader", "Whether this process holds the lease to deliver."
        )

    def led(self, hooks: Iterable[str]) -> None:
        """Note that this process delivers these webhooks; their counts begin at 0."""
        self._leader.set(1)
        for hook in hooks:
            self._dead.labels(hook)
            self._behind.labels(hook)

    def left(self) -> None:
        """Note that it no longer does: whether a webhook is disabled is another's to see."""
        self._leader.set(0)
        self._disabled.clear()

    def tried(self, hook: str, outcome: str) -> None:
        """Count a request."""
        self._tries.labels(hook, outcome).inc()

    def gave_up(self, hook: str) -> None:
        """Count a dead letter."""
        self._dead.labels(hook).inc()

    def fell_behind(self, hook: str) -> None:
        """Count a cursor that no longer held."""
        self._behind.labels(hook).inc()

    def is_disabled(self, hook: str, *, disabled: bool) -> None:
        """Note whether a webhook is disabled."""
        self._disabled.labels(hook).set(disabled)

    def reached(self, hook: str, timestamp: float) -> None:
        """Note up to when a webhook came."""
        self._reached.labels(hook).set(timestamp)
