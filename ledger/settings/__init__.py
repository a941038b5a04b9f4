"""The settings: read from `regions.yaml` and the environment, checked as a whole."""

from ledger.settings.model import Settings, checked_settings

__all__ = ["Settings", "checked_settings"]
