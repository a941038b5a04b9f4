"""Metrics of a pass that ends with its process, which Prometheus cannot scrape.

A file for the textfile collector of node_exporter, or a push to a Pushgateway, or both. Each pass
replaces the previous output, except the time of the last success, which stays until there is a
later one. Counters start again with each process, so the alerts on this form use gauges.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compactor.metrics import LAST_SUCCESS, CompactorMetrics
from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.urls import without_passwords

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

JOB = "ledger-compactor"
"""The label `job` of the push; a later push replaces it."""
SUFFIX = ".prom"
PUSH_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class ScheduledMetrics:
    """Where the metrics of a pass go: to a file, a gateway, both or neither."""

    registry: "CollectorRegistry"
    file: Path | None = None
    gateway: str | None = None

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leave the metrics behind at the end, however it comes.

        Raises:
            InvalidInput: the collector would not read the file, or its folder is missing.
            LedgerError: the file cannot be written, or the gateway does not accept the metrics.
        """
        metrics = CompactorMetrics.of(self.registry)
        metrics.scheduled.set(1)
        if self.file is not None:
            _check_file(self.file)
            metrics.last_success.set(_last_success_in(self.file))
        try:
            yield
        except BaseException:
            with suppress(LedgerError):  # the pending error says more
                self._leave()
            raise
        self._leave()

    def _leave(self) -> None:
        # Imported here, as everywhere: not every program needs the client library.
        from http.client import HTTPException  # noqa: PLC0415

        from prometheus_client import exposition  # noqa: PLC0415

        if self.file is not None:
            try:
                exposition.write_to_textfile(str(self.file), self.registry)
            except OSError as error:
                raise LedgerError(
                    f"{self.file} cannot be written: {error.strerror or error}"
                ) from None
        if self.gateway is not None:
            try:
                exposition.pushadd_to_gateway(
                    self.gateway, JOB, _WithoutFirst(self.registry), timeout=PUSH_SECONDS_MAX
                )
            except (OSError, ValueError, HTTPException) as error:
                raise LedgerError(
                    f"metrics cannot be pushed to {without_passwords(self.gateway)}:"
                    f" {without_passwords(str(error))}"
                ) from None


class _WithoutFirst:
    """A registry without the time of the last success if there is none: the former one stays."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        self._registry = registry

    def collect(self) -> "Iterator[Metric]":
        return (
            family
            for family in self._registry.collect()
            if family.name != LAST_SUCCESS or any(sample.value for sample in family.samples)
        )


def _check_file(path: Path) -> None:
    if path.suffix != SUFFIX:
        raise InvalidInput(
            f"--metrics-file must end in {SUFFIX}, as the textfile collector requires, got {path}"
        )
    if not path.parent.is_dir():
        raise InvalidInput(f"--metrics-file {path}: there is no folder {path.parent}")


def _last_success_in(path: Path) -> float:
    """Return the time of the last success that an earlier pass left, 0 if none did."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    try:
        for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
            if family.name == LAST_SUCCESS:
                return float(family.samples[0].value)
    except (OSError, ValueError, IndexError):  # missing, or not metrics: it is written again
        return 0.0
    return 0.0
