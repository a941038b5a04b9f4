"""Durations as people read them.

Pure: no clock, no randomness, no I/O.
"""

_MINUTE = 60
_LARGE = (("d", 86_400, "h", 3_600), ("h", 3_600, "min", _MINUTE), ("min", _MINUTE, "s", 1))
_IN_SECONDS = 2 * _MINUTE
"""Below it seconds are told, to a tenth: beside a bound of a minute that makes the difference."""


def spoken(seconds: float) -> str:
    """Return a duration in at most two units, such as `7 d 4 h`, `2 min 30 s` or `60.5 s`.

    What is smaller is cut off.
    """
    if seconds < _IN_SECONDS:
        return f"{int(seconds * 10) / 10:g} s"
    unit, size, lesser, part = next(each for each in _LARGE if seconds >= each[1])
    rest = int(seconds % size) // part
    return f"{seconds // size:,.0f} {unit}" + (f" {rest} {lesser}" if rest else "")
