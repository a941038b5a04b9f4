"""Runs drawn command lines, each in a fork of this process, which has imported all commands.

The fork has a folder of its own files, a limited size of files, and some seconds; then it is
interrupted as by Ctrl-C, and killed if that does not end it.
"""

import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from compactor.cli import app as compactor_app
from compactor.cli import main as compactor_main
from ledger.commands.main import app as ledger_app
from ledger.commands.main import main as ledger_main
from ledger.runtime.clock import SystemClock
from proof.fuzz.judging import Ended
from proof.fuzz.words import Case

RUN_SECONDS_MAX = 5.0
INTERRUPTED_SECONDS_MAX = 60.0
POLL_SECONDS = 0.005
START_SECONDS_MAX = 120.0
FILE_BYTES_MAX = 50_000_000
MEMORY_BYTES_MAX = 4_000_000_000
OUTPUT_BYTES_MAX = 1_000_000
REGIONS = "us-east-1,eu-west-1"
FILES: Mapping[str, bytes] = {
    "good.csv": b"counter,change\na,1\nb,2.50\n",
    "bad.csv": "counter,change\na,x\n\x1b[2K,1\n\u202e,".encode(),
    "records.jsonl": b'{"id": "a", "version": 1, "value": 2}\n{"id": "\\u001b"}\n{\n\xff\n',
    "letters.dead": b"{}\n[1]\nnull\n",
    "broken.yaml": b"home: us-east-1\nregions: [\n",
    "password.yaml": b"home: us-east-1\nregions: {us-east-1: {endpoint: 'http://u:hunter2@127.0.0.1:1'}}\n",
    "folder/inside": b"kept",
}


PROGRAMS: Mapping[str, Callable[[], None]] = {
    "ledger": ledger_main,
    "compactor": compactor_main,
}


def commands() -> list[tuple[tuple[str, ...], Any]]:
    """Return every command of both programs, loaded, with the words that lead to it."""
    return [
        one
        for name, app in (("ledger", ledger_app), ("compactor", compactor_app))
        for one in _below((name,), typer.main.get_command(app))
    ]


def _below(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = command.load() if hasattr(command, "load") else command
    group = getattr(command, "commands", None)
    if group is None:
        yield path, command
        return
    for name, one in group.items():
        yield from _below((*path, name), one)


def make_files(folder: Path) -> None:
    """Write the files that command lines name, but for the settings."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files that no command may change by itself."""
    names = (*FILES, "regions.yaml")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}


@contextmanager
def table_for(folder: Path) -> Iterator[None]:
    """Run a local global table in a process of its own; its settings are the folder's."""
    words = [sys.executable, "-m", "ledger", "local", "up", "--no-table", "--regions", REGIONS]
    written = folder / "regions.yaml"
    with subprocess.Popen(  # noqa: S603 (our own words)
        [*words, "--write-config", str(written)],
        env=environment_of(folder),
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            _wait_for(written)
            yield
        finally:
            process.terminate()


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{file} was not written within {START_SECONDS_MAX} s")
        time.sleep(POLL_SECONDS)


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of a command, which can reach nothing but the local table."""
    ours = ("LEDGER_", "AWS_", "XDG_")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return plain | {
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state-home"),
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "EDITOR": "false",
    }


def run_case(case: Case, folder: Path, *, seconds_max: float = RUN_SECONDS_MAX) -> Ended:
    """Run a command line to its end, by an interrupt if it takes longer."""
    clock = SystemClock()
    began = clock.monotonic()
    out, errors = folder.parent / "out", folder.parent / "errors"
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _run_forked(case, folder, out, errors)
    status = _wait(child, seconds_max)
    return Ended(status, _text(out, case), _text(errors, case), clock.monotonic() - began)


def _run_forked(case: Case, folder: Path, out: Path, errors: Path) -> None:
    """Be the command, in the fork; never returns."""
    status = 70  # of an error here
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & ignores it
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment_of(folder) | dict(case.environment))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
        _redirect(case, out, errors)
        sys.argv = list(case.words)
        status = _status_of(PROGRAMS[case.words[0]])
    except BaseException:  # noqa: BLE001 (of this module: shown as a finding)
        traceback.print_exc()
    finally:
        os._exit(status)


def _redirect(case: Case, out: Path, errors: Path) -> None:
    where = {"full": "/dev/full", "closed": os.devnull}.get(case.output, str(out))
    out.write_bytes(b"")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(where, flags), 1)
    os.dup2(os.open(errors, flags), 2)
    if case.output == "closed":
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
    sys.stdout = open(1, "w", encoding=case.encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=case.encoding, closefd=False)  # noqa: SIM115


def _status_of(main: Callable[[], None]) -> int:
    try:
        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    except BaseException:  # noqa: BLE001 (what the interpreter would show)
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            traceback.print_exc()
    return status


def _wait(child: int, seconds_max: float) -> int | None:
    """Return the status, None if it had to be killed."""
    for seconds, then in (
        (seconds_max, signal.SIGINT),
        (INTERRUPTED_SECONDS_MAX, signal.SIGKILL),
    ):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                _end_group(child)
                return os.waitstatus_to_exitcode(status)
            time.sleep(POLL_SECONDS)
        os.killpg(child, then)  # as a terminal does
    os.waitpid(child, 0)
    _end_group(child)
    return None


def _end_group(child: int) -> None:
    """End what the command has left running, which has its session."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return


def _text(file: Path, case: Case) -> str:
    with file.open("rb") as opened:
        return opened.read(OUTPUT_BYTES_MAX).decode(case.encoding, errors="backslashreplace")


def fill_table(folder: Path, cases: Sequence[Sequence[str]]) -> None:
    """Run command lines that put something into the table; some fail if it is there already."""
    for words in cases:
        case = Case(0, ("ledger", *words), {}, "utf-8", "file")
        run_case(case, folder, seconds_max=START_SECONDS_MAX)
