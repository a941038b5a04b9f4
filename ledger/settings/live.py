"""Settings as of now, for parts that outlive a change of the table's contract."""

from dataclasses import dataclass
from typing import Protocol

from ledger.core.contract import Validity
from ledger.settings.model import Settings


class LiveSettings(Protocol):
    """Returns the settings to act on now; a part asks at the beginning of each piece of work."""

    @property
    def current(self) -> Settings:
        """The settings as far as is known now."""

    @property
    def validity(self) -> "Validity | None":
        """Until when a request based on `current` may be signed; None for no limit."""

    async def renew(self) -> None:
        """Check whether they have changed, if that is due.

        Raises:
            ContractStale: the contract cannot be read, and was read too long ago.
        """


@dataclass(frozen=True, slots=True)
class PipelineSettingsView:
    """Live settings with the pipeline of a name in place of `pipeline`."""

    behind: LiveSettings
    name: str | None

    @property
    def current(self) -> Settings:
        """The settings as far as is known now.

        Raises:
            SettingsError: they name no such pipeline.
        """
        return self.behind.current.of_pipeline(self.name)

    @property
    def validity(self) -> Validity | None:
        """Until when a request based on `current` may be signed."""
        return self.behind.validity

    async def renew(self) -> None:
        """Check whether they have changed, as the underlying settings do."""
        await self.behind.renew()
