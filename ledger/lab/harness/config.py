"""Settings in a file for processes of the laboratory, its constants included.

A run of seconds needs other constants than production, to meet within seconds what production
meets within days; `Settings.load` refuses them.
"""

from pathlib import Path

import yaml

from ledger.settings import Settings


def write_config(settings: Settings, folder: Path) -> Path:
    """Write settings to a file in a folder, which is made if it is missing."""
    folder.mkdir(exist_ok=True)
    config = folder / "regions.yaml"
    config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
    return config


def read_config(path: str | Path) -> Settings:
    """Return the settings that `write_config` wrote."""
    return Settings(**yaml.safe_load(Path(path).read_text(encoding="utf-8")))
