"""`RESULTS.md`: the tables that the simulator and the explorer write, each under its own heading.

A command with `--markdown` writes its table anew and leaves the others as they are. Tests compare
the page with the code, and each row with what a walk finds.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).with_name("RESULTS.md")
_HEADING = "\n## "


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    return [row_of(heads), "|" + "---|" * len(heads), *map(row_of, rows)]


def row_of(cells: Sequence[str]) -> str:
    """Return the line of a row."""
    return f"| {' | '.join(cells)} |"


def rows_of(title: str) -> dict[str, list[str]]:
    """Return the rows that the page shows under a heading, each by its name in the first cell."""
    rows = [line.strip("| ").split(" | ") for line in _text_of(title) if line.startswith("| `")]
    return {cells[0].strip("`"): cells for cells in rows}


def write(title: str, lines: Iterable[str]) -> None:
    """Put these lines under a heading of the page, which is added if there is none."""
    head, *sections = PAGE.read_text(encoding="utf-8").split(_HEADING)
    texts = dict(section.split("\n", 1) for section in sections)
    texts[title] = "\n" + "\n".join(lines) + "\n"
    sections = [f"{name}\n{text.rstrip()}\n" for name, text in texts.items()]
    PAGE.write_text(_HEADING.join([head.rstrip() + "\n", *sections]), encoding="utf-8")


def _text_of(title: str) -> list[str]:
    _, found, rest = PAGE.read_text(encoding="utf-8").partition(f"{_HEADING}{title}\n")
    if not found:
        return []
    return rest.split(_HEADING)[0].splitlines()
