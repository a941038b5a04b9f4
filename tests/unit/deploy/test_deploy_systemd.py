import re
import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).parents[3] / "deploy" / "systemd"
NAMES = (
    "ledger-compactor.service",
    "ledger-compactor.timer",
    "ledger-service.service",
    "ledger-webhooks.service",
)
SERVICES = [name for name in NAMES if name.endswith(".service")]
EXPOSURE_MAX = 20
"""`systemd-analyze security` in tenths: below 2.0 of 10 is its best grade, OK."""


def settings(name: str) -> list[tuple[str, str]]:
    """Give the settings of a unit in order."""
    lines = (SYSTEMD / name).read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return [(key, value) for key, _, value in pairs]


def analyze(*arguments: str) -> None:
    """Run systemd-analyze and fail with what it says."""
    result = subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert not result.stderr.strip()


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Give the units with a command that is there; systemd asks that it exists."""
    for name in NAMES:
        text = (SYSTEMD / name).read_text(encoding="utf-8")
        present = re.sub(r"/opt/ledger/bin/\w+", shutil.which("true") or "/bin/true", text)
        (tmp_path / name).write_text(present, encoding="utf-8")
    return tmp_path


@pytest.mark.tools("systemd-analyze")
def test_systemd_finds_the_units_sound(units: Path) -> None:
    """Every setting is one that systemd knows, with a value that it takes."""
    analyze("verify", "--man=no", *(str(units / name) for name in NAMES))


@pytest.mark.tools("systemd-analyze")
@pytest.mark.parametrize("name", SERVICES)
def test_the_service_is_hardly_exposed(units: Path, name: str) -> None:
    """The hardening gets, in systemd's own review, its best grade."""
    unit = str(units / name)
    analyze("security", "--no-pager", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit)


@pytest.mark.parametrize("name", SERVICES)
def test_the_service_owns_nothing_on_the_machine(name: str) -> None:
    """It runs as a user of its own that can write nowhere and holds no capability."""
    service = dict(settings(name))
    assert service["DynamicUser"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""


def test_a_pass_writes_its_metrics_alone() -> None:
    """In the one folder that it may write in."""
    service = dict(settings(NAMES[0]))
    assert service["ExecStart"].split()[1:3] == ["run", "--once"]
    (file,) = re.findall(r"--metrics-file /run/(\S+)/compactor\.prom$", service["ExecStart"])
    assert service["RuntimeDirectory"] == file


def test_passes_of_one_machine_do_not_overlap() -> None:
    """The timer counts from the end of a pass, not from its beginning."""
    timer = dict(settings(NAMES[1]))
    assert timer["OnUnitInactiveSec"] == "1min"
    assert "OnUnitActiveSec" not in timer
    assert "OnCalendar" not in timer
