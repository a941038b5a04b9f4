"""The options of every run under faults."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

import typer

from ledger.demo.harness.options import JsonFile, LabOptions, Seed
from ledger.settings.fields import TransportName

SECONDS_A_MINUTE = 60.0


class Transport(StrEnum):
    """Over which transport a run's processes and readers work."""

    MIXED = "mixed"
    LEAN = "lean"
    AIOBOTOCORE = "aiobotocore"

    @property
    def names(self) -> tuple[TransportName, TransportName]:
        """Two of them, which processes take in turn."""
        match self:
            case Transport.MIXED:
                return "aiobotocore", "lean"
            case Transport.LEAN:
                return "lean", "lean"
            case Transport.AIOBOTOCORE:
                return "aiobotocore", "aiobotocore"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions(LabOptions):
    """The options of every run under faults."""

    program: ClassVar[str]
    """The name of its command."""
    seed: Seed = 1
    minutes: Annotated[float, typer.Option(min=0.05, help="Minutes to inject faults for.")] = 1.0
    transport: Annotated[
        Transport,
        typer.Option(help="Over which transport processes work: some over each, or one for all."),
    ] = Transport.MIXED
    json_file: JsonFile = None

    @property
    def seconds(self) -> float:
        """How long faults are injected."""
        return self.minutes * SECONDS_A_MINUTE

    @property
    def command(self) -> str:
        """The command that makes this run again."""
        return (
            f"python -m lab {self.program} --seed {self.seed} --minutes {self.minutes:g}"
            f" --engine {self.engine} --lag {self.lag:g} --jitter {self.jitter:g}"
            f" --transport {self.transport}{self.own_words}"
        )

    @property
    def own_words(self) -> str:
        """What only this command has."""
        return ""
