"""The tables of pages that are made from the code."""


def row(*cells: str) -> str:
    """Return a row of a table; a cell is the text of one line, whatever its line breaks."""
    plain = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(plain)} |\n"


def table(*names: str) -> str:
    """Return the head of a table."""
    return row(*names) + "|---" * len(names) + "|\n"
