"""Settings of two regions, in code and in a file."""

from pathlib import Path
from typing import Any

from ledger.settings import Settings
from ledger.settings.groups import Region

REGIONS = {"us-east-1": Region(), "eu-west-1": Region()}
LOCAL = dict.fromkeys(REGIONS, Region(endpoint="http://127.0.0.1:8001"))
SMALL = "home: us-east-1\nregions:\n  us-east-1:\n  eu-west-1:\n"


def settings(**values: Any) -> Settings:
    """Give valid settings of two regions but for `values`."""
    return Settings(**{"home": "us-east-1", "regions": REGIONS, **values})


def written(text: str, name: str = "regions.yaml") -> Path:
    """Write a settings file in the current directory."""
    path = Path(name)
    path.write_text(text)
    return path
