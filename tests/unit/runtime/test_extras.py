"""What messages say of packages that are not installed can be done."""

import importlib
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.tiers import few_fast

import ledger
from ledger.runtime.output import EXTRAS, needing

ROOT = Path(ledger.__file__).parents[1]


HIDE = """
import sys
for hidden in sys.argv[1].split(","):
    sys.modules[hidden] = None
sys.argv = ["ledger", *sys.argv[2:]]
"""
RUN = "from ledger.__main__ import main\nmain()"
RUN_LAB = "from lab.__main__ import main\nmain()"
SAY = """
from ledger.core.errors import PackageMissing
try:
    run()
except PackageMissing as error:
    assert isinstance(error, ImportError)
    sys.exit(str(error))
"""
WEBHOOK = """
async def run_sender():
    from ledger.commands.webhook import sender
    from ledger.http.webhooks.metrics import WebhookMetrics
    async with sender(WebhookMetrics.of(None)):
        pass
import anyio
run = lambda: anyio.run(run_sender)
"""
PARQUET = """
from ledger.commands.export import _Parquet
def run(): _Parquet(None, 2, None, with_legs=False)
"""
DOORS: Mapping[str, tuple[str, str, str]] = {
    "ledger serve, fastapi": ("fastapi", "service", "serve --local --insecure --port 0"),
    "ledger serve, starlette": ("starlette", "service", "serve --local --insecure --port 0"),
    "ledger serve, uvicorn": ("uvicorn", "service", "serve --local --insecure --port 0"),
}
LAB_DOORS: Mapping[str, tuple[str, str, str]] = {
    "lab soak, httpx": ("httpx", "client", "soak"),
    "lab soak, uvicorn": ("uvicorn", "service", "soak"),
    "lab bench": ("matplotlib", "bench", "bench --picture bench.svg"),
}
CALLS: Mapping[str, tuple[str, str, str]] = {
    "ledger.http.client": ("httpx", "client", "def run(): import ledger.http.client"),
    "ledger.http.client.sync": ("httpx", "client", "def run(): import ledger.http.client.sync"),
    "export": ("pyarrow", "parquet", PARQUET),
    "webhooks": ("httpx", "client", WEBHOOK),
    "Lambda, mangum": ("mangum", "service", "def run(): import ledger.http.service.aws_lambda"),
    "Lambda, fastapi": ("fastapi", "service", "def run(): import ledger.http.service.aws_lambda"),
    "Lambda, starlette": (
        "starlette",
        "service",
        "def run(): import ledger.http.service.aws_lambda",
    ),
    "kafka": (
        "aiokafka",
        "kafka",
        (
            "from ledger.pipeline.sources.kafka import topic_of as topic\n"
            "def run(): topic('localhost:9092', 'changes', is_encrypted=False)"
        ),
    ),
    "tracing": (
        "opentelemetry",
        "otel",
        "from ledger.runtime.tracing.choice import tracing_of\ndef run(): tracing_of('on')",
    ),
    "aiodynamo": (
        "aiodynamo",
        "bench",
        (
            "from lab.bench.cases import ALL\nfrom lab.bench.runner import _missing\n"
            "[reason] = {_missing(case) for case in ALL if case.package == 'aiodynamo'}\n"
            "sys.exit(reason)"
        ),
    ),
}


def said_without(package: str, code: str, *words: str, folder: Path) -> str:
    """Return what a program ends with in which a package is hidden."""
    words = (sys.executable, "-c", HIDE + code, package, *words)
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in {1, 2}
    return done.stderr


def check_line(said: str, extra: str) -> None:
    """Check that one line says which extra is missing, and how to install it."""
    assert "Traceback" not in said
    (line,) = said.strip().splitlines()
    assert " needs " in line
    assert "pip install " in line
    assert f"from this repository pip install '.[{extra}]'" in line


@pytest.mark.parametrize("door", few_fast(DOORS, fast=1))
def test_a_command_names_the_extra_in_one_line(door: str, tmp_path: Path) -> None:
    """Whichever package of which extra is not installed."""
    package, extra, words = DOORS[door]
    check_line(said_without(package, RUN, *words.split(), folder=tmp_path), extra)


@pytest.mark.slow
@pytest.mark.parametrize("door", LAB_DOORS)
def test_the_laboratory_names_the_extra_in_one_line(door: str, tmp_path: Path) -> None:
    """As the commands do."""
    package, extra, words = LAB_DOORS[door]
    check_line(said_without(package, RUN_LAB, *words.split(), folder=tmp_path), extra)


@pytest.mark.parametrize("door", few_fast(CALLS, fast=1))
def test_a_call_names_the_extra_in_one_line(door: str, tmp_path: Path) -> None:
    """As an ImportError that is an error of the ledger, too."""
    package, extra, code = CALLS[door]
    check_line(said_without(package, code + SAY, folder=tmp_path), extra)


HELPS = ("token", "webhook", "serve", "export", "lab soak", "lab bench")


@pytest.mark.parametrize("page", few_fast(HELPS, fast=1))
def test_help_needs_no_extra(page: str, tmp_path: Path) -> None:
    """Nor does what a command can do without it."""
    *lab, command = page.split()
    run = RUN_LAB if lab else RUN
    words = (sys.executable, "-c", HIDE + run, ",".join(EXTRAS), command, "--help")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_optional_package_is_known() -> None:
    """Those that code may import are those of the extras for users."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    of_users = {
        (extra, package.split(">")[0])
        for extra in ("parquet", "kafka", "otel", "service", "client", "bench")
        for package in extras[extra]
    }
    assert of_users == set(EXTRAS.values())


def test_another_missing_module_is_a_defect() -> None:
    """It is not hidden by a message about extras."""
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), needing("this"):
        importlib.import_module("no_such_module")


def test_nothing_says_to_install_this_distribution_by_its_name() -> None:
    """Neither in code nor in a page: whoever registers the name would be installed."""
    paths = [
        path
        for room in ("ledger", "compactor", "deploy", ".github")
        for path in (ROOT / room).rglob("*")
        if path.suffix in {".py", ".md", ".yaml", ".service", ""} and path.is_file()
    ]
    assert len(paths) > 500
    naming = [
        str(path)
        for path in (*paths, ROOT / "README.md")
        if any(
            "multi-region-ledger" in line
            for line in path.read_text(encoding="utf-8").splitlines()
            if "pip install" in line
        )
    ]
    assert naming == []
