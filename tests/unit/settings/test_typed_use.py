"""Type checkers take settings made in code as documented, and the values are read."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import needs, typed_use

SAMPLE = Path(str(typed_use.__file__))


def test_what_is_given_is_read() -> None:
    """Texts become seconds, lists become tuples."""
    assert typed_use.settings.settle == 1200.0
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
