"""Pictures of a report: the file is checked before the run, matplotlib is loaded to draw.

The colours are mid-tones on a transparent background, so that one file is readable on a light and
on a dark page. The same report gives the same SVG file, byte for byte.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger.core.errors import InvalidInput
from ledger.runtime.output import check_installed

INK, OURS, THEIRS, WRONG = "#7d8590", "#2f81d7", "#a0a7ae", "#e5534b"
_KINDS = {".svg", ".png"}
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ledger",
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK
    ),
}


def check_picture(path: Path) -> None:
    """Check that a picture can be drawn.

    Raises:
        InvalidInput: neither .svg nor .png.
        PackageMissing: matplotlib is not installed.
    """
    if path.suffix.lower() not in _KINDS:
        raise InvalidInput(f"--picture {path}: end it with {' or '.join(sorted(_KINDS))}")
    check_installed("matplotlib", "a picture")


def save_picture(draw: Callable[[Any], None], path: Path) -> None:
    """Draw into a new matplotlib figure, and write it to a file."""
    import matplotlib as mpl  # noqa: PLC0415 (heavy, optional)
    from matplotlib.figure import Figure  # noqa: PLC0415

    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    with mpl.rc_context(_STYLE):
        figure = Figure(layout="constrained")
        draw(figure)
        figure.savefig(path, dpi=120, transparent=True, metadata=metadata)


def finish_axis(axis: Any, title: str) -> None:
    """Set on an axis the title and the look that all have."""
    axis.set_title(title, fontsize=10, loc="left")
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
