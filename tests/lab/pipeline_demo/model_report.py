"""`lab pipeline-demo --model`: what a rate takes, beside the published pipeline."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.pipeline_demo.model import BUSY_SHARE, Load, Needs, needs_of
from lab.pipeline_demo.trial_price import Line, hours_of, trial_of
from ledger.demo.harness.report import RunReport, Section

REFERENCE_RATE = 50_000
REFERENCE = {
    "processes": "500 state functions",
    "messages a second of each": "100",
    "write units a message": "1 for its state",
    "latency": "3 to 4 s on average, up to 20 s",
}
"""The published pipeline at `REFERENCE_RATE`, without failures: an experiment, not a model."""


@dataclass(frozen=True, slots=True)
class ModelReport(RunReport):
    """What a rate takes by the model, and the load of a message that it goes by."""

    needs: Needs
    load: Load
    regions: int
    messages: int

    @property
    def trial(self) -> Sequence[Line]:
        """What a trial of the messages at the rate costs, line by line."""
        return trial_of(self.messages, self.needs.rate, self.load, regions=self.regions)

    def sections(self) -> Sequence[Section]:
        """Return the calculated needs beside the published experiment, and dollars by use."""
        needs = self.needs
        each = needs.rate / needs.processes
        counts = [
            ("processes", f"{needs.processes:,}, up to {needs.lanes_in_process:,} lane(s) in each"),
            ("messages a second of each", f"{each:,.0f}, in {BUSY_SHARE:.0%} of a core"),
            ("shards", f"{needs.shards:,}"),
            (
                "write units a message",
                f"{needs.write_units / needs.rate:.2f} for all stages and regions",
            ),
            ("write units a second", f"{needs.write_units:,.0f}"),
            ("read units a second", f"{needs.read_units:,.0f}"),
            ("latency", "not in the model: see --ladder"),
        ]
        dollars = [
            ("table", needs.table_dollars),
            ("stream", needs.stream_dollars),
            ("processes", needs.process_dollars),
            ("together", needs.dollars_hour),
        ]
        per_hour = needs.dollars_hour
        return (
            Section(
                title=f"{needs.rate:,.0f} messages a second, {self.regions} region(s), by a model",
                columns=("", "calculated", f"published experiment, at {REFERENCE_RATE:,}"),
                rows=[(name, value, REFERENCE.get(name, "")) for name, value in counts],
            ),
            Section(
                title="dollars in us-east-1, on demand",
                columns=("", "an hour", "a million messages"),
                rows=[
                    (name, f"{value:,.2f}", f"{needs.dollars_million * value / per_hour:.3f}")
                    for name, value in dollars
                ],
            ),
            self._trial_section(),
        )

    def _trial_section(self) -> Section:
        rate, hours = self.needs.rate, hours_of(self.messages, self.needs.rate)
        together = sum(line.dollars for line in self.trial)
        return Section(
            title=(
                f"a trial of {self.messages:,} messages at {rate:,.0f} a second, by the shipped"
                f" templates, {hours:,} hour(s), dollars in us-east-1"
            ),
            columns=("", "units", "each", "dollars"),
            rows=[
                *(
                    (one.name, f"{one.units:,.2f}", f"{one.price:.9f}", f"{one.dollars:.4f}")
                    for one in self.trial
                ),
                ("together", "", "", f"{together:.4f}"),
            ],
        )

    def as_json(self) -> dict[str, Any]:
        """Return all of it for a file."""
        more = {name: getattr(self.needs, name) for name in ("dollars_hour", "dollars_million")}
        trial = {line.name: line.dollars for line in self.trial}
        return {**more, "trial_dollars": trial, **RunReport.as_json(self)}


def model_report(rate: float, load: Load, *, regions: int, messages: int) -> ModelReport:
    """Return what a rate takes in so many regions, and what a trial of so many messages costs."""
    return ModelReport(needs_of(rate, load, regions=regions), load, regions, messages)
