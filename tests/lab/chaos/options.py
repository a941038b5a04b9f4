"""The options of `lab chaos`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from lab.faults.options import FaultOptions
from lab.faults.schedule import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions(FaultOptions):
    """The options of `lab chaos`."""

    program = "chaos"
    profile: Annotated[
        Profile,
        typer.Option(help="Which faults come beside the usual: all, or more of one kind."),
    ] = Profile.MIXED

    @property
    def own_words(self) -> str:
        """What only this command has."""
        return f" --profile {self.profile}"
