"""The settings: read from `regions.yaml` and the environment, checked as a whole."""

from ledger.settings.model import Settings

__all__ = ["Settings"]
