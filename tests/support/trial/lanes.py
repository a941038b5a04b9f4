"""Files that records are appended to, and the processes of `ledger pipeline run` that read them."""

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from support.commands import command_line
from support.trial.processes import Worker, started

FINISH_SECONDS_MAX = 240.0
POLL_SECONDS = 0.05
_READ = re.compile(r"[1-9][0-9,]* records read")


@dataclass
class LaneOfFiles:
    """A path that records are appended to, the files it had before, and its workers.

    One that follows is read by `--follow` and rotated; else its worker ends at the file's end, and
    the file is renamed, or exported again with the same first line.
    """

    name: str
    pipeline: str
    region: str
    folder: Path
    follows: bool
    path: Path = field(init=False)
    moved: list[Path] = field(default_factory=list)
    """Files that are not appended to any more and may not be read to their end."""
    worker: Worker | None = None
    zombies: list[Worker] = field(default_factory=list)
    first: bytes = b""
    ended: dict[str, int] = field(default_factory=dict)
    """How its processes ended, and how often."""
    _files: int = 0

    def __post_init__(self) -> None:
        self.path = self.folder / f"{self.name}.jsonl"
        self.path.touch()

    @property
    def dead(self) -> Path:
        """Its dead letters."""
        return self.folder / f"{self.name}.dead"

    def append(self, lines: Iterable[bytes]) -> None:
        """Append records as a producer does."""
        content = b"".join(line + b"\n" for line in lines)
        if not self.first and content:
            self.first = content.split(b"\n", 1)[0]
        with self.path.open("ab") as file:
            file.write(content)

    def words(self, path: Path, config: Path, *more: str) -> list[str]:
        """Return the words of a process that reads a file of the lane."""
        options = ("--region", self.region, "--pipeline", self.pipeline, "--config", str(config))
        dead = ("--dead", str(self.dead))
        return command_line("ledger", "pipeline", "run", str(path), *options, *dead, *more)

    def start(self, config: Path, *, follows: bool = False) -> None:
        """Start a worker on the current path."""
        more = ("--follow",) if self.follows or follows else ()
        self.worker = self._started(self.words(self.path, config, *more))

    def wait_until_read(self, seconds: float) -> None:
        """Wait until its worker says that it has read records, or has ended."""
        until = time.monotonic() + seconds
        while self.worker is not None and self.worker.is_alive and time.monotonic() < until:
            if _READ.search(self.worker.said_since_start()):
                return
            time.sleep(POLL_SECONDS)

    def note_end(self) -> None:
        """Note how a worker ended, if it did."""
        worker = self.worker
        if worker is not None and not worker.is_alive:
            self._note(worker)
            self.worker = None
        for zombie in [one for one in self.zombies if not one.is_alive]:
            self._note(zombie)
            self.zombies.remove(zombie)

    def move(self) -> str:
        """Give the file another name; one that is followed leaves an empty one at its path."""
        if self.follows:
            self._keep()
            self.path.touch()
            return "rotated by move"
        self._files += 1
        self.path = self.path.rename(self.folder / f"{self.name}-{self._files}.jsonl")
        return "renamed"

    def export(self) -> str:
        """Put a file with the same first line in its place; one that is followed is truncated.

        The former content is kept, as that which only can finish what was begun of it.
        """
        if not self.follows:
            self._keep()
            self.append([self.first])
            return "exported again"
        copy = self._kept()
        shutil.copyfile(self.path, copy)
        self.moved.append(copy)
        with self.path.open("r+b") as file:
            file.truncate(0)
        return "copytruncate"

    def finish(self, path: Path, config: Path) -> tuple[int, str]:
        """Bring a file to its end in a process; return its status and what it said."""
        worker = self._started(self.words(path, config))
        try:
            worker.process.wait(FINISH_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            worker.kill()
            return -int(signal.SIGALRM), f"no end in {FINISH_SECONDS_MAX:g} s: {worker.said()}"
        return worker.process.returncode, worker.said()

    def letters(self) -> list[tuple[bytes, str]]:
        """Return record and reason of each dead letter."""
        if not self.dead.exists():
            return []
        found = []
        for line in self.dead.read_text(encoding="utf-8").splitlines():
            try:
                letter = json.loads(line)
            except ValueError:
                continue  # its writer was killed; the letter came again
            raw = letter["record"].encode(errors="surrogateescape")
            found.append((raw, letter["reason"]))
        return found

    def kill_all(self) -> None:
        """Kill all its processes."""
        for worker in [*self.zombies, *([self.worker] if self.worker else [])]:
            worker.kill()
        self.note_end()

    def _keep(self) -> None:
        self.moved.append(self.path.rename(self._kept()))

    def _kept(self) -> Path:
        self._files += 1
        return self.folder / f"{self.name}.jsonl.{self._files}"

    def _note(self, worker: Worker) -> None:
        status = worker.process.returncode
        how = f"signal {-status}" if status < 0 else f"status {status}"
        if status > 0:
            how += f": {_kind_of(worker.said())}"
        self.ended[how] = self.ended.get(how, 0) + 1

    def _started(self, words: list[str]) -> Worker:
        return started(words, self.folder, self.name)


def _kind_of(said: str) -> str:
    """Return the last line of an output without what is of one file or region alone."""
    lines = [line for line in said.splitlines() if line.strip()]
    return " ".join(word for word in lines[-1].split() if "/" not in word)[:120] if lines else ""
