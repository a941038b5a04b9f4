"""The region that a command reads or writes, and the answers of all regions.

The region is that of --region, else of LEDGER_REGION, else of AWS_REGION if it is one of the
settings' regions (where processes run beside the table, it is set, for other purposes as well),
else the home. Where work belongs to one region (leases, lanes of pipelines, physical counts) the
machine's region must not decide: there it is that of --region, else the home.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Generic, TypeVar

import typer

from ledger.core.errors import InvalidInput, LedgerError, SettingsError
from ledger.runtime.command_line import AsJson, Config
from ledger.runtime.output import say
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.settings.variables import AWS_VARIABLE, REGION_VARIABLE

Region = Annotated[
    str | None,
    typer.Option(
        help="Region to use.",
        show_default=f"{REGION_VARIABLE}, else {AWS_VARIABLE} if it is a region of the table, else"
        " the home",
    ),
]
HomeRegion = Annotated[
    str | None,
    typer.Option(help="Region to use.", show_default="the settings' home, or first region"),
]

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class RegionOptions:
    """The options that commands of one region have in common."""

    region: Region = None
    config: Config = None
    as_json: AsJson = False

    def chosen(self) -> tuple[Settings, str]:
        """Return the settings, and the region to use.

        Raises:
            InvalidInput, SettingsError: as `region_of`.
        """
        settings = Settings.load(self.config)
        return settings, region_of(settings, self.region)


@dataclass(frozen=True, slots=True)
class HomeOptions(RegionOptions):
    """The same of commands whose work belongs to one region, which the machine does not decide."""

    region: HomeRegion = None

    def chosen(self) -> tuple[Settings, str]:
        """Return the settings, and the region to use.

        Raises:
            InvalidInput: as `home_or`.
        """
        settings = Settings.load(self.config)
        return settings, home_or(settings, self.region)


def region_of(settings: Settings, given: str | None) -> str:
    """Return the region to use, `given` or from the environment.

    Raises:
        InvalidInput: --region or LEDGER_REGION is empty, or --region not one of the regions.
        SettingsError: LEDGER_REGION is not one of them.
    """
    for source, name in (("--region", given), (REGION_VARIABLE, os.environ.get(REGION_VARIABLE))):
        if name is not None:
            return checked_region(settings, source, name)
    of_aws = os.environ.get(AWS_VARIABLE)
    return of_aws if of_aws in settings.regions else settings.home


def home_or(settings: Settings, given: str | None) -> str:
    """Return the region `given`, else the home.

    Raises:
        InvalidInput: it is empty, or not one of the regions.
    """
    return settings.home if given is None else checked_region(settings, "--region", given)


def checked_region(settings: Settings, source: str, name: str) -> str:
    """Return the region that an option or a variable named.

    Raises:
        InvalidInput: it is empty, or an option named an unknown region.
        SettingsError: a variable named an unknown region.
    """
    if not name:
        raise InvalidInput(f"{source} is empty: it must be one of {', '.join(settings.regions)}")
    try:
        settings.region(name)
    except SettingsError as error:
        wrong = InvalidInput if source.startswith("--") else SettingsError
        raise wrong(f"{source}: {error}") from None
    return name


@dataclass(frozen=True, slots=True)
class Answers(Generic[Found]):
    """The answers of the regions, in order, and the errors of those that did not answer."""

    found: Sequence[Found]
    errors: dict[str, LedgerError]

    def say_missing(self) -> None:
        """Name each region without an answer on standard error, with the reason."""
        for region, error in self.errors.items():
            text = str(error)
            named = text if text.startswith(region) else f"{region}: {text}"
            say(f"error: no answer from {named}", err=True)


async def ask_each(
    regions: Sequence[str], ask: Callable[[str], Awaitable[Sequence[Found]]]
) -> Answers[Found]:
    """Ask regions concurrently; of several, those that do not answer delay no other.

    Raises:
        InvalidInput: the question is invalid in any region.
        LedgerError: only one region was asked, and did not answer.
    """
    errors: dict[str, LedgerError] = {}

    async def one(region: str) -> Sequence[Found]:
        try:
            return await ask(region)
        except InvalidInput:
            raise
        except LedgerError as error:
            if len(regions) == 1:
                raise
            errors[region] = error
            return ()

    parts = await run_all([partial(one, region) for region in regions], at_once=len(regions))
    ordered = {region: errors[region] for region in regions if region in errors}
    return Answers([row for part in parts for row in part], ordered)
