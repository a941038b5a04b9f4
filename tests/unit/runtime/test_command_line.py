"""What every program does at its edge: help, version, interrupts, what the system refuses."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import command_line, environment, run_command, run_command_here

import compactor.cli
import ledger.commands.main
from ledger.runtime.command_line import new_app, run

INTERRUPTED_IMPORT = (
    "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
)


@pytest.mark.parametrize("words", [("-h",), ("total", "-h"), ("table", "create", "-h")])
def test_help_has_a_short_name(words: tuple[str, ...], tmp_path: Path) -> None:
    """`-h` is `--help`, at every depth."""
    ran = run_command_here("ledger", *words, folder=tmp_path)
    assert (ran.status, ran.errors) == (0, "")
    assert ran.out.startswith(f"Usage: ledger {' '.join(words[:-1])}".rstrip())


@pytest.mark.parametrize("program", ["ledger", "compactor"])
def test_a_program_says_its_version(program: str, tmp_path: Path) -> None:
    """`--version` names the package and its version."""
    ran = run_command_here(program, "--version", folder=tmp_path)
    assert (ran.status, ran.errors) == (0, "")
    assert ran.out.startswith("multi-region-ledger 0.")


@pytest.mark.parametrize("words", [(), ("table",)])
def test_without_a_command_the_help_is_shown(words: tuple[str, ...], tmp_path: Path) -> None:
    """As it stands, not as one line of error; still a wrong command line."""
    ran = run_command_here("ledger", *words, folder=tmp_path)
    assert (ran.status, ran.out) == (2, "")
    assert ran.errors.startswith("Usage: ledger")
    assert "error" not in ran.errors.splitlines()[0]


def test_what_the_system_refuses_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An OSError that no code expected names its file and ends with 1."""
    app = new_app()

    @app.command()
    def read() -> None:
        Path("no/such/file").read_text()

    monkeypatch.setattr(sys, "argv", ["read"])
    with pytest.raises(SystemExit) as ended:
        run(app)
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: no/such/file: No such file or directory\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """Also what only the last flush finds, and what the interpreter would flush once more."""
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            command_line("ledger", "--version"), cwd=tmp_path, env=environment(tmp_path),
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (1, "error: No space left on device\n")


def test_a_reader_that_is_gone_hides_no_error(tmp_path: Path) -> None:
    """What a command had printed before it failed is lost, and its error is the only line."""
    reading, writing = os.pipe()
    os.close(reading)
    code = (
        "import sys\nfrom ledger.core.errors import LedgerError\n"
        "from ledger.runtime.command_line import new_app, run\napp = new_app()\n"
        "@app.command()\ndef fail() -> None:\n"
        "    sys.stdout.write('begun')\n    raise LedgerError('it failed')\nrun(app)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=Path.cwd(), stdout=writing, stderr=subprocess.PIPE,
        env=environment(tmp_path, PYTHONUNBUFFERED=""), text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (1, "error: it failed\n")


@pytest.mark.parametrize("program", ["ledger", "compactor"])
@pytest.mark.parametrize("module", ["typer", "anyio"])
def test_an_interrupt_while_modules_load_is_one_line(
    program: str, module: str, tmp_path: Path
) -> None:
    """Ctrl-C in the first tenth of a second, and in the import of the command itself."""
    (tmp_path / f"{module}.py").write_text(INTERRUPTED_IMPORT)
    words = {"ledger": ("total", "a"), "compactor": ("status",)}[program]
    variables = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path.cwd())])}
    ran = run_command(program, *words, folder=tmp_path, variables=variables)
    assert ran.status == 128 + signal.SIGINT
    assert ran.out == ""
    assert ran.errors in ("interrupted\n", "")  # typer says nothing of one in a command


def test_programs_are_what_their_entry_points_start() -> None:
    """The modules that the entry points name have the `main` that they start."""
    assert callable(ledger.commands.main.main)
    assert callable(compactor.cli.main)
