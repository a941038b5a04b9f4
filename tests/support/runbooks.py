"""The runbooks under `deploy/runbooks`, read as a test runs them.

A runbook is a page of sections. What is run of it stands in its code blocks, in order:

    ```sh                   a command of ours a line; each ends with 0
    ```sh status=1          each ends with 1
    ```sh background        one command that goes on while the next blocks are run
    ```sh aws               commands of AWS, Kubernetes or systemd: the test replaces each by name
    ```text                 lines that the block before it prints; `...` stands for anything
    <!-- then: ... -->      what somebody does, or what happens, at this place

Words in capital letters are placeholders.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "deploy" / "runbooks"
INDEX = "README.md"
SECTIONS = ("You see", "What it means", "Do", "Done when")
"""What every runbook has, in this order; others may stand between."""
PROGRAMS = ("ledger", "compactor")

_PART = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<body>.*?)^ *```$"
    r"|^ *<!-- then: (?P<event>[^\n]*?) -->$"
    r"|^## (?P<section>[^\n]+)$",
    flags=re.MULTILINE | re.DOTALL,
)
PLACEHOLDER = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
_INLINE = re.compile(r"`((?:ledger|compactor) [^`]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """Commands that are run one after another, each a line."""

    lines: tuple[str, ...]
    status: int = 0
    is_background: bool = False
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Expected:
    """Lines that the block before prints."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """What somebody does, or what happens, at this place of a runbook."""

    text: str


Part = Block | Expected | Event


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a runbook: its title, and what is run of it."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Runbook:
    """A runbook as a test runs it."""

    name: str
    text: str
    sections: tuple[Section, ...]

    @property
    def blocks(self) -> list[Block]:
        """Every block of commands."""
        return [
            part for section in self.sections for part in section.parts if isinstance(part, Block)
        ]

    @property
    def inline(self) -> list[str]:
        """Every command of ours that its prose names."""
        return _INLINE.findall(_PART.sub("", self.text))


def names() -> list[str]:
    """Return the name of every runbook."""
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.name != INDEX)


def read(name: str) -> Runbook:
    """Return a runbook."""
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    return Runbook(name, text, tuple(_sections(text)))


def _sections(text: str) -> Iterator[Section]:
    title, parts = "", list[Part]()
    for found in _PART.finditer(text):
        if found["section"] is not None:
            yield Section(title, tuple(parts))
            title, parts = found["section"], []
        elif found["event"] is not None:
            parts.append(Event(found["event"]))
        elif (part := _block(found["info"], found["body"])) is not None:
            parts.append(part)
    yield Section(title, tuple(parts))


def _block(info: str, body: str) -> Part | None:
    language, *options = info.split()
    if language not in {"sh", "text"}:
        return None
    lines = tuple(line.strip() for line in body.replace("\\\n", " ").splitlines() if line.strip())
    if language == "text":
        return Expected(lines)
    lines = tuple(re.sub(r"\s+#.*$", "", line) for line in lines)
    statuses = [int(option[7:]) for option in options if option.startswith("status=")]
    unknown = {*options} - {"aws", "background"} - {f"status={status}" for status in statuses}
    assert not unknown, f"```{info}: {unknown}"
    return Block(
        tuple(" ".join(line.split()) for line in lines),
        status=statuses[0] if statuses else 0,
        is_background="background" in options,
        is_foreign="aws" in options,
    )


def filled(line: str, values: Mapping[str, str]) -> str:
    """Return a line with its placeholders replaced.

    Raises:
        AssertionError: it has one that nothing is given for.
    """
    missing = {*PLACEHOLDER.findall(line)} - {*values}
    assert not missing, f"{line}: nothing is given for {', '.join(sorted(missing))}"
    return PLACEHOLDER.sub(lambda found: values[found[0]], line)


def filled_text(line: str, values: Mapping[str, str]) -> str:
    """Return a line that is printed; words in capitals may be the program's own there."""
    return PLACEHOLDER.sub(lambda found: values.get(found[0], found[0]), line)


def words_of(line: str, values: Mapping[str, str]) -> list[str]:
    """Return the words of a command line, as a shell splits them, its placeholders replaced."""
    return shlex.split(filled(line, values))


def is_printed(line: str, output: str) -> bool:
    """Return whether an output has a line, however it is folded."""
    parts = (re.escape(" ".join(part.split())) for part in line.split("..."))
    return re.search(".*?".join(parts), " ".join(output.split())) is not None


def headings(file: Path) -> set[str]:
    """Return the anchors of a page."""
    titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
