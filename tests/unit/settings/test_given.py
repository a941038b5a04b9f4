"""What type checkers take for settings made in code is what there is."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from support import needs, typed_use

from ledger.settings import Settings, given
from ledger.settings.groups import (
    CacheSettings,
    CompactorSettings,
    ShardStep,
    WatchSettings,
    WriterSettings,
)
from ledger.settings.pipelines import PipelineSettings

SAMPLE = Path(str(typed_use.__file__))
PAIRS: list[tuple[type[BaseModel], Any]] = [
    (CacheSettings, given.CacheGiven),
    (CompactorSettings, given.CompactorGiven),
    (PipelineSettings, given.PipelineGiven),
    (Settings, given.SettingsChanges),
    (Settings, given.SettingsGiven),
    (ShardStep, given.ShardStepGiven),
    (WatchSettings, given.WatchGiven),
    (WriterSettings, given.WriterGiven),
]


@pytest.mark.parametrize(("model", "types"), PAIRS, ids=lambda one: one.__name__)
def test_each_field_may_be_given(model: type[BaseModel], types: Any) -> None:
    """No field is missing, none is named that is not there, and the same ones are required."""
    assert set(types.__annotations__) == set(model.model_fields)
    required = {name for name, field in model.model_fields.items() if field.is_required()}
    assert types.__required_keys__ == (set() if types is given.SettingsChanges else required)


def test_what_is_given_is_read() -> None:
    """Texts become seconds, lists become tuples."""
    assert typed_use.seconds == 1200.0
    assert typed_use.again.settle == 1500.0
    assert typed_use.again.cache.max_age == 1.0
    assert typed_use.again.cache.stale_max == 2.0
    assert typed_use.settings.shards_max("cold1") == 2


@pytest.mark.slow
@pytest.mark.tools("mypy")
def test_mypy_accepts_documented_settings(tmp_path: Path) -> None:
    """Strict, and without the plugin of pydantic, as a user may run it."""
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\n", encoding="utf-8")
    checked(sys.executable, "-m", "mypy", f"--config-file={config}", f"--cache-dir={tmp_path}")


@pytest.mark.slow
@pytest.mark.tools("pyright")
def test_pyright_accepts_documented_settings() -> None:
    """At the level that it takes by itself."""
    checked(needs.program("basedpyright"), "--level=error", f"--pythonpath={sys.executable}")


def checked(*command: str) -> None:
    """Run a type checker over what is documented."""
    ran = subprocess.run([*command, str(SAMPLE)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
