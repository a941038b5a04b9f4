"""Settings in a file for processes of the laboratory, its constants included.

A run of seconds needs other constants than production, to meet within seconds what production
meets within days; `Settings.load` refuses them.
"""

from pathlib import Path

import yaml

from ledger.settings import Settings
from ledger.settings.model import CONTRACTED


def without_terms(settings: Settings) -> Settings:
    """Return the same settings but for what the table's contract holds."""
    return Settings(**settings.model_dump(exclude=set(CONTRACTED)))


def write_config(settings: Settings, folder: Path) -> Path:
    """Write what settings set themselves to a file in a folder, which is made if it is missing."""
    folder.mkdir(exist_ok=True)
    config = folder / "regions.yaml"
    values = settings.model_dump(mode="json", include=settings.model_fields_set)
    config.write_text(yaml.safe_dump(values), encoding="utf-8")
    return config


def read_config(path: str | Path) -> Settings:
    """Return the settings that `write_config` wrote."""
    return Settings(**yaml.safe_load(Path(path).read_text(encoding="utf-8")))
