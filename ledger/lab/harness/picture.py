"""Pictures of a report: the file is checked before the run, matplotlib is loaded to draw."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ledger.core.errors import InvalidInput, LedgerError

INK, OURS, THEIRS, WRONG = "#333333", "#2f6db3", "#b8b8b8", "#c8553d"
_KINDS = {".svg", ".png"}


def check_picture(path: Path) -> None:
    """Check that a picture can be drawn.

    Raises:
        InvalidInput: neither .svg nor .png.
        LedgerError: matplotlib is not installed.
    """
    if path.suffix.lower() not in _KINDS:
        raise InvalidInput(f"--picture {path}: end it with {' or '.join(sorted(_KINDS))}")
    if find_spec("matplotlib") is None:
        raise LedgerError("a picture needs matplotlib: pip install 'multi-region-ledger[bench]'")


def save_picture(draw: Callable[[Any], None], path: Path) -> None:
    """Draw into a new matplotlib figure, and write it to a file."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (heavy, optional)

    figure = Figure(layout="constrained")
    draw(figure)
    figure.savefig(path, dpi=120)


def draw_bars(
    axis: Any,
    title: str,
    names: Sequence[str],
    values: Sequence[float],
    *,
    colours: Sequence[str],
    labels: Sequence[str],
) -> None:
    """Draw a labelled bar for each name, the first on top."""
    bars = axis.barh(names, values, color=colours)
    axis.bar_label(bars, labels=labels, fontsize=8, color=INK)
    axis.invert_yaxis()
    axis.margins(x=0.25)
    finish_axis(axis, title)


def finish_axis(axis: Any, title: str) -> None:
    """Give an axis the title and the look that all have."""
    axis.set_title(title, fontsize=10, loc="left")
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
